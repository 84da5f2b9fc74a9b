"""MODEL of other libraries: ``hf:NAME_OR_CONFIG`` of transformers and ``timm:NAME``, weights drawn, never fetched."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from initscope._utils.libraries import library
from initscope.errors import InputError, did_you_mean

if TYPE_CHECKING:
    import torch

__all__ = ["BUILDERS", "hf_config", "hf_model", "library", "timm_model"]


def hf_model(text: str) -> torch.nn.Module:
    """The model of transformers for a configuration (see `hf_config`), its head included where it names one.

    A configuration's ``architectures`` say which class; without, that of language models, of image classification, or
    the bare model, whichever there is.
    """
    config = hf_config(text)
    transformers = library("transformers")
    for name in getattr(config, "architectures", None) or ():
        if hasattr(transformers, name):
            model: torch.nn.Module = getattr(transformers, name)(config)
            return model
    for kind in ("AutoModelForCausalLM", "AutoModelForImageClassification", "AutoModel"):
        try:
            found: torch.nn.Module = getattr(transformers, kind).from_config(config)
        except ValueError:  # there is no such head for this kind of model
            continue
        return found
    raise InputError(f"hf:{text}: transformers has no model for {type(config).__name__}; give one of another kind")


def hf_config(text: str, **changes: Any) -> Any:
    """The configuration of transformers that ``text`` names, with ``changes`` of its entries; nothing is fetched.

    A class (``LlamaConfig``), a kind of model (``llama``), a config.json, or a folder with one, as
    ``save_pretrained`` writes. The name of a model of the hub is read where it has been fetched before.
    """
    transformers = library("transformers")
    path = Path(text)
    if path.is_dir() or path.is_file():
        return _from_file(text, path / "config.json" if path.is_dir() else path, changes)
    found = getattr(transformers, text, None) if text.isidentifier() and text.endswith("Config") else None
    kinds = list(transformers.CONFIG_MAPPING)
    if text in kinds:
        found = transformers.CONFIG_MAPPING[text]
    if found is not None:
        try:
            return found(**changes)
        except Exception as error:  # each class checks its entries in its own way
            told = " ".join(str(error).split())
            raise InputError(f"hf:{text}: transformers refuses these entries: {told}") from error
    try:
        return transformers.AutoConfig.from_pretrained(text, local_files_only=True, **changes)
    except Exception as error:  # whatever a hub that may not be asked raises
        raise InputError(
            f"hf:{text} is no class of transformers (LlamaConfig), no kind of model (llama), no config.json"
            f" and no model fetched before{did_you_mean(text, kinds)}; nothing is ever fetched here"
        ) from error


def _from_file(text: str, path: Path, changes: dict[str, Any]) -> Any:
    transformers = library("transformers")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return transformers.AutoConfig.for_model(**{**content, **changes})
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"hf:{text}: {path} is no configuration with a model_type ({error})") from error


def timm_model(text: str) -> torch.nn.Module:
    """The model of timm of that name, its weights drawn by timm's own law."""
    timm = library("timm")
    names = timm.list_models()
    if text.partition(".")[0] not in names:
        raise InputError(f"timm:{text}: no such model in timm{did_you_mean(text, names)}; timm.list_models() names all")
    model: torch.nn.Module = timm.create_model(text, pretrained=False)
    return model


BUILDERS: dict[str, Callable[[str], Any]] = {"hf": hf_model, "timm": timm_model}
"""Prefix of a MODEL → what builds it."""
