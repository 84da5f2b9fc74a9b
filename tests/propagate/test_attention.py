"""Attention by rule, against networks that are drawn: every variant as a z-score, and what the rows say of it."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from rotary import rotated
from torch import nn

import initscope
from initscope.propagate import MomentMaps
from initscope.propagate.rules import views

WIDTH, HEADS, TOKENS, PAIRS = 96, 4, 10, 3
DRAWS = 24
SLACK = 0.02  # what heads of finite width may differ by: the acceptance bound of the columns


class Attention(nn.Module):
    """Attention with a residual, written out as users do; ``variant`` says what is done to queries, keys, scores."""

    def __init__(self, variant):
        super().__init__()
        self.variant, groups = variant, 2 if variant == "grouped" else HEADS
        self.size = WIDTH // HEADS
        self.q, self.o = (nn.Linear(WIDTH, WIDTH, bias=variant == "biases") for _ in range(2))
        self.k, self.v = (nn.Linear(WIDTH, groups * self.size, bias=variant == "biases") for _ in range(2))
        self.norm, self.head_norm = nn.LayerNorm(WIDTH), nn.RMSNorm(self.size)
        for layer in (self.q, self.k, self.v, self.o):
            nn.init.normal_(layer.weight, std=0.17)

    def heads(self, x):
        return x.view(x.shape[0], x.shape[1], -1, self.size).transpose(1, 2)

    def forward(self, x, memory=None):
        variant, normed = self.variant, self.norm(x)
        source = normed if memory is None else self.norm(memory)
        q, k, v = self.heads(self.q(normed)), self.heads(self.k(source)), self.heads(self.v(source))
        if variant == "rotations":
            q, k = rotated(q), rotated(k)
        if variant == "norms of queries and keys":
            q, k = self.head_norm(q), self.head_norm(k)
        if variant in ("written out", "capped", "slopes"):
            scores = q @ k.transpose(-1, -2) * self.size**-0.5
            if variant == "capped":
                scores = 2 * torch.tanh(scores / 2)
            if variant == "slopes":
                steps = torch.arange(TOKENS)[None] - torch.arange(TOKENS)[:, None]
                scores = scores + steps * torch.tensor([1.0, 0.5, 0.25, 0.125])[:, None, None]
            mask = torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril()
            out = torch.softmax(scores.masked_fill(~mask, -math.inf), dim=-1) @ v
        else:
            window = (torch.arange(TOKENS)[None] - torch.arange(TOKENS)[:, None]).abs() < 3
            out = F.scaled_dot_product_attention(
                q,
                k,
                v,
                attn_mask=window if variant == "window" else None,
                is_causal=variant in ("causal", "rotations"),
                scale=1 / self.size if variant == "scale" else None,
                enable_gqa=variant == "grouped",
            )
        return x + self.o(out.transpose(1, 2).reshape(x.shape[0], x.shape[1], WIDTH))


def tokens(seed=5, count=TOKENS):
    """Pairs of sequences: half of the tokens of y are those of x."""
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.randn(2, PAIRS, count, WIDTH, generator=generator)
    x = x + torch.randn(PAIRS, 1, WIDTH, generator=generator)
    y[:, ::2] = x[:, ::2]
    return x, y


def compared(model, *pairs, draws=DRAWS):
    predicted = initscope.predict(model, *pairs, draws=4, seed=3)
    return predicted, initscope.measure(model, *pairs, draws=draws, seed=99)


def agree(predicted, measured, row=-1, *, tokens=True):
    """Cosine, size and token cosine of a row within 4 standard errors of both sides, and the slack of finite width."""
    error = np.hypot(measured.mean_cosine_se[row], predicted.cosine_se[row].mean())
    assert abs(predicted.cosine[row].mean() - measured.cosine[row].mean()) < 4 * error + SLACK
    size = predicted.norm_ratio[row].mean() / measured.norm_ratio[row].mean() - 1
    assert abs(size) < 0.03 + 4 * measured.mean_norm_ratio_se[row] / measured.norm_ratio[row].mean()
    if tokens:
        error = np.hypot(measured.tokens.cosine_se[row], predicted.tokens.cosine_se[row])
        assert abs(predicted.tokens.cosine[row] - measured.tokens.cosine[row]) < 4 * error + SLACK


VARIANTS = (
    "plain", "causal", "window", "scale", "biases", "grouped", "rotations", "norms of queries and keys",
    "written out", "capped", "slopes",
)  # fmt: skip


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_agrees_with_networks(variant):
    """Behind two layers; would catch 6 % of a size, .05 of a cosine: causal and plain attention differ by .2."""
    torch.manual_seed(1234)
    model = nn.Sequential(Attention(variant), Attention(variant))
    predicted, measured = compared(model, *tokens())
    assert predicted.rows[-1].status == "closed form after sampling"
    assert not any("networks" in row.note for row in predicted.rows)
    agree(predicted, measured)
    weights = [index for index, row in enumerate(predicted.rows) if np.isfinite(predicted.tokens.entropy[index])]
    assert len(weights) == 2
    for index in weights:
        assert abs(predicted.tokens.entropy[index] - measured.tokens.entropy[index]) < 0.03


class Cross(nn.Module):
    """Queries of one sequence, keys and values of another."""

    def __init__(self):
        super().__init__()
        self.layer, self.one, self.other = Attention("plain"), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return self.layer(self.one(x[:, :4]), self.other(x[:, 4:]))


def test_cross_attention():
    """Tokens of queries and of keys come from two Gram matrices of different sizes."""
    torch.manual_seed(1234)
    predicted, measured = compared(Cross(), *tokens())
    assert predicted.rows[-1].status == "closed form after sampling"
    agree(predicted, measured)


def encoder(layers=2, **options):
    torch.manual_seed(1234)
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 2 * WIDTH, dropout=0.0, batch_first=True, **options)
    model = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.1)
    return model


@pytest.mark.parametrize("options", [{}, {"norm_first": True, "activation": "gelu"}], ids=["after", "before"])
def test_torch_encoder_has_a_row_for_every_step(options):
    """torch folds samples and heads into one axis: the rows are those of the run, all of them by rule."""
    predicted, measured = compared(encoder(**options), *tokens())
    assert [row.layer for row in predicted.rows] == [row.layer for row in measured.rows]
    assert {row.status for row in predicted.rows} <= {"closed form", "closed form after sampling"}
    assert any(row.kind == "scaled_dot_product_attention" for row in predicted.rows)
    agree(predicted, measured)


def test_torch_decoder_reads_two_sequences():
    torch.manual_seed(1234)
    layer = nn.TransformerDecoderLayer(WIDTH, HEADS, 2 * WIDTH, dropout=0.0, batch_first=True)
    for parameter in layer.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.1)
    (x, y), (m, n) = tokens(), tokens(seed=6, count=7)
    predicted, measured = compared(layer, (x, m), (y, n))
    assert predicted.rows[-1].status == "closed form after sampling"
    agree(predicted, measured)


def test_collapsed_tokens_stay_collapsed():
    """Tokens that are all equal pass attention as they are: their cosine is 1 to 1e-9, whatever is drawn."""
    torch.manual_seed(1234)
    x = torch.randn(2, 1, WIDTH).expand(-1, TOKENS, -1).clone()
    predicted = initscope.predict(nn.Sequential(Attention("plain"), Attention("plain")), x, 2 * x + 1)
    known = predicted.tokens.cosine[np.isfinite(predicted.tokens.cosine)]
    assert np.allclose(known, 1, rtol=0, atol=1e-9)


class Gated(nn.Module):
    """silu(g)·u of two projections, or of two halves of one."""

    def __init__(self, *, halves):
        super().__init__()
        self.norm, self.halves = nn.RMSNorm(WIDTH), halves
        self.g, self.u = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.down = nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def forward(self, x):
        first, second = self.g(self.norm(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(first) * (second if self.halves else self.u(self.norm(x))))


@pytest.mark.parametrize("halves", [True, False])
def test_gates_multiply_covariances(halves):
    """No attention: no draws at all, and the tokens' cosines are not asked for."""
    torch.manual_seed(1234)
    predicted, measured = compared(nn.Sequential(Gated(halves=halves), Gated(halves=halves)), *tokens())
    assert {row.status for row in predicted.rows} <= {"closed form", "quadrature"}
    assert predicted.tokens is None
    agree(predicted, measured, tokens=False)


