"""Configurations without weights: an independent simulation, the same network with weights, and what is refused."""

import importlib.util
import json
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import initscope
from initscope.errors import InputError, MissingDependencyError
from initscope.scaling import INITIALIZATIONS, compare_initializations, outlook, read, with_initialization

LLAMA = {
    "model_type": "llama", "hidden_size": 768, "num_hidden_layers": 5, "num_attention_heads": 12,
    "intermediate_size": 1536, "vocab_size": 1000, "initializer_range": 0.035,
}  # fmt: skip


def test_the_table_of_an_independent_simulation():
    """d = 768, 12 heads, σ = .035, 24 tokens: sizes and cosines of tokens that 8 networks had, and a prediction.

    Its standard errors are .006 to .008 (sizes) and .012 (tokens). A wrong gain of one branch moves sizes by 20 %.
    Which half of the tokens its pairs share, on which the cosine of a pair depends (.03 to .3), it does not tell.
    """
    blocks = [row for row in outlook(read(LLAMA), 24, heads=64).rows if row.kind == "feed-forward"]
    assert np.allclose([row.rms for row in blocks], [0.891, 1.332, 1.678, 1.974, 2.231], rtol=0.03)
    cosines = [row.token_cosine for row in blocks]
    assert np.allclose(cosines, [0.209, 0.313, 0.370, 0.406, 0.423], rtol=0, atol=3 * 0.012)
    assert np.allclose(cosines, [0.202, 0.293, 0.342, 0.374, 0.398], rtol=0, atol=0.015)


class Block(nn.Module):
    """A block of a Llama, as its configuration says, with room for other norms and gates."""

    def __init__(self, width, heads, inner, spread, *, gated):
        super().__init__()
        self.heads, self.gated = heads, gated
        self.norms = nn.ModuleList([nn.RMSNorm(width, eps=1e-6), nn.RMSNorm(width, eps=1e-6)])
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)
        for layer in (self.q, self.k, self.v, self.o, self.gate, self.up, self.down):
            nn.init.normal_(layer.weight, std=spread)

    def forward(self, x):
        read = self.norms[0](x)
        q, k, v = (layer(read).view(*x.shape[:2], self.heads, -1).transpose(1, 2) for layer in (self.q, self.k, self.v))
        q, k = rotated(q), rotated(k)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(mixed.transpose(1, 2).reshape(x.shape))
        read = self.norms[1](x)
        return x + self.down(F.silu(self.gate(read)) * self.up(read))


def rotated(values):
    half = values.shape[-1] // 2
    angle = torch.arange(values.shape[-2])[:, None] / 10000 ** (torch.arange(half) / half)
    first, second = values[..., :half], values[..., half:]
    return torch.cat([first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin()], dim=-1)


