"""Healthy models of tables, clicks, ratings, counts, rankings and dynamics."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evaluation.development_5 import domains
from evaluation.programs import Healthy, Program

BCE = F.binary_cross_entropy_with_logits


class EntityEmbeddings(nn.Module):
    """Categories as vectors next to numbers (Guo and Berkhahn 2016)."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(6, 4) for _ in range(3))
        self.numbers = nn.BatchNorm1d(6)
        self.body = nn.Sequential(
            *(nn.Dropout(0.05), nn.Linear(18, 64), nn.ReLU(inplace=True), nn.BatchNorm1d(64), nn.Dropout(0.1)),
            *(nn.Linear(64, 32), nn.ReLU(inplace=True), nn.BatchNorm1d(32), nn.Linear(32, 2)),
        )

    def forward(self, kinds: Tensor, numbers: Tensor) -> Tensor:
        """Return scores of two classes."""
        columns = [table(kinds[:, index]) for index, table in enumerate(self.tables)]
        return self.body(torch.cat([*columns, self.numbers(numbers)], 1))


class NeuralFiltering(nn.Module):
    """Neural collaborative filtering: a product and a perceptron of two embeddings (He et al. 2017)."""

    def __init__(self) -> None:
        super().__init__()
        self.user_p, self.item_p = nn.Embedding(40, 8), nn.Embedding(60, 8)
        self.user_m, self.item_m = nn.Embedding(40, 16), nn.Embedding(60, 16)
        for table in (self.user_p, self.item_p, self.user_m, self.item_m):
            nn.init.normal_(table.weight, std=0.1)
        self.tower = nn.Sequential(
            nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU()
        )
        self.last = nn.Linear(16, 1)

    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        """Return ratings."""
        product = self.user_p(user) * self.item_p(item)
        tower = self.tower(torch.cat([self.user_m(user), self.item_m(item)], -1))
        return self.last(torch.cat([product, tower], -1)).squeeze(-1)


class BiasedFactors(nn.Module):
    """Matrix factorization with biases (Koren 2009)."""

    def __init__(self) -> None:
        super().__init__()
        self.p, self.q = nn.Embedding(40, 10), nn.Embedding(60, 10)
        self.b, self.c, self.mean = nn.Embedding(40, 1), nn.Embedding(60, 1), nn.Parameter(torch.zeros(1))
        for table, std in ((self.p, 0.1), (self.q, 0.1), (self.b, 0.0), (self.c, 0.0)):
            nn.init.normal_(table.weight, std=std)

    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        """Return ratings."""
        return self.mean + (self.b(user) + self.c(item))[:, 0] + (self.p(user) * self.q(item)).sum(1)


class AutoInt(nn.Module):
    """Self-attention between fields of clicks (Song et al. 2019)."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(96, 16)
        self.layers = nn.ModuleList(nn.MultiheadAttention(16, 2, batch_first=True) for _ in range(2))
        self.skips = nn.ModuleList(nn.Linear(16, 16, bias=False) for _ in range(2))
        self.out = nn.Linear(128, 1)
        self.register_buffer("offset", 12 * torch.arange(8))

    def forward(self, fields: Tensor) -> Tensor:
        """Return logits of a click."""
        x = self.embed(fields + self.offset)
        for attention, skip in zip(self.layers, self.skips, strict=True):
            x = F.relu(attention(x, x, x, need_weights=False)[0] + skip(x))
        return self.out(x.flatten(1)).squeeze(1)


class WideAndDeep(nn.Module):
    """A linear model of fields added to a deep one (Cheng et al. 2016)."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.EmbeddingBag(96, 1, mode="sum")
        self.embed = nn.Embedding(96, 8)
        self.deep = nn.Sequential(
            nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1)
        )
        self.register_buffer("offset", 12 * torch.arange(8))

    def forward(self, fields: Tensor) -> Tensor:
        """Return logits of a click."""
        index = fields + self.offset
        return (self.wide(index) + self.deep(self.embed(index).flatten(1))).squeeze(1)


