"""Healthy models of tables, clicks, ratings, counts, survival, bags and pairs."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evaluation.development_6 import domains
from evaluation.programs import Healthy, Program

BCE = F.binary_cross_entropy_with_logits


class Loans(nn.Module):
    """Embeddings of kinds next to numbers, for a rare class with a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(4, 3), nn.Embedding(7, 4)])
        self.body = nn.Sequential(
            *(nn.Linear(12, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Dropout(0.1), nn.Linear(48, 24), nn.ReLU()),
            nn.Linear(24, 1),
        )

    def forward(self, numbers: Tensor, kinds: Tensor) -> Tensor:
        columns = [table(kinds[:, index]) for index, table in enumerate(self.tables)]
        return self.body(torch.cat([numbers, *columns], 1))


def weighted(scores: Tensor, labels: Tensor) -> Tensor:
    return BCE(scores, labels, pos_weight=torch.tensor(3.0))


def focal(scores: Tensor, labels: Tensor) -> Tensor:
    """Return the focal loss (Lin et al. 2017)."""
    cost = BCE(scores, labels, reduction="none")
    return ((1 - torch.exp(-cost)) ** 2 * cost).mean()


class FeatureTokens(nn.Module):
    """Each column as a token of a transformer (FT-Transformer)."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(9, width).uniform_(-0.3, 0.3))
        self.bias = nn.Parameter(torch.empty(9, width).uniform_(-0.3, 0.3))
        layer = nn.TransformerEncoderLayer(width, 4, 48, 0.0, "gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, values: Tensor) -> Tensor:
        values = F.pad(values, (1, 0), value=1.0)
        return self.head(self.encoder(values[..., None] * self.weight + self.bias)[:, 0])


class Additive(nn.Module):
    """One small network for each column; the outputs are added (neural additive model)."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(8, 8 * 16, 1, groups=8)
        self.second = nn.Conv1d(8 * 16, 8, 1, groups=8)
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, values: Tensor) -> Tensor:
        return self.second(torch.tanh(self.first(values[..., None]))).sum(1) + self.bias


def self_normalizing() -> nn.Module:
    """Return 8 layers of SELU with LeCun's initialization and alpha dropout."""
    layers: list[nn.Module] = []
    for inputs in (8, *[48] * 7):
        linear = nn.Linear(inputs, 48)
        nn.init.normal_(linear.weight, std=1 / math.sqrt(inputs))
        nn.init.zeros_(linear.bias)
        layers += [linear, nn.SELU()]
    return nn.Sequential(*layers, nn.AlphaDropout(0.02), nn.Linear(48, 1))


class Splines(nn.Module):
    """A Kolmogorov-Arnold network: sums of learned functions of each input, as bumps on a grid plus SiLU."""

    def __init__(self, inputs: int, outputs: int, bumps: int = 8) -> None:
        super().__init__()
        self.register_buffer("grid", torch.linspace(-2.5, 2.5, bumps))
        self.base = nn.Linear(inputs, outputs)
        self.weight = nn.Parameter(0.1 * torch.randn(outputs, inputs, bumps) / math.sqrt(inputs))

    def forward(self, values: Tensor) -> Tensor:
        bumps = torch.exp(-2 * (values[..., None] - self.grid).square())
        return self.base(F.silu(values)) + torch.einsum("bik,oik->bo", bumps, self.weight)


