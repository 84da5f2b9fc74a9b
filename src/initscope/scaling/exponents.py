"""`width_exponents`, `depth_exponents`: predicted growth of the RMS with the width or depth of a configuration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from initscope.errors import InputError
from initscope.results import Result
from initscope.scaling.recursion import Outlook, outlook
from initscope.scaling.transformer import Transformer
from initscope.theory.attention import growth_exponent

__all__ = ["DepthExponents", "WidthExponents", "depth_exponents", "width_exponents"]

_TOLERANCE = 0.1


@dataclass(frozen=True)
class WidthExponents(Result):
    """Exponents against the width: of the root mean square of every row, and of attention scores."""

    widths: tuple[int, ...]
    layers: tuple[str, ...]
    rms: tuple[float, ...]
    scores: tuple[float | None, ...]
    findings: tuple[str, ...]

    def table(self) -> list[dict[str, Any]]:
        """Return one dict per row."""
        columns = zip(self.layers, self.rms, self.scores, strict=True)
        return [{"layer": layer, "rms": rms, "scores": scores} for layer, rms, scores in columns]


@dataclass(frozen=True)
class DepthExponents(Result):
    """Exponents of quantities after the last block against the number of blocks (see `depth_exponents`)."""

    depths: tuple[int, ...]
    quantities: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    exponents: tuple[float, ...]
    findings: tuple[str, ...]

    def table(self) -> list[dict[str, Any]]:
        """Return one dict per quantity: its value at every depth, and the exponent."""
        return [
            {"of": name}
            | {f"{depth} blocks": value for depth, value in zip(self.depths, values, strict=True)}
            | {"exponent": exponent}
            for name, values, exponent in zip(self.quantities, self.values, self.exponents, strict=True)
        ]


def width_exponents(model: Transformer, factors: Sequence[float], *, tokens: int = 32, seed: int = 0) -> WidthExponents:
    """Fit exponents at initialization over the widths of the configuration times ``factors``; heads keep their size.

    Parameters
    ----------
    model : Transformer
        From `initscope.scaling.read`.
    factors : sequence of float
        At least two different positive numbers.
    tokens : int
        Length of the sequences.
    seed : int
        Seed of the sampled heads.

    Returns
    -------
    WidthExponents

    Examples
    --------
    >>> from initscope.scaling import read
    >>> sizes = {"model_type": "gpt2", "n_embd": 64, "n_layer": 1, "n_head": 2, "vocab_size": 100}
    >>> model = read(sizes, tie_word_embeddings=False)
    >>> round(width_exponents(model, [1, 2, 4], tokens=8).rms[-1], 2)      # logits: 0.02·√width
    0.5
    """
    _check_factors(factors)
    models = [model.widened(factor) for factor in factors]
    predictions = [outlook(wider, tokens, seed=seed).rows for wider in models]
    widths, by_layer = tuple(wider.width for wider in models), list(zip(*predictions, strict=True))
    rms = tuple(float(growth_exponent(widths, [row.rms for row in rows])) for rows in by_layer)
    scores = tuple(
        float(growth_exponent(widths, [row.scores for row in rows])) if rows[0].kind == "attention" else None
        for rows in by_layer
    )
    layers = tuple(row.layer for row in predictions[0])
    findings = [
        f"{layer} grows like width^{value:.2g}" for layer, value in zip(layers, rms, strict=True) if value > _TOLERANCE
    ]
    worst = max((value for value in scores if value is not None), default=0.0)
    if worst > _TOLERANCE:
        findings.insert(0, f"scores of attention grow like width^{worst:.2g}: scale queries and keys by 1/√width")
    return WidthExponents(widths, layers, rms, scores, tuple(findings[:4]))


def depth_exponents(model: Transformer, factors: Sequence[float], *, tokens: int = 32, seed: int = 0) -> DepthExponents:
    """Fit exponents at initialization over the number of blocks of the configuration times ``factors``, at least 1.

    The quantities are the RMS of the residual stream after the last block, the share of the last branch, 1 minus the
    mean cosine of tokens, and the logits. Weights that a configuration scales with its depth, such as the output
    weights of branches in GPT-2, keep the scale of the given depth; call `read` with other depths to change that.

    Parameters
    ----------
    model, factors, tokens, seed
        See `width_exponents`.

    Returns
    -------
    DepthExponents

    Examples
    --------
    >>> from initscope.scaling import read
    >>> model = read({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 2,
    ...     "num_hidden_layers": 8, "vocab_size": 100, "initializer_range": 0.125})
    >>> result = depth_exponents(model, [1, 2, 4], tokens=8)
    >>> 0.4 < result.exponents[0] < 0.55      # the stream of a pre-norm stack grows like √depth
    True
    """
    _check_factors(factors)
    models = [model.deepened(factor) for factor in factors]
    depths = tuple(deeper.layers for deeper in models)
    if len(set(depths)) < 2:
        raise InputError(
            f"factors = {tuple(factors)} all give {depths[0]} blocks; the configuration has {model.layers}"
        )
    ends = [_ends(outlook(deeper, tokens, seed=seed)) for deeper in models]
    quantities = tuple(name for name in ends[0] if all(math.isfinite(end[name]) for end in ends))
    values = tuple(tuple(end[name] for end in ends) for name in quantities)
    exponents = tuple(float(growth_exponent(depths, of_depths)) for of_depths in values)
    findings = []
    if exponents[0] > _TOLERANCE:
        findings.append(
            f"the stream grows like depth^{exponents[0]:.2g}: divide the output weights of branches by √(2·blocks)"
        )
    apart = dict(zip(quantities, values, strict=True))["tokens apart"]
    if min(apart) < 0.05:
        depth = depths[apart.index(min(apart))]
        findings.append(f"tokens are indistinguishable at {depth} blocks: 1 - cosine is {min(apart):.2g}")
    return DepthExponents(depths, quantities, values, exponents, tuple(findings))


def _ends(prediction: Outlook) -> dict[str, float]:
    stream = [row for row in prediction.rows if row.kind == "feed-forward"]
    return {
        "stream": stream[-1].rms,
        "last branch's share": stream[-1].share,
        "tokens apart": 1 - stream[-1].token_cosine,
        "logits": prediction.logits,
    }


def _check_factors(factors: Sequence[float]) -> None:
    if len(set(factors)) < 2 or min(factors) <= 0:
        raise InputError(f"factors = {tuple(factors)}: an exponent needs at least two different positive factors")