def test_predict_and_outlook_tell_the_same():
    """The same network with weights, by the rules of `predict`: sizes within 3 %, cosines within .02 and 3 errors."""
    torch.manual_seed(1234)
    width, spread, tokens = 192, 0.07, 16
    table = nn.Embedding(400, width)
    nn.init.normal_(table.weight, std=spread)
    model = nn.Sequential(table, *(Block(width, 6, 384, spread, gated=True) for _ in range(2)))
    x = torch.randint(400, (4, tokens), generator=torch.Generator().manual_seed(3))
    y = x.clone()
    y[:, ::2] = torch.randint(400, (4, tokens // 2), generator=torch.Generator().manual_seed(4))
    predicted = initscope.predict(model, x, y)
    configuration = LLAMA | {
        "hidden_size": width, "num_hidden_layers": 2, "num_attention_heads": 6, "intermediate_size": 384,
        "initializer_range": spread, "vocab_size": 400,
    }  # fmt: skip
    told = outlook(read(configuration), ids=[x[0].tolist(), y[0].tolist()], heads=64).rows[-2]
    size = predicted.rms_ratio[-1].mean() * spread
    assert abs(told.rms / size - 1) < 0.03
    error = np.hypot(told.token_cosine_se, predicted.tokens.cosine_se[-1])
    assert abs(told.token_cosine - predicted.tokens.cosine[-1]) < 3 * error + 0.02
    assert abs(told.cosine - predicted.cosine[-1].mean()) < 3 * predicted.cosine_se[-1].mean() + 0.02


def test_seven_billion_weights_are_counted_and_fit():
    """The published count of Llama 2 7B, norms left out."""
    seven = read(LLAMA | {
        "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "intermediate_size": 11008,
        "vocab_size": 32000,
    })  # fmt: skip
    assert abs(seven.parameters - 6_738_149_376) < 1
    told = outlook(seven.widened(1), 8)
    assert abs(told.growth - 0.5) < 0.05
    # The head is not tied: ln V + s²/2, less (e^{s²} - 1)/2V to first order, because the logarithm is concave.
    square = told.logits**2
    assert math.isclose(told.loss, math.log(32000) + square / 2 - math.expm1(square) / 64000, rel_tol=5e-5)


def test_initializations_do_what_they_are_for():
    """Zero outputs leave the stream as it is; over √(2L) it stays bounded; DeepNorm keeps 1 behind its norms."""
    model = read(LLAMA | {"num_hidden_layers": 12})
    rows = {row["initialization"]: row for row in compare_initializations(model, 12).table()}
    assert set(rows) == set(INITIALIZATIONS)
    assert math.isclose(rows["zero-outputs"]["rms"], 1, rel_tol=1e-9)
    assert rows["depth-scaled"]["rms"] < rows["0.02"]["rms"]
    assert rows["mup"]["scores"] < 0.2 < rows["configuration"]["scores"]
    assert abs(rows["deepnorm"]["growth"]) < 0.05
    with pytest.raises(InputError, match="unknown"):
        with_initialization(model, "magic")


FAMILIES = [
    {"model_type": "gpt2", "n_embd": 64, "n_layer": 3, "n_head": 4, "vocab_size": 90},
    {"model_type": "bert", "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
     "intermediate_size": 128, "vocab_size": 90},
    {"model_type": "vit", "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
     "intermediate_size": 128},
    {"model_type": "t5", "d_model": 64, "num_layers": 3, "num_heads": 4, "d_kv": 16, "d_ff": 128, "vocab_size": 90},
    {"model_type": "mixtral", "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
     "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 90, "num_local_experts": 4,
     "num_experts_per_tok": 2},
]  # fmt: skip


@pytest.mark.parametrize("configuration", FAMILIES, ids=lambda one: one["model_type"])
def test_every_family_has_an_outlook(configuration, tmp_path):
    """From a file, as it is published; a table, a picture, JSON."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(configuration))
    told = outlook(read(path), 12)
    assert [row.kind for row in told.rows[1:3]] == ["attention", "feed-forward"]
    assert all(math.isfinite(row.rms) and -1 <= row.cosine <= 1 for row in told.rows)
    assert (told.rows[-1].kind == "logits") == (configuration["model_type"] != "vit")
    assert json.dumps(told.to_dict())
    assert told.plot().get_legend() is not None


def test_a_mixture_of_equal_experts_halves_what_tokens_share():
    """With one expert of one the mixture is the plain layer; of many, far tokens rarely share one."""
    plain = FAMILIES[-1] | {"num_local_experts": 1, "num_experts_per_tok": 1}
    many = FAMILIES[-1] | {"num_local_experts": 64, "num_experts_per_tok": 1}
    first, second = (outlook(read(one), 12).rows[2] for one in (plain, many))
    assert abs(second.rms / first.rms - 1) < 0.05
    assert second.token_cosine < first.token_cosine


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: read({"model_type": "resnet"}), "unsupported model_type"),
        (lambda: read({"hidden_size": 8}), "no model_type"),
        (lambda: read(LLAMA, hidden_sise=8), "no entry 'hidden_sise'"),
        (lambda: read("missing/config.json"), "cannot be read"),
        (lambda: read({"model_type": "gpt2", "n_embd": 8}), "lacks"),
        (lambda: read(LLAMA, num_attention_heads=0, head_dim=4), "must be a whole number"),
        (lambda: read(LLAMA, num_attention_heads=-4), "heads = -4"),
        (lambda: read(LLAMA, num_attention_heads=7), "width = 768 must be a multiple of heads = 7"),
        (lambda: read(LLAMA, num_attention_heads=True), "heads = True"),
        (lambda: read(LLAMA, vocab_size=-3), "vocabulary = -3"),
        (lambda: read(LLAMA, rms_norm_eps=-1.0), "eps = -1"),
        (lambda: read(LLAMA, initializer_range=None), "a standard deviation a number"),
        (lambda: read(LLAMA | {"rope_parameters": [1]}), "has an invalid entry"),
        (lambda: outlook(read(LLAMA), ids=[[0, 1], [2, 5000]]), "exceed the vocabulary"),
        (lambda: outlook(read(LLAMA), 100_000), "at most"),
        (lambda: outlook(read(LLAMA), 1), "tokens"),
    ],
)
def test_bad_configurations_are_told(call, told):
    with pytest.raises(InputError, match=told):
        call()


def test_names_of_transformers_need_the_library():
    """Without it one line says what to install."""
    if importlib.util.find_spec("transformers") is None:
        with pytest.raises(MissingDependencyError, match="transformers"):
            read("hf:LlamaConfig")
        return
    assert read("hf:LlamaConfig", hidden_size=8192, num_attention_heads=64).width == 8192
    assert read("hf:llama") == read("hf:LlamaConfig")
    with pytest.raises(InputError, match="not a configuration class"):
        read("hf:Nothing")
    with pytest.raises(InputError, match="no entry 'hidden'"):
        read("hf:LlamaConfig", hidden=64)
    with pytest.raises(InputError, match="transformers refuses these entries"):
        read("hf:LlamaConfig", num_attention_heads=0)


def test_what_transformers_computes_follows_the_changes():
    """Heads of a model that is twice as wide are twice as large: the default of head_dim is a share of the width."""
    pytest.importorskip("transformers")
    usual, wide = read("hf:LlamaConfig"), read("hf:LlamaConfig", hidden_size=8192)
    assert (wide.width, wide.head_size) == (8192, 2 * usual.head_size)
    assert wide.scale == pytest.approx(usual.scale / 2**0.5)
    assert read("hf:LlamaConfig", num_attention_heads=64).key_heads == 64