class Experts(nn.Module):
    """Four experts of which the two best are used, with a noisy gate in training."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 3)) for _ in range(4))
        self.gate = nn.Linear(6, 4)

    def forward(self, values: Tensor) -> Tensor:
        scores = self.gate(values)
        if self.training:
            scores = scores + 0.1 * torch.randn_like(scores)
        best, index = scores.topk(2, 1)
        share = torch.zeros_like(scores).scatter(1, index, best.softmax(1))
        outputs = torch.stack([expert(values) for expert in self.experts], 1)
        return (share[..., None] * outputs).sum(1)


class Trees(nn.Module):
    """Soft oblivious decision trees of depth 3 (NODE)."""

    def __init__(self, trees: int = 16, depth: int = 3) -> None:
        super().__init__()
        self.select = nn.Parameter(torch.randn(6, trees, depth))
        self.threshold = nn.Parameter(torch.randn(trees, depth))
        self.sharpness = nn.Parameter(torch.zeros(trees, depth))
        self.leaves = nn.Parameter(0.3 * torch.randn(trees, 2**depth, 3))

    def forward(self, values: Tensor) -> Tensor:
        chosen = torch.einsum("bf,ftd->btd", values, self.select.softmax(0))
        right = torch.sigmoid((chosen - 0.5 * self.threshold) * 3 * self.sharpness.exp())
        share = torch.ones(*right.shape[:2], 1)
        for level in right.unbind(2):
            share = torch.cat([share * level[..., None], share * (1 - level[..., None])], 2)
        return torch.einsum("btl,tlc->bc", share, self.leaves)


def radial() -> nn.Module:
    """Return centers, squared distances and a linear layer: an RBF network."""

    class Radial(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.centers = nn.Parameter(torch.randn(40, 2))
            self.read = nn.Linear(40, 3)

        def forward(self, values: Tensor) -> Tensor:
            return self.read(torch.exp(-torch.cdist(values[:, :2], self.centers).square()))

    return Radial()


def rare_labels() -> nn.Module:
    """Return a network whose last bias begins at the rate of the labels."""
    model = nn.Sequential(nn.Linear(12, 64), nn.Mish(), nn.Linear(64, 64), nn.Mish(), nn.Linear(64, 8))
    nn.init.constant_(model[-1].bias, -1.5)
    return model


def poisson(log_rate: Tensor, counts: Tensor) -> Tensor:
    return F.poisson_nll_loss(log_rate.squeeze(1), counts)


def partial_likelihood(risk: Tensor, targets: Tensor) -> Tensor:
    """Return Cox's partial likelihood."""
    later = targets[None, :, 0] >= targets[:, None, 0]
    total = torch.logsumexp(risk.squeeze(1)[None].expand(len(risk), -1).masked_fill(~later, -1e9), 1)
    seen = targets[:, 1]
    return ((total - risk.squeeze(1)) * seen).sum() / seen.sum().clamp_min(1)


