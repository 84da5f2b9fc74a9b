"""Initializations of transformers by name, applied to a configuration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from initscope.errors import InputError
from initscope.scaling.transformer import Spreads, Transformer

__all__ = ["INITIALIZATIONS", "with_initialization"]


def _constant(model: Transformer) -> Transformer:
    """Return the standard deviation 0.02 for all weights."""
    spreads = {name: 0.02 if value else 0.0 for name, value in vars(model.spreads).items()}
    return replace(model, spreads=Spreads(**spreads), scale=model.head_size**-0.5, head_scale=1.0)


def _depth_scaled(model: Transformer) -> Transformer:
    """Return the standard deviation 0.02, divided by √(2L) for the output weights of branches [Radford2019]_."""
    base = _constant(model)
    scaled = 0.02 / (2 * model.layers) ** 0.5
    return replace(base, spreads=replace(base.spreads, output=scaled, down=scaled))


def _mup(model: Transformer) -> Transformer:
    """μP [Yang2021]_: 1/√fan-in for hidden weights, 1 for embeddings, 1/width for the head, and 1/d attention."""
    inside, heads = model.width**-0.5, (model.heads * model.head_size) ** -0.5
    spreads = Spreads(
        embedding=1.0, positions=1.0 if model.spreads.positions else 0.0, query=inside, key=inside, value=inside,
        output=heads, up=inside, down=model.inner**-0.5, head=1 / model.width,
        common=1.0 if model.spreads.common else 0.0,
    )  # fmt: skip
    return replace(model, spreads=spreads, scale=1 / model.head_size, tied=False, head_scale=1.0)


def _deepnorm(model: Transformer) -> Transformer:
    """DeepNorm: post-norm, stream times (2L)^¼, and values, outputs and feed-forward weights times (8L)^-¼."""
    if model.decoder:
        raise InputError(
            f"deepnorm is not supported for encoder-decoder models such as {model.family}, which need other factors"
        )
    gain, layers = (8 * model.layers) ** -0.25, model.layers
    inside, heads = model.width**-0.5, (model.heads * model.head_size) ** -0.5
    spreads = replace(
        model.spreads, query=inside, key=inside, value=gain * inside, output=gain * heads, up=gain * inside,
        down=gain * model.inner**-0.5,
    )  # fmt: skip
    return replace(
        model, spreads=spreads, order="post", embedding_norm=True, branch_norm=False, parallel=False,
        shortcut=(2 * layers) ** 0.25, scale=model.head_size**-0.5,
    )  # fmt: skip


def _zero_outputs(model: Transformer) -> Transformer:
    """Zero output weights in all branches, so that every block is the identity at initialization."""
    return replace(model, spreads=replace(model.spreads, output=0.0, down=0.0))


INITIALIZATIONS: dict[str, Callable[[Transformer], Transformer]] = {
    "configuration": lambda model: model,
    "0.02": _constant,
    "depth-scaled": _depth_scaled,
    "mup": _mup,
    "deepnorm": _deepnorm,
    "zero-outputs": _zero_outputs,
}
"""Initializations by name; ``configuration`` is that of the configuration, DeepNorm is from [Wang2022]_."""


def with_initialization(model: Transformer, name: str) -> Transformer:
    """Return the model with the same sizes and another initialization.

    Parameters
    ----------
    model : Transformer
        From `initscope.scaling.read`.
    name : str
        A key of `INITIALIZATIONS`.

    Returns
    -------
    Transformer
    """
    if name not in INITIALIZATIONS:
        raise InputError(f"initialization = {name!r} is unknown; choose one of {', '.join(INITIALIZATIONS)}")
    return INITIALIZATIONS[name](model)
