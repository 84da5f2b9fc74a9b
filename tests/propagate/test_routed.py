"""Mixtures of experts by rule: tokens sent to experts by a router that is drawn, against networks that are drawn."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import initscope
from initscope.propagate import MomentMaps, NotCovered
from initscope.propagate.context import Context
from initscope.propagate.covariances import gram
from initscope.propagate.distributions import GaussianUnits
from initscope.propagate.origins.matrices import KnownGram
from initscope.propagate.rules.merging import multiply
from initscope.propagate.rules.routing import at_tokens
from initscope.propagate.values.routed_tokens import RoutedTokens
from initscope.propagate.values.sampled_units import SampledUnits

WIDTH, HIDDEN, TOKENS, PAIRS, EXPERTS, CHOSEN = 128, 128, 8, 4, 4, 2


class Expert(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up = (nn.Linear(WIDTH, HIDDEN, bias=False) for _ in range(2))
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x):
        return self.down(F.relu(self.gate(x)) * self.up(x))


class Experts(nn.Module):
    """Top-2 of 4 behind a norm, written out in one of the ways that are in use; ``shared`` has a gate of its own."""

    def __init__(self, form, *, shared=False):
        super().__init__()
        self.form, self.norm = form, nn.RMSNorm(WIDTH)
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        if form == "grouped":
            self.first = nn.Parameter(torch.empty(EXPERTS, WIDTH, 2 * HIDDEN))
            self.second = nn.Parameter(torch.empty(EXPERTS, HIDDEN, WIDTH))
        else:
            self.experts = nn.ModuleList(Expert() for _ in range(EXPERTS))
        self.shared, self.own = (Expert(), nn.Linear(WIDTH, 1, bias=False)) if shared else (None, None)

    def forward(self, h):
        x = self.norm(h)
        out = getattr(self, self.form)(x)
        return h + (out if self.shared is None else out + torch.sigmoid(self.own(x)) * self.shared(x))

    def choice(self, x):
        shares, chosen = torch.softmax(self.router(x), dim=-1).topk(CHOSEN, dim=-1)
        return shares / shares.sum(dim=-1, keepdim=True), chosen

    def dense(self, x):
        shares, chosen = self.choice(x)
        total = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            total = total + (shares * (chosen == index)).sum(dim=-1, keepdim=True) * expert(x)
        return total

    def indexed(self, x):
        flat = x.reshape(-1, WIDTH)
        shares, chosen = self.choice(flat)
        total = torch.zeros_like(flat)
        for index, expert in enumerate(self.experts):
            token, place = torch.where(chosen == index)
            total.index_add_(0, token, shares[token, place, None] * expert(flat[token]))
        return total.view_as(x)

    def assigned(self, x):
        flat = x.reshape(-1, WIDTH)
        shares, chosen = self.choice(flat)
        total = torch.zeros_like(flat)
        for index, expert in enumerate(self.experts):
            token, place = torch.where(chosen == index)
            total[token] += shares[token, place, None] * expert(flat[token])
        return total.view(x.shape)

    def grouped(self, x):
        flat = x.reshape(-1, WIDTH)
        shares, chosen = self.choice(flat)
        expert, order = torch.sort(chosen.reshape(-1))
        rows = flat[order // CHOSEN]
        ends = torch.cumsum(torch.histc(expert.float(), bins=EXPERTS, min=0, max=EXPERTS - 1), dim=0)
        first, second = F.grouped_mm(rows, self.first, offs=ends.int()).chunk(2, dim=-1)
        out = F.grouped_mm(F.relu(first) * second, self.second, offs=ends.int())
        out = out * shares.reshape(-1)[order].unsqueeze(-1)
        back = torch.empty_like(order)
        back[order] = torch.arange(len(order))
        return out[back].view(-1, CHOSEN, WIDTH).sum(dim=1).reshape(x.shape)


def model(form, **options):
    torch.manual_seed(1234)
    layer = Experts(form, **options)
    for parameter in layer.parameters():
        if parameter.dim() > 1:
            fan_in = parameter.shape[1]
            nn.init.normal_(parameter, std=1.5 * fan_in**-0.5)
    return layer


def pairs():
    generator = torch.Generator().manual_seed(5)
    x, y = torch.randn(2, PAIRS, TOKENS, WIDTH, generator=generator)
    x = x + torch.randn(PAIRS, 1, WIDTH, generator=generator)
    y[:, ::2] = x[:, ::2]
    return x, y


@pytest.fixture(scope="module")
def measured():
    """80 networks of the plainest form, which computes the same as the others; with and without a shared expert."""
    found = {}

    def of(shared):
        if shared not in found:
            found[shared] = initscope.measure(model("dense", shared=shared), *pairs(), draws=80, seed=99)
        return found[shared]

    return of


def columns(result):
    """Cosine of pairs, size, and cosine of tokens of the last row."""
    return np.array([result.cosine[-1].mean(), result.rms_ratio[-1].mean(), result.tokens.cosine[-1]])


@pytest.mark.parametrize(
    ("form", "shared"),
    [("dense", False), ("indexed", False), ("assigned", False), ("grouped", False), ("dense", True), ("grouped", True)],
)
def test_experts_agree_with_networks(form, shared, measured):
    """|z| < 4 against 80 networks, 5 predictions: an error of .016 in a cosine and of 4 % in a size would be found."""
    layer, theirs = model(form, shared=shared), measured(shared)
    ours = [initscope.predict(layer, *pairs(), seed=seed) for seed in range(5)]
    assert not any("networks" in row.note for row in ours[0].rows)
    assert ours[0].rows[-1].status == "closed form after sampling"
    values = np.array([columns(one) for one in ours])
    size_error = theirs.mean_norm_ratio_se[-1] * theirs.rms_ratio[-1].mean() / theirs.norm_ratio[-1].mean()
    errors = np.array([theirs.mean_cosine_se[-1], size_error, theirs.tokens.cosine_se[-1]])
    error = np.hypot(values.std(axis=0, ddof=1) / len(values) ** 0.5, errors)
    assert (error < [0.004, 0.01 * theirs.rms_ratio[-1].mean(), 0.004]).all()
    z = (values.mean(axis=0) - columns(theirs)) / error
    assert (np.abs(z) < 4).all(), z


def cosine_of_received_tokens(generator):
    """Mean cosine of what one expert of a new network makes of the tokens that it received, over all samples."""
    layer = model("dense")
    for parameter in layer.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=1.5 * parameter.shape[1] ** -0.5, generator=generator)
    cosines = []
    with torch.no_grad():
        for sample in layer.norm(torch.cat(pairs())):
            received = (layer.choice(sample)[1] == 0).any(dim=1)
            units = F.normalize(layer.experts[0](sample[received]), dim=1)
            cosines.append(float((units @ units.T)[~torch.eye(len(units), dtype=torch.bool)].mean()))
    return np.nanmean(cosines)


def test_tokens_that_no_expert_received_have_no_cosine(measured):
    """What an expert adds is zero for half of the tokens. |z| < 4: an error of .05 would be found.

    Counted with their own square as 1, zero tokens lowered the mean by .18.
    """
    generator = torch.Generator().manual_seed(0)
    networks = [cosine_of_received_tokens(generator) for _ in range(80)]
    expected, error = np.mean(networks), np.std(networks, ddof=1) / len(networks) ** 0.5
    ours = [initscope.predict(model("dense"), *pairs(), seed=seed).tokens.cosine for seed in range(5)]
    added = [index for index, row in enumerate(measured(False).rows) if row.kind == "mul" and "." not in row.layer]
    predicted = np.array(ours)[:, added[1::2]].mean(axis=1)
    tokens = measured(False).tokens
    for value, value_error in (
        (predicted.mean(), predicted.std(ddof=1) / len(predicted) ** 0.5),
        (tokens.cosine[added[1]], tokens.cosine_se[added[1]]),
    ):
        both = np.hypot(error, value_error)
        assert 4 * both < 0.05
        assert abs(value - expected) < 4 * both


def test_tokens_have_in_common_what_both_sent_to_one_expert():
    """Against sums over all pairs of rows, written out, for rows in an order of their own in x and in y."""
    generator = torch.Generator().manual_seed(3)
    samples, tokens, channels, rows = 2, 3, 5, 9
    half = torch.randn(samples, 2 * tokens, 7, generator=generator, dtype=torch.float64)
    matrix = half @ half.mT
    square = matrix.diagonal(dim1=-2, dim2=-1)
    kxx, kyy = square[:, None, :tokens], square[:, None, tokens:]
    d = kxx + kyy - 2 * matrix[:, :tokens, tokens:].diagonal(dim1=-2, dim2=-1)[:, None]
    base = MomentMaps(
        kxx, kyy, d, (channels,), "closed form", axis=1, distribution=GaussianUnits(), weights=frozenset({1}),
        fresh=frozenset({1}), origin=KnownGram(matrix[:, None]),
    )  # fmt: skip
    token, expert = (
        torch.randint(0, 6, (2, rows), generator=generator),
        torch.randint(0, 3, (2, rows), generator=generator),
    )
    factor = torch.randn(2, rows, generator=generator, dtype=torch.float64)
    found = RoutedTokens(base, tuple(token), tuple(factor), tuple(expert), weights=frozenset({2}))
    after = at_tokens(found, Context(initscope.initializers.He()))
    expected = torch.zeros(samples, 2 * tokens, 2 * tokens, dtype=torch.float64)
    for a in range(2):
        for b in range(2):
            for i in range(rows):
                for j in range(rows):
                    (m, t), (n, u) = divmod(int(token[a, i]), tokens), divmod(int(token[b, j]), tokens)
                    if m == n and expert[a, i] == expert[b, j]:
                        left, right = a * tokens + t, b * tokens + u
                        expected[m, left, right] += factor[a, i] * factor[b, j] * matrix[m, left, right]
    own = expected.diagonal(dim1=-2, dim2=-1)
    cross = expected[:, :tokens, tokens:].diagonal(dim1=-2, dim2=-1)
    assert torch.allclose(after.kxx[:, 0], own[:, :tokens], rtol=1e-12)
    assert torch.allclose(after.kyy[:, 0], own[:, tokens:], rtol=1e-12)
    assert torch.allclose(after.d[:, 0], own[:, :tokens] + own[:, tokens:] - 2 * cross, rtol=1e-10, atol=1e-12)
    assert torch.allclose(
        gram(after, Context(initscope.initializers.He()).grams)[:, 0], expected, rtol=1e-12, atol=1e-12
    )


def test_experts_of_different_laws_are_left_to_networks():
    layer = model("grouped")
    with torch.no_grad():
        layer.first[0] *= 3
    predicted = initscope.predict(layer, *pairs(), draws=2)
    assert any("weights of its experts have different distributions" in row.note for row in predicted.rows)
    assert np.isfinite(predicted.cosine[-1]).all()


def test_steps_that_mix_rows_of_experts_have_no_rule():
    """A mean over the rows of an expert, as for balancing, is no state of tokens: it says so, and nothing crashes."""

    class Balanced(Experts):
        def indexed(self, x):
            flat = x.reshape(-1, WIDTH)
            token, _ = torch.where(self.choice(flat)[1] == 0)
            return x * self.experts[0](flat[token]).mean(dim=0)

    torch.manual_seed(1234)
    predicted = initscope.predict(Balanced("indexed"), *pairs(), draws=2)
    assert np.isfinite(predicted.cosine[-1]).all()
    assert NotCovered.__name__ not in " ".join(row.note for row in predicted.rows)


def test_moments_after_a_drawn_gate_have_no_gradient_graph():
    """Gradients pass drawn values by rules of their own; moments with a graph made a later draw fail (Mixtral)."""
    ones = torch.ones(2, 1, 3)
    maps = MomentMaps(ones, ones, ones, (8,), "closed form", axis=1)
    gate = SampledUnits(torch.rand(2, 3, 1, requires_grad=True), torch.rand(2, 3, 1, requires_grad=True), "sampled")
    after = multiply(Context(initscope.initializers.He()), maps, gate)
    assert not any(moments.requires_grad for moments in (after.kxx, after.kyy, after.d))
    torch.testing.assert_close(after.kxx[:, 0], gate.x.detach()[..., 0] ** 2)
