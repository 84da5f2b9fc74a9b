"""Conversion of Hugging Face configurations to `Transformer`: sizes, and initialization of each model family.

Files and dicts need neither weights nor `transformers`. ``hf:LlamaConfig`` gets the defaults of a configuration by
name from `transformers`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from initscope._utils.files import read_small, reading
from initscope.errors import InputError
from initscope.models.hub_models import hf_config
from initscope.scaling.transformer import Spreads, Transformer

__all__ = ["FAMILIES", "entries_of", "read"]

Configuration = Mapping[str, Any]


def read(source: str | os.PathLike[str] | Configuration, **changes: Any) -> Transformer:
    """Read a transformer from a Hugging Face configuration.

    Parameters
    ----------
    source : path, dict or str
        A config.json (or a folder that holds one), its contents, or ``"hf:LlamaConfig"`` for the defaults of a
        configuration of the library `transformers`, which only this form needs.
    changes
        Entries to set, by their names in the configuration: ``hidden_size=8192``.

    Returns
    -------
    Transformer

    Examples
    --------
    >>> small = read({"model_type": "gpt2", "n_embd": 256, "n_layer": 4, "n_head": 4, "vocab_size": 1000})
    >>> small.inner, round(small.spreads.output, 5)      # 0.02/√(2·4)
    (1024, 0.00707)
    """
    entries = entries_of(source, **changes)
    kind = entries.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        problem = f"has the unsupported model_type {kind!r}" if kind else "has no model_type"
        inner = entries.get("text_config")
        inside = inner.get("model_type") if isinstance(inner, Mapping) else None
        other = "give its text_config as a file" if inside in FAMILIES else "build it and give predict file.py:factory"
        raise InputError(f"the configuration {problem}; supported: {', '.join(FAMILIES)}; {other}")
    try:
        return FAMILIES[kind](entries)
    except KeyError as error:
        raise InputError(
            f"the configuration of {kind} lacks {error}; add it to the file or give it with --set"
        ) from None
    except InputError:
        raise
    except (AttributeError, TypeError, ValueError, ZeroDivisionError) as error:
        problem = "a size must be a whole number of at least 1, a standard deviation a number"
        raise InputError(f"the configuration of {kind} has an invalid entry: {problem} ({error})") from None


def entries_of(source: Any, **changes: Any) -> Configuration:
    """Return the changed entries of a configuration: a dict, a file, a folder with a config.json, or hf:NAME."""
    text = "" if isinstance(source, Mapping) else os.fspath(source)
    known = source if isinstance(source, Mapping) else _defaults(text[3:]) if text.startswith("hf:") else _file(text)
    unknown = [name for name in changes if name not in known and name not in _NAMES]
    if unknown:
        raise InputError(f"the configuration has no entry {unknown[0]!r}; one of {', '.join(sorted(known))}")
    # transformers computes some defaults from other entries, such as head_dim, so the configuration is built again.
    return _defaults(text[3:], **changes) if changes and text.startswith("hf:") else {**known, **changes}


def _file(text: str) -> Configuration:
    path = Path(text) / "config.json" if Path(text).is_dir() else Path(text)
    what, step = "a configuration in JSON", "give the config.json of a model"
    with reading(path, what, step):
        entries = json.loads(read_small(path, what, step))
    if not isinstance(entries, dict):
        raise InputError(f"{path} is not a configuration: it must be a JSON object")
    return entries


def _defaults(name: str, **changes: Any) -> Configuration:
    return dict(hf_config(name, **changes).to_dict())


def _activation(name: str) -> str:
    known = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu_fast": "gelu_tanh", "swish": "silu"}
    return known.get(name, name)


def _same(spread: float, **others: float) -> Spreads:
    names = ("embedding", "positions", "query", "key", "value", "output", "up", "down", "head")
    return Spreads(**(dict.fromkeys(names, spread) | {"positions": 0.0} | others))


def _head_size(width: int, heads: int) -> int:
    """Return the number of channels of a head if all heads together have the width."""
    if heads > 0 and width % heads:
        raise InputError(f"width = {width} must be a multiple of heads = {heads}")
    return width // heads


def _llama(c: Configuration) -> Transformer:
    width, heads, family = c["hidden_size"], c["num_attention_heads"], c["model_type"]
    size = c.get("head_dim") or _head_size(width, heads)
    rope = c.get("rope_parameters") or {}
    spread, gemma = c.get("initializer_range", 0.02), family.startswith("gemma")
    turned = size * (c.get("partial_rotary_factor") or rope.get("partial_rotary_factor") or 1.0)
    return Transformer(
        family, width, c["num_hidden_layers"], heads, c.get("num_key_value_heads") or heads, size,
        c["intermediate_size"], c["vocab_size"],
        _activation(c.get("hidden_activation") or c.get("hidden_act") or ("gelu_tanh" if gemma else "silu")),
        _same(spread, embedding=spread * width**0.5 if gemma else spread), gated=True,
        tied=bool(c.get("tie_word_embeddings", gemma)), norm="rms", head_scale=width**-0.5 if gemma else 1.0,
        rotation=float(c.get("rope_theta") or rope.get("rope_theta") or 10000.0), rotated=round(turned),
        scale=(c.get("query_pre_attn_scalar") or size) ** -0.5, eps=c.get("rms_norm_eps", 1e-6),
        experts=c.get("num_local_experts", 1) or 1, head_norm=family == "qwen3", branch_norm=family == "gemma2",
        chosen=c.get("num_experts_per_tok", 1) or 1 if c.get("num_local_experts") else 1,
    )  # fmt: skip


def _gpt2(c: Configuration) -> Transformer:
    width, heads, layers, spread = c["n_embd"], c["n_head"], c["n_layer"], c.get("initializer_range", 0.02)
    scaled = spread / (2 * layers) ** 0.5
    return Transformer(
        "gpt2", width, layers, heads, heads, _head_size(width, heads), c.get("n_inner") or 4 * width, c["vocab_size"],
        _activation(c.get("activation_function", "gelu_new")),
        _same(spread, positions=spread, output=scaled, down=scaled), tied=bool(c.get("tie_word_embeddings", True)),
        scale=_head_size(width, heads) ** -0.5, eps=c.get("layer_norm_epsilon", 1e-5),
    )  # fmt: skip


def _neox(c: Configuration) -> Transformer:
    width, heads = c["hidden_size"], c["num_attention_heads"]
    rope, size = c.get("rope_parameters") or {}, _head_size(width, heads)
    share = c.get("rotary_pct") or c.get("partial_rotary_factor") or rope.get("partial_rotary_factor") or 1.0
    theta = c.get("rope_theta") or c.get("rotary_emb_base") or rope.get("rope_theta") or 10000.0
    return Transformer(
        c["model_type"], width, c["num_hidden_layers"], heads, c.get("num_key_value_heads") or heads, size,
        c["intermediate_size"], c["vocab_size"], _activation(c.get("hidden_act", "gelu")),
        _same(c.get("initializer_range", 0.02)), tied=bool(c.get("tie_word_embeddings", False)),
        parallel=c["model_type"] == "phi" or bool(c.get("use_parallel_residual", True)), rotation=float(theta),
        rotated=round(size * share), scale=size**-0.5, eps=c.get("layer_norm_eps", 1e-5),
    )  # fmt: skip


def _opt(c: Configuration) -> Transformer:
    width, heads, spread = c["hidden_size"], c["num_attention_heads"], c.get("init_std", 0.02)
    if c.get("word_embed_proj_dim", width) != width or not c.get("do_layer_norm_before", True):
        raise InputError(
            "opt models are supported only with norms before the branches and embeddings of the model width: "
            "set word_embed_proj_dim = hidden_size and do_layer_norm_before = true"
        )
    return Transformer(
        "opt", width, c["num_hidden_layers"], heads, heads, _head_size(width, heads), c["ffn_dim"], c["vocab_size"],
        _activation(c.get("activation_function", "relu")), _same(spread, positions=spread),
        tied=bool(c.get("tie_word_embeddings", True)), scale=_head_size(width, heads) ** -0.5, eps=1e-5,
    )  # fmt: skip


def _bert(c: Configuration) -> Transformer:
    width, heads, spread = c["hidden_size"], c["num_attention_heads"], c.get("initializer_range", 0.02)
    is_vision = c["model_type"] in ("vit", "deit")
    return Transformer(
        c["model_type"], width, c["num_hidden_layers"], heads, heads, _head_size(width, heads), c["intermediate_size"],
        0 if is_vision else c["vocab_size"], _activation(c.get("hidden_act", "gelu")),
        _same(spread, positions=spread, common=0.0 if is_vision else spread), causal=False, tied=not is_vision,
        order="pre" if is_vision else "post", embedding_norm=not is_vision, head_layer=not is_vision,
        scale=_head_size(width, heads) ** -0.5, eps=c.get("layer_norm_eps", 1e-12),
    )  # fmt: skip


def _t5(c: Configuration) -> Transformer:
    width, heads, size, factor = c["d_model"], c["num_heads"], c["d_kv"], c.get("initializer_factor", 1.0)
    inner, feed = c["d_ff"], str(c.get("feed_forward_proj", "relu"))
    spreads = Spreads(
        embedding=factor, positions=0.0, query=factor * (width * size) ** -0.5, key=factor * width**-0.5,
        value=factor * width**-0.5, output=factor * (heads * size) ** -0.5, up=factor * width**-0.5,
        down=factor * inner**-0.5, head=factor,
    )  # fmt: skip
    tied, decoder = bool(c.get("tie_word_embeddings", True)), c.get("num_decoder_layers")
    scaled = c["model_type"] == "t5" and c.get("scale_decoder_outputs", tied)
    return Transformer(
        c["model_type"], width, c["num_layers"], heads, heads, size, inner, c["vocab_size"],
        _activation(feed.removeprefix("gated-").replace("gelu", "gelu_new")), spreads, gated=feed.startswith("gated-"),
        tied=tied, norm="rms", scale=1.0, eps=c.get("layer_norm_epsilon", 1e-6),
        decoder=c["num_layers"] if decoder is None else decoder, head_scale=width**-0.5 if scaled else 1.0,
    )  # fmt: skip


def _bart(c: Configuration) -> Transformer:
    width, heads, inner = c["d_model"], c["encoder_attention_heads"], c["encoder_ffn_dim"]
    family, spread = c["model_type"], c.get("init_std", 0.02)
    if c.get("decoder_attention_heads", heads) != heads or c.get("decoder_ffn_dim", inner) != inner:
        raise InputError(
            f"{family} is supported only if encoder and decoder have the same heads and feed-forward sizes"
        )
    scaled, waves = bool(c.get("scale_embedding", False)), family in ("marian", "pegasus")
    return Transformer(
        family, width, c["encoder_layers"], heads, heads, _head_size(width, heads), inner, c["vocab_size"],
        _activation(c.get("activation_function", "gelu")),
        _same(spread, embedding=spread * (width**0.5 if scaled else 1.0), positions=0.0 if waves else spread),
        tied=bool(c.get("tie_word_embeddings", True)), order="pre" if family in ("mbart", "pegasus") else "post",
        waves=waves, embedding_norm=not waves, scale=_head_size(width, heads) ** -0.5, eps=1e-5,
        decoder=c["decoder_layers"], head_scale=width**-0.5 if scaled else 1.0,
    )  # fmt: skip


FAMILIES: dict[str, Callable[[Configuration], Transformer]] = {
    **dict.fromkeys(("llama", "mistral", "mixtral", "qwen2", "qwen3", "gemma", "gemma2", "phi3"), _llama),
    "gpt2": _gpt2,
    **dict.fromkeys(("gpt_neox", "phi"), _neox),
    "opt": _opt,
    **dict.fromkeys(("bert", "roberta", "vit", "deit"), _bert),
    **dict.fromkeys(("t5", "mt5"), _t5),
    **dict.fromkeys(("bart", "mbart", "marian", "pegasus"), _bart),
}
_NAMES = frozenset(
    {
        "activation_function",
        "feed_forward_proj",
        "head_dim",
        "hidden_act",
        "initializer_factor",
        "initializer_range",
        "layer_norm_eps",
        "layer_norm_epsilon",
        "n_inner",
        "num_experts_per_tok",
        "num_key_value_heads",
        "num_local_experts",
        "rms_norm_eps",
        "rope_theta",
        "tie_word_embeddings",
    }
)