class MixtureDensity(nn.Module):
    """Weights, means and widths of a mixture of normal distributions (Bishop 1994)."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 9))

    def forward(self, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        weights, means, widths = self.body(values).chunk(3, 1)
        return weights.log_softmax(1), means, F.softplus(widths) + 0.02


def mixture_loss(outputs: tuple[Tensor, Tensor, Tensor], values: Tensor) -> Tensor:
    weights, means, widths = outputs
    return -torch.logsumexp(weights + torch.distributions.Normal(means, widths).log_prob(values), 1).mean()


class Uncertain(nn.Module):
    """Mean and log variance of a price."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 48), nn.Softplus(), nn.Linear(48, 48), nn.Softplus())
        self.mean, self.log_variance = nn.Linear(48, 1), nn.Linear(48, 1)

    def forward(self, values: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.body(values)
        return self.mean(hidden), self.log_variance(hidden).clamp(-6, 4)


def gaussian(outputs: tuple[Tensor, Tensor], targets: Tensor) -> Tensor:
    return F.gaussian_nll_loss(outputs[0], targets, outputs[1].exp())


class Factors(nn.Module):
    """Embeddings of users and items whose product, plus offsets, is the rating."""

    def __init__(self) -> None:
        super().__init__()
        self.user, self.item = nn.Embedding(50, 8), nn.Embedding(80, 8)
        self.user_offset, self.item_offset = nn.Embedding(50, 1), nn.Embedding(80, 1)
        for table in (self.user, self.item):
            nn.init.normal_(table.weight, std=0.3)
        for table in (self.user_offset, self.item_offset):
            nn.init.zeros_(table.weight)

    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        product = (self.user(user) * self.item(item)).sum(1)
        return product + (self.user_offset(user) + self.item_offset(item)).squeeze(1)


class DeepFactors(nn.Module):
    """Factorization machine and a network that share their embeddings (DeepFM)."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.vectors = nn.Embedding(72, 1), nn.Embedding(72, 8)
        nn.init.normal_(self.vectors.weight, std=0.2)
        nn.init.zeros_(self.first.weight)
        self.deep = nn.Sequential(nn.Linear(48, 32), nn.ReLU(), nn.Linear(32, 1))
        self.register_buffer("offsets", 12 * torch.arange(6))

    def forward(self, fields: Tensor) -> Tensor:
        index = fields + self.offsets
        vectors = self.vectors(index)
        pairs = 0.5 * (vectors.sum(1).square() - vectors.square().sum(1)).sum(1, keepdim=True)
        return (self.first(index).sum(1) + pairs + self.deep(vectors.flatten(1))).squeeze(1)


class Attended(nn.Module):
    """Gated attention over the members of a bag (Ilse et al. 2018)."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(6, 32), nn.ReLU())
        self.value, self.gate, self.weight = nn.Linear(32, 16), nn.Linear(32, 16), nn.Linear(16, 1)
        self.head = nn.Linear(32, 2)

    def forward(self, bags: Tensor) -> Tensor:
        members = self.embed(bags)
        share = self.weight(torch.tanh(self.value(members)) * torch.sigmoid(self.gate(members))).softmax(1)
        return self.head((share * members).sum(1))


class BatchEnsemble(nn.Module):
    """Four members that share their matrices and differ by signs of inputs and outputs."""

    def __init__(self, members: int = 4) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 48), nn.Linear(48, 3)
        self.enter = nn.ParameterList(torch.randn(members, 1, size).sign() for size in (6, 48))
        self.leave = nn.ParameterList(torch.randn(members, 1, size).sign() for size in (48, 3))

    def forward(self, values: Tensor) -> Tensor:
        hidden = F.relu(self.first(values * self.enter[0]) * self.leave[0])
        return (self.second(hidden * self.enter[1]) * self.leave[1]).mean(0)


@torch.enable_grad()
def pretrained() -> nn.Sequential:
    """Return a base network that was trained on other classes."""
    base = nn.Sequential(nn.Linear(24, 96), nn.GELU(), nn.Linear(96, 96), nn.GELU(), nn.Linear(96, 16))
    optimizer = torch.optim.Adam(base.parameters(), lr=3e-3)
    centers = domains.fixed_normal(16, 24, seed=52)
    for _ in range(60):
        labels = torch.randint(16, (64,))
        optimizer.zero_grad()
        F.cross_entropy(base(centers[labels] + 0.8 * torch.randn(64, 24)), labels).backward()
        optimizer.step()
    base.zero_grad()
    return base[:4]


class LowRank(nn.Module):
    """A frozen base network of another task with low-rank updates that begin at zero (LoRA)."""

    def __init__(self) -> None:
        super().__init__()
        self.base = pretrained().requires_grad_(False)
        self.down = nn.ParameterList(torch.randn(4, size) / math.sqrt(size) for size in (24, 96))
        self.up = nn.ParameterList(torch.zeros(96, 4) for _ in range(2))
        self.head = nn.Linear(96, 20)

    def forward(self, values: Tensor) -> Tensor:
        for index, (down, up) in enumerate(zip(self.down, self.up)):
            values = self.base[2 * index](values) + 2 * values @ down.T @ up.T
            values = self.base[2 * index + 1](values)
        return self.head(values)


def distilled(scores: Tensor, shares: Tensor) -> Tensor:
    """Return the divergence from a teacher's softened outputs at temperature 2."""
    return 4 * F.kl_div(F.log_softmax(scores / 2, 1), shares, reduction="batchmean")


