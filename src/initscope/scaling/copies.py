"""`scaled_copies`: models of `transformers` from one configuration at several widths, for what is to be measured."""

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
        As of `read`; needs the library `transformers`.
    changes
        Entries to set, by their names in the configuration.

    Returns
    -------
    width : int
        Of the configuration itself.
    factory : callable
        ``factory(width)``, its weights drawn as `transformers` draws them.
    """
    entries = entries_of(source, **changes)
    kind = str(entries.get("model_type"))
    if kind not in _WIDTHS:
        raise InputError(f"models of {kind} are not built at several widths; known: {', '.join(_WIDTHS)}")
    transformers = library("transformers")
    first = _WIDTHS[kind][0]
    base = int(entries[first])

    def factory(width: int) -> nn.Module:
        made = transformers.AutoConfig.for_model(kind, **_without_names(entries) | _scaled(entries, kind, width / base))
        model: nn.Module = getattr(transformers, _KINDS.get(kind, "AutoModelForCausalLM")).from_config(made)
        return model

    return base, factory


def _scaled(entries: Mapping[str, Any], kind: str, factor: float) -> dict[str, Any]:
    """Widths and numbers of heads times a factor, which must leave them whole."""
    result: dict[str, Any] = {"use_cache": False}
    for name in _WIDTHS[kind]:
        value = entries.get(name)
        if value is None:
            continue
        if abs(value * factor - round(value * factor)) > 1e-9 or value * factor < 1:
            raise InputError(f"{name} = {value} times {factor:g} is no whole number; give other factors")
        result[name] = round(value * factor)
    return result


def _without_names(entries: Mapping[str, Any]) -> dict[str, Any]:
    """Entries that say how a model was saved are no sizes."""
    left_out = ("model_type", "architectures", "transformers_version", "torch_dtype", "dtype", "_name_or_path")
    return {name: value for name, value in entries.items() if name not in left_out}