class InterestNetwork(nn.Module):
    """Attention of a candidate over a history (DIN, Zhou et al. 2018): the first field against the others."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(12, 16)
        self.unit = nn.Sequential(nn.Linear(64, 32), nn.PReLU(), nn.Linear(32, 1))
        self.out = nn.Sequential(nn.Linear(32, 32), nn.PReLU(), nn.Linear(32, 1))

    def forward(self, fields: Tensor) -> Tensor:
        """Return logits of a click."""
        x = self.embed(fields)
        candidate, history = x[:, :1].expand(-1, 7, -1), x[:, 1:]
        weight = self.unit(torch.cat([candidate, history, candidate - history, candidate * history], -1))
        return self.out(torch.cat([x[:, 0], (weight * history).sum(1)], -1))[:, 0]


class Poisson(nn.Module):
    """A log-linear rate with a small correction."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.more = nn.Linear(10, 1), nn.Sequential(nn.Linear(10, 16), nn.SiLU(), nn.Linear(16, 1))

    def forward(self, values: Tensor) -> Tensor:
        """Return log-rates."""
        return self.linear(values) + self.more(values)


class NegativeBinomial(nn.Module):
    """Mean and dispersion of a negative binomial distribution."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = (
            nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU()),
            nn.Linear(32, 2),
        )

    def forward(self, values: Tensor) -> torch.distributions.NegativeBinomial:
        """Return the distribution of counts."""
        total, logits = self.head(self.body(values)).chunk(2, 1)
        return torch.distributions.NegativeBinomial(F.softplus(total) + 1e-3, logits=logits)


def likelihood(distribution: torch.distributions.Distribution, targets: Tensor) -> Tensor:
    """Return the mean negative log-likelihood."""
    return -distribution.log_prob(targets).mean()


class RankNet(nn.Module):
    """The difference of two scores (Burges 2005)."""

    def __init__(self) -> None:
        super().__init__()
        self.scorer = nn.Sequential(nn.Linear(12, 32), nn.ReLU6(), nn.Linear(32, 16), nn.ReLU6(), nn.Linear(16, 1))

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        """Return logits that the first is better."""
        return (self.scorer(left) - self.scorer(right)).squeeze(-1)


class Bilinear(nn.Module):
    """Two encoders and a bilinear form."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(12, 24), nn.Tanh())
        self.form = nn.Bilinear(24, 24, 1)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        """Return logits that the first is better."""
        return self.form(self.encoder(left), self.encoder(right))[:, 0]


class ResidualDynamics(nn.Module):
    """The change of a state, predicted by Swish layers."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 2))

    def forward(self, state: Tensor) -> Tensor:
        """Return the derivative of the state."""
        angle, speed = state.unbind(1)
        return self.net(torch.stack([angle.sin(), angle.cos(), speed], 1))


class Ensemble(nn.Module):
    """Five networks in one batched product, averaged (PETS, Chua et al. 2018)."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.randn(5, 2, 32) / 2**0.5)
        self.b = nn.Parameter(torch.randn(5, 32, 32) / 32**0.5)
        self.c = nn.Parameter(torch.randn(5, 32, 2) / 32**0.5)
        self.a0, self.b0, self.c0 = (nn.Parameter(torch.zeros(5, 1, w)) for w in (32, 32, 2))

    def forward(self, state: Tensor) -> Tensor:
        """Return the mean of five predictions."""
        h = F.silu(torch.einsum("ni,kio->kno", state, self.a) + self.a0)
        h = F.silu(h @ self.b + self.b0)
        return (h @ self.c + self.c0).mean(0)