def taught(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    values, _ = domains.many_kinds(count, generator)
    scores = values @ domains.fixed_normal(20, 24, seed=51).T / 2
    return values, (scores / 2).softmax(1)


class Ordinal(nn.Module):
    """One score and ordered thresholds; outputs are the logits that the class is above each threshold."""

    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
        self.thresholds = nn.Parameter(torch.tensor([-1.0, 1.0]))

    def forward(self, values: Tensor) -> Tensor:
        return self.score(values) - self.thresholds


def ordinal(outputs: Tensor, labels: Tensor) -> Tensor:
    return BCE(outputs, (labels[:, None] > torch.arange(2)).float())


def logistic() -> nn.Module:
    """Return logistic regression that begins at zero: a convex problem."""
    model = nn.Linear(16, 1)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    return model


def _healthy(
    name: str, build: Any, data: Any, loss: Any = F.cross_entropy, source: str = "", **options: Any
) -> Healthy:
    return Healthy(name, Program(build, data, loss, **{"steps": 200, "lr": 3e-3} | options), source)


HEALTHY = (
    _healthy("weighted_loans", Loans, domains.loans, weighted),
    _healthy("logistic_from_zero", logistic, domains.loan_rows, focal, lr=0.05),
    _healthy("feature_tokens", FeatureTokens, domains.homes, F.huber_loss, "FT-Transformer", lr=2e-3),
    _healthy("additive_columns", Additive, domains.homes, F.mse_loss, "NAM", lr=1e-2),
    _healthy("self_normalizing", self_normalizing, domains.homes, F.mse_loss, "SNN", lr=1e-3),
    _healthy(
        "small_rate_many_steps",
        lambda: nn.Sequential(nn.Linear(8, 256), nn.GELU(), nn.Linear(256, 1)),
        domains.homes,
        F.mse_loss,
        lr=2e-4,
        steps=600,
    ),
    _healthy(
        "spline_network", lambda: nn.Sequential(Splines(8, 8), Splines(8, 1)), domains.homes, F.mse_loss, "KAN", lr=5e-3
    ),
    _healthy("sparse_experts", Experts, domains.rings(), source="Shazeer et al. 2017", lr=1e-2, steps=300),
    _healthy("soft_trees", Trees, domains.rings(), source="NODE", lr=2e-2),
    _healthy("radial_basis", radial, domains.rings(), lr=1e-2),
    _healthy("rare_labels_with_prior", rare_labels, domains.symptoms, BCE),
    _healthy(
        "poisson_counts", lambda: nn.Sequential(nn.Linear(6, 32), nn.ELU(), nn.Linear(32, 1)), domains.visits, poisson
    ),
    _healthy(
        "partial_likelihood",
        lambda: nn.Sequential(nn.Linear(7, 32), nn.Tanh(), nn.Linear(32, 1, bias=False)),
        domains.survival,
        partial_likelihood,
        "DeepSurv",
        batch=64,
    ),
    _healthy("mixture_density", MixtureDensity, domains.two_valued, mixture_loss, "Bishop 1994", lr=1e-2, steps=300),
    _healthy("mean_and_variance", Uncertain, domains.homes, gaussian),
    _healthy("factors_with_offsets", Factors, domains.ratings, F.mse_loss, "Koren 2009", lr=2e-2, samples=1024),
    _healthy("deep_factors", DeepFactors, domains.clicks, BCE, "DeepFM", lr=1e-2),
    _healthy("attended_bags", Attended, domains.bags, source="Ilse et al. 2018", steps=300),
    _healthy("batch_ensemble", BatchEnsemble, domains.rings(), source="TabM", lr=1e-2),
    _healthy("low_rank_updates", LowRank, domains.many_kinds, source="LoRA", lr=5e-3),
    _healthy(
        "distilled_student",
        lambda: nn.Sequential(nn.Linear(24, 32), nn.Hardswish(), nn.Linear(32, 20)),
        taught,
        distilled,
    ),
    _healthy("ordered_thresholds", Ordinal, domains.rings(), ordinal, "CORAL"),
    _healthy(
        "large_batch_momentum",
        lambda: nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1)),
        domains.homes,
        F.mse_loss,
        batch=256,
        lr=0.1,
        optimizer=partial(torch.optim.SGD, momentum=0.9),
    ),
)
