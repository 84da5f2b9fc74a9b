"""Models of other libraries: ``hf:NAME_OR_CONFIG`` and ``timm:NAME``, randomly initialized; nothing is downloaded."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from initscope._utils.files import read_small
from initscope._utils.libraries import library
from initscope.errors import InputError, did_you_mean

if TYPE_CHECKING:
    import torch

__all__ = ["BUILDERS", "hf_config", "hf_model", "library", "timm_model"]


def hf_model(text: str) -> torch.nn.Module:
    """Return the transformers model of a configuration (see `hf_config`), with its head if it names one.

    The entry ``architectures`` gives the class. Without it, the first that exists: causal language model, image
    classification, bare model.
    """
    config = hf_config(text)
    transformers = library("transformers")
    for name in getattr(config, "architectures", None) or ():
        if hasattr(transformers, name):
            model: torch.nn.Module = getattr(transformers, name)(config)
            return model
    for kind in ("AutoModelForCausalLM", "AutoModelForImageClassification", "AutoModel"):
        try:
            default: torch.nn.Module = getattr(transformers, kind).from_config(config)
        except ValueError:  # this type of model has no such head
            continue
        return default
    raise InputError(f"hf:{text}: transformers has no model for {type(config).__name__}; give another configuration")


def hf_config(text: str, **changes: Any) -> Any:
    """Return the transformers configuration that ``text`` names, with ``changes`` of its entries.

    Nothing is downloaded.
    ``text`` is a class (``LlamaConfig``), a model type (``llama``), a config.json, or a folder with one, as
    ``save_pretrained`` writes. The name of a model on the hub works if it is in the local cache.
    """
    transformers = library("transformers")
    path = Path(text)
    if path.is_dir() or path.is_file():
        return _from_file(text, path / "config.json" if path.is_dir() else path, changes)
    config_class = getattr(transformers, text, None) if text.isidentifier() and text.endswith("Config") else None
    kinds = list(transformers.CONFIG_MAPPING)
    if text in kinds:
        config_class = transformers.CONFIG_MAPPING[text]
    if config_class is not None:
        try:
            return config_class(**changes)
        except Exception as error:  # each class checks its entries in its own way
            message = " ".join(str(error).split())
            raise InputError(f"hf:{text}: transformers refuses these entries: {message}") from error
    try:
        return transformers.AutoConfig.from_pretrained(text, local_files_only=True, **changes)
    except Exception as error:  # the hub client raises many types if it may not connect
        raise InputError(
            f"hf:{text} is not a configuration class (LlamaConfig), a model type (llama), a config.json"
            f" or a cached model{did_you_mean(text, kinds)}; initscope downloads nothing"
        ) from error


def _from_file(text: str, path: Path, changes: dict[str, Any]) -> Any:
    transformers = library("transformers")
    try:
        content = json.loads(read_small(path, "a configuration in JSON", "give the config.json of a model"))
        return transformers.AutoConfig.for_model(**{**content, **changes})
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"hf:{text}: {path} is not a configuration with a model_type ({error})") from error


def timm_model(text: str) -> torch.nn.Module:
    """Return the timm model of that name, with timm's own initialization."""
    timm = library("timm")
    names = timm.list_models()
    if text.partition(".")[0] not in names:
        raise InputError(f"timm:{text}: no such model in timm{did_you_mean(text, names)}; timm.list_models() names all")
    model: torch.nn.Module = timm.create_model(text, pretrained=False)
    return model


BUILDERS: dict[str, Callable[[str], Any]] = {"hf": hf_model, "timm": timm_model}
"""Prefix of a MODEL → the function that builds it."""