class WrittenNorm(nn.Module):
    def forward(self, x):
        centered = x - x.mean(dim=-1, keepdim=True)
        return centered * torch.rsqrt(centered.pow(2).mean(dim=-1, keepdim=True) + 1e-5)


class WrittenGelu(nn.Module):
    def forward(self, x):
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


def test_norms_and_activations_that_are_written_out_are_those_of_torch():
    """The same numbers as the modules, to the rounding of float32."""
    torch.manual_seed(1234)
    first, second = nn.Linear(WIDTH, 128), nn.Linear(128, 64)
    x, y = tokens()
    ours = initscope.predict(nn.Sequential(first, WrittenNorm(), WrittenGelu(), second), x, y)
    theirs = nn.Sequential(first, nn.LayerNorm(128), nn.GELU(approximate="tanh"), second)
    expected = initscope.predict(theirs, x, y)
    assert np.allclose(ours.cosine[-1], expected.cosine[-1], rtol=0, atol=2e-5)
    assert np.allclose(ours.norm_ratio[-1], expected.norm_ratio[-1], rtol=2e-5)


def test_sequences_over_the_memory_bound(monkeypatch):
    """What the tokens' Gram matrix would take, the bound, and what to do: in one line, and whole networks instead."""
    from initscope.propagate import covariances

    monkeypatch.setattr(covariances, "_MEMORY", 1000)
    torch.manual_seed(1234)
    predicted = initscope.predict(Attention("plain"), *tokens(), draws=2)
    notes = [row.note for row in predicted.rows if "GB" in row.note]
    assert notes
    assert all("bound" in note and "shorter sequences" in note and "\n" not in note for note in notes)
    assert np.isfinite(predicted.cosine[-1]).all()


