"""`scaled_copies`: models of `transformers` from one configuration at several widths, for measurements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from initscope.errors import InputError
from initscope.models.hub_models import library
from initscope.scaling.families import entries_of

if TYPE_CHECKING:
    from torch import nn

__all__ = ["scaled_copies"]

_WIDTHS = {
    **dict.fromkeys(
        ("llama", "mistral", "qwen2", "mixtral"),
        ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads"),
    ),
    "gpt2": ("n_embd", "n_inner", "n_head"),
    **dict.fromkeys(("bert", "roberta"), ("hidden_size", "intermediate_size", "num_attention_heads")),
}
_KINDS = {"bert": "AutoModelForMaskedLM", "roberta": "AutoModelForMaskedLM"}


def scaled_copies(source: Any, **changes: Any) -> tuple[int, Callable[[int], nn.Module]]:
    """Return the width of a configuration and a factory of its model at other widths; heads keep their size.

    Parameters
    ----------
    source : path, dict or str
        See `read`. Needs the library `transformers`.
    changes
        Entries to set, by their names in the configuration.

    Returns
    -------
    width : int
        Width of the configuration.
    factory : callable
        ``factory(width)`` returns a model that `transformers` initialized.
    """
    entries = entries_of(source, **changes)
    kind = str(entries.get("model_type"))
    if kind not in _WIDTHS:
        raise InputError(f"model_type {kind!r} cannot be built at several widths; supported: {', '.join(_WIDTHS)}")
    transformers = library("transformers")
    first = _WIDTHS[kind][0]
    base = int(entries[first])

    def factory(width: int) -> nn.Module:
        made = transformers.AutoConfig.for_model(kind, **_without_names(entries) | _scaled(entries, kind, width / base))
        model: nn.Module = getattr(transformers, _KINDS.get(kind, "AutoModelForCausalLM")).from_config(made)
        return model

    return base, factory


def _scaled(entries: Mapping[str, Any], kind: str, factor: float) -> dict[str, Any]:
    """Return widths and numbers of heads times a factor; they must be whole numbers."""
    result: dict[str, Any] = {"use_cache": False}
    for name in _WIDTHS[kind]:
        value = entries.get(name)
        if value is None:
            continue
        if abs(value * factor - round(value * factor)) > 1e-9 or value * factor < 1:
            raise InputError(f"{name} = {value} times {factor:g} is not a whole number; choose other factors")
        result[name] = round(value * factor)
    return result


def _without_names(entries: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries without those that describe how the model was saved."""
    left_out = ("model_type", "architectures", "transformers_version", "torch_dtype", "dtype", "_name_or_path")
    return {name: value for name, value in entries.items() if name not in left_out}