class AdditiveModel(nn.Module):
    """A neural additive model: one small network for each column (Agarwal et al. 2021)."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList(nn.Sequential(nn.Linear(1, 16), nn.ReLU(), nn.Linear(16, 1)) for _ in range(10))
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, values: Tensor) -> Tensor:
        """Return the sum of the parts."""
        return self.bias + sum(part(values[:, i : i + 1]) for i, part in enumerate(self.parts))


class SoftTree(nn.Module):
    """An oblivious decision tree with soft splits (Frosst and Hinton 2017), depth 4."""

    def __init__(self) -> None:
        super().__init__()
        self.split, self.leaves = nn.Linear(10, 4), nn.Parameter(torch.randn(16, 1))
        bits = (torch.arange(16)[:, None] >> torch.arange(4)) & 1
        self.register_buffer("side", bits.float())

    def forward(self, values: Tensor) -> Tensor:
        """Return the expected leaf."""
        right = torch.sigmoid(self.split(values))[:, None]
        path = (self.side * right + (1 - self.side) * (1 - right)).prod(-1)
        return path @ self.leaves


class RadialBasis(nn.Module):
    """Gaussian bumps around learned centres."""

    def __init__(self) -> None:
        super().__init__()
        self.centres, self.log_width = nn.Parameter(2 * torch.rand(40, 2) - 1), nn.Parameter(torch.zeros(40))
        self.out = nn.Linear(40, 1)

    def forward(self, points: Tensor) -> Tensor:
        """Return values."""
        squared = (points[:, None] - self.centres).square().sum(-1)
        return self.out(torch.exp(-3 * self.log_width.exp() * squared))


class Ordinal(nn.Module):
    """One score and ordered thresholds (CORAL, Cao et al. 2020)."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 32), nn.LeakyReLU(), nn.Linear(32, 1, bias=False))
        self.thresholds = nn.Parameter(torch.tensor([1.0, 0.0, -1.0]))

    def forward(self, values: Tensor) -> Tensor:
        """Return logits of exceeding each threshold."""
        return self.body(values) + self.thresholds


def levels(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return columns and whether each of three levels is exceeded."""
    values, counts = domains.counts(count, generator)
    return values, (counts > torch.tensor([0.5, 2.5, 5.5])).float()


def logged(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return columns and the logarithm of counts."""
    values, counts = domains.counts(count, generator)
    return values, counts.log1p() - 1


def spectral_network() -> nn.Module:
    """Return a small network of a normalized spectrum."""
    return nn.Sequential(nn.BatchNorm1d(60), nn.Linear(60, 24), nn.ELU(), nn.Dropout(0.1), nn.Linear(24, 2))


def denoiser() -> nn.Module:
    """Return a stacked denoising autoencoder of spectra."""
    return nn.Sequential(
        *(nn.Dropout(0.2), nn.Linear(60, 32), nn.Sigmoid(), nn.Linear(32, 12), nn.Sigmoid(), nn.Linear(12, 32)),
        *(nn.Sigmoid(), nn.Linear(32, 60)),
    )


def own_spectra(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return standardized spectra as inputs and targets."""
    values, _ = domains.spectra(count, generator)
    values = (values - 0.35) / 0.4
    return values, values


HEALTHY = (
    Healthy("entity_embeddings", Program(EntityEmbeddings, domains.churn)),
    Healthy("neural_filtering", Program(NeuralFiltering, domains.ratings(), F.mse_loss)),
    Healthy("biased_factors", Program(BiasedFactors, domains.ratings(), F.mse_loss, lr=0.02)),
    Healthy("auto_int", Program(AutoInt, domains.clicks, BCE)),
    Healthy("wide_and_deep", Program(WideAndDeep, domains.clicks, BCE, lr=3e-3)),
    Healthy("interest_network", Program(InterestNetwork, domains.clicks, BCE, lr=3e-3)),
    Healthy("poisson_rate", Program(Poisson, domains.counts, F.poisson_nll_loss, lr=0.01)),
    Healthy("negative_binomial", Program(NegativeBinomial, domains.counts, likelihood, lr=3e-3)),
    Healthy("rank_net", Program(RankNet, domains.pairs_to_rank, BCE)),
    Healthy("bilinear_ranker", Program(Bilinear, domains.pairs_to_rank, BCE, lr=3e-3)),
    Healthy("residual_dynamics", Program(ResidualDynamics, domains.pendulum, F.mse_loss)),
    Healthy("ensemble_in_one_product", Program(Ensemble, domains.pendulum, F.mse_loss)),
    Healthy("additive_model", Program(AdditiveModel, logged, F.mse_loss, lr=5e-3)),
    Healthy("soft_tree", Program(SoftTree, logged, F.mse_loss, lr=0.02)),
    Healthy("radial_basis", Program(RadialBasis, domains.curves, F.mse_loss, lr=0.01)),
    Healthy("ordinal_levels", Program(Ordinal, levels, BCE, lr=5e-3)),
    Healthy("spectral_network", Program(spectral_network, domains.spectra, F.mse_loss, lr=3e-3)),
    Healthy("denoising_spectra", Program(denoiser, own_spectra, F.mse_loss, lr=5e-3)),
)  # fmt: skip