def test_padding_is_left_out_of_the_cosine_of_tokens():
    """Of the inputs, predicted and measured: the mean over non-zero tokens of samples that have two of them."""
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(2, 3, 5, 16, generator=generator) + 1
    for sample, length in enumerate((5, 3, 1)):
        x[sample, length:], y[sample, length:] = 0, 0
    model = nn.Sequential(nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True)).eval()
    cosines = []
    for sample in (x[0], y[0], x[1, :3], y[1, :3]):
        units = sample.double() / sample.double().norm(dim=1, keepdim=True)
        products = units @ units.T
        cosines.append(float(products[~torch.eye(len(sample), dtype=torch.bool)].mean()))
    for scale in (1.0, 1e-15):  # norms do not matter, however small
        for function in (initscope.predict, initscope.measure):
            result = function(model, scale * x, scale * y)
            assert result.tokens.cosine[0] == pytest.approx(np.mean(cosines), rel=1e-5)
            assert result.tokens.cosine_se[0] == pytest.approx(0, abs=1e-12)


def test_a_single_token_has_no_cosine():
    x = torch.zeros(1, 4, 16)
    x[:, :1] = 1
    y = 2 * x
    y[0, 0, 0] = 3
    model = nn.Sequential(nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True)).eval()
    for result in (initscope.predict(model, x, y), initscope.measure(model, x, y)):
        assert np.isnan(result.tokens.cosine[0])
        assert np.isfinite(result.tokens.cosine[-1])


def test_zeros_that_are_filled_in_between_heads_are_no_units():
    """A view has numbers of units and none for a zero: padding is left to drawn values, a roll is a move."""
    ones = torch.ones(PAIRS, 1, TOKENS)
    view = MomentMaps(ones, ones, ones, (WIDTH,), "closed form", axis=1).units()
    assert views._moved("pad", view, (0, 0, 1, 0)) is NotImplemented
    assert torch.equal(views._moved("roll", view, 1, 1).index, view.index.roll(1, 1))
