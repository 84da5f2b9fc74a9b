"""`width_exponents`: how the sizes of a configuration grow with its width, by evaluating the recursion at several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from initscope.configurations.recursion import outlook
from initscope.configurations.transformer import Transformer
from initscope.errors import InputError
from initscope.results import Result
from initscope.theory.attention import growth_exponent

__all__ = ["WidthExponents", "width_exponents"]

_TOLERANCE = 0.1


@dataclass(frozen=True)
class WidthExponents(Result):
    """Exponents against the width of every row's root mean square, and of the scores of attention."""

    widths: tuple[int, ...]
    layers: tuple[str, ...]
    rms: tuple[float, ...]
    scores: tuple[float | None, ...]
    verdicts: tuple[str, ...]

    def table(self) -> list[dict[str, Any]]:
        """One dict per row."""
        columns = zip(self.layers, self.rms, self.scores, strict=True)
        return [{"layer": layer, "rms": rms, "scores": scores} for layer, rms, scores in columns]


def width_exponents(model: Transformer, factors: Sequence[float], *, tokens: int = 32, seed: int = 0) -> WidthExponents:
    """Exponents at the start: widths of the configuration times ``factors``, heads of the same size.


    Examples
    --------
    >>> from initscope.configurations import read
    >>> model = read({"model_type": "gpt2", "n_embd": 64, "n_layer": 1, "n_head": 2, "vocab_size": 100})
    >>> round(width_exponents(model, [1, 2, 4], tokens=8).rms[-1], 2)      # logits: 0.02·√width
    0.5
    """
    if len(set(factors)) < 2:
        raise InputError(f"factors = {tuple(factors)}: an exponent needs at least two different ones")
    made = [model.widened(factor) for factor in factors]
    told = [outlook(one, tokens, seed=seed).rows for one in made]
    widths = tuple(one.width for one in made)
    rms = tuple(float(growth_exponent(widths, [row.rms for row in each])) for each in zip(*told, strict=True))
    scores = tuple(
        float(growth_exponent(widths, [row.scores for row in each])) if each[0].kind == "attention" else None
        for each in zip(*told, strict=True)
    )
    layers = tuple(row.layer for row in told[0])
    verdicts = [
        f"{layer} grows like width^{value:.2g}" for layer, value in zip(layers, rms, strict=True) if value > _TOLERANCE
    ]
    worst = max((value for value in scores if value is not None), default=0.0)
    if worst > _TOLERANCE:
        verdicts.insert(0, f"scores of attention grow like width^{worst:.2g}: scale queries and keys by 1/√width")
    return WidthExponents(widths, layers, rms, scores, tuple(verdicts[:4]))
