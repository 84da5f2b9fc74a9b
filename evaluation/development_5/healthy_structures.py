"""Healthy models of graphs, particles, bags, sets and self-supervision."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evaluation.development_5 import domains
from evaluation.programs import Healthy, Program

BCE = F.binary_cross_entropy_with_logits


class GraphTransformer(nn.Module):
    """Attention between nodes, biased by the edges (Dwivedi and Bresson 2021)."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.enter, self.qkv, self.out = nn.Linear(6, width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.n1, self.n2, self.edge = nn.LayerNorm(width), nn.LayerNorm(width), nn.Parameter(torch.ones(1))
        self.mlp = nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, width))
        self.head = nn.Linear(width, 2)

    def forward(self, features: Tensor, adjacency: Tensor) -> Tensor:
        """Return scores of two classes."""
        x = self.enter(features)
        q, k, v = self.qkv(self.n1(x)).chunk(3, -1)
        scores = q @ k.mT / q.shape[-1] ** 0.5 + self.edge * adjacency
        x = x + self.out(scores.softmax(-1) @ v)
        return self.head((x + self.mlp(self.n2(x))).mean(1))


class JumpingKnowledge(nn.Module):
    """Graph convolutions whose outputs are all read (Xu et al. 2018)."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 16), nn.Linear(16, 16), nn.Linear(16, 16)])
        self.head = nn.Linear(48, 2)

    def forward(self, features: Tensor, adjacency: Tensor) -> Tensor:
        """Return scores of two classes."""
        outputs = []
        for layer in self.layers:
            features = F.relu(layer(torch.bmm(adjacency, features)))
            outputs.append(features)
        return self.head(torch.cat(outputs, -1).sum(1))


class PersonalizedRank(nn.Module):
    """A perceptron, then ten smoothing steps with a restart (APPNP, Gasteiger et al. 2019)."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 8))
        self.head = nn.Linear(8, 2)

    def forward(self, features: Tensor, adjacency: Tensor) -> Tensor:
        """Return scores of two classes."""
        start = state = self.net(features)
        for _ in range(10):
            state = 0.9 * adjacency @ state + 0.1 * start
        return self.head(torch.tanh(state).sum(1))


class ContinuousFilter(nn.Module):
    """Continuous filters of distances (SchNet, Schütt et al. 2017)."""

    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.randn(24) / 24**0.5)
        self.filters = nn.ModuleList(
            nn.Sequential(nn.Linear(16, 24), nn.Softplus(), nn.Linear(24, 24)) for _ in range(2)
        )
        self.mixes = nn.ModuleList(nn.Sequential(nn.Linear(24, 24), nn.Softplus(), nn.Linear(24, 24)) for _ in range(2))
        self.read = nn.Sequential(nn.Linear(24, 16), nn.Softplus(), nn.Linear(16, 1))
        self.register_buffer("centres", torch.linspace(0, 5, 16))

    def forward(self, positions: Tensor) -> Tensor:
        """Return energies."""
        difference = positions[:, :, None] - positions[:, None]
        distance = (difference.square().sum(-1) + 1e-9).sqrt()
        basis = torch.exp(-4 * (distance[..., None] - self.centres).square())
        x = self.start.expand(*positions.shape[:2], -1)
        other = 1 - torch.eye(positions.shape[1])[..., None]
        for weights, mix in zip(self.filters, self.mixes, strict=True):
            x = x + mix((weights(basis) * other * x[:, None]).sum(2))
        return self.read(x).sum(1)


class Equivariant(nn.Module):
    """Messages of squared distances that also move the positions (EGNN, Satorras et al. 2021)."""

    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.randn(16))
        self.message = nn.ModuleList(
            nn.Sequential(nn.Linear(33, 24), nn.SiLU(), nn.Linear(24, 16), nn.SiLU()) for _ in range(2)
        )
        self.move = nn.ModuleList(nn.Linear(16, 1, bias=False) for _ in range(2))
        for layer in self.move:
            nn.init.xavier_uniform_(layer.weight, gain=0.001)
        self.update = nn.ModuleList(nn.Sequential(nn.Linear(32, 24), nn.SiLU(), nn.Linear(24, 16)) for _ in range(2))
        self.read = nn.Linear(16, 1)

    def forward(self, positions: Tensor) -> Tensor:
        """Return energies."""
        count, nodes, _ = positions.shape
        h = self.start.expand(count, nodes, -1)
        for message, move, update in zip(self.message, self.move, self.update, strict=True):
            difference = positions[:, :, None] - positions[:, None]
            squared = difference.square().sum(-1, keepdim=True)
            left, right = h[:, :, None].expand(-1, -1, nodes, -1), h[:, None].expand(-1, nodes, -1, -1)
            m = message(torch.cat([left, right, squared], -1))
            positions = positions + (difference * move(m)).mean(2)
            h = h + update(torch.cat([h, m.sum(2)], -1))
        return self.read(h).sum(1)


class RelationNetwork(nn.Module):
    """A function of all pairs of objects, summed (Santoro et al. 2017)."""

    def __init__(self) -> None:
        super().__init__()
        self.g = nn.Sequential(nn.Linear(6, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU())
        self.f = nn.Sequential(nn.Linear(48, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, positions: Tensor) -> Tensor:
        """Return energies."""
        nodes = positions.shape[1]
        i, j = torch.triu_indices(nodes, nodes, 1)
        pairs = torch.cat([positions[:, i], positions[:, j]], -1)
        return self.f(self.g(pairs).mean(1))


class GatedBag(nn.Module):
    """Gated attention over the instances of a bag (Ilse et al. 2018)."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.v, self.u, self.w, self.out = nn.Linear(32, 16), nn.Linear(32, 16), nn.Linear(16, 1), nn.Linear(32, 1)

    def forward(self, bag: Tensor) -> Tensor:
        """Return logits of positive bags."""
        h = self.features(bag)
        weight = self.w(torch.tanh(self.v(h)) * torch.sigmoid(self.u(h))).softmax(1)
        return self.out((weight * h).sum(1)).squeeze(1)


class NeuralProcess(nn.Module):
    """Context points are averaged to a code that conditions a decoder (Garnelo et al. 2018)."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 32))
        self.decoder = nn.Sequential(nn.Linear(33, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, context: Tensor, query: Tensor) -> Tensor:
        """Return values at the queries."""
        code = self.encoder(context).mean(1, keepdim=True).expand(-1, query.shape[1], -1)
        return self.decoder(torch.cat([code, query], -1))


def functions(count: int, generator: torch.Generator) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """Return eight known points of a random sine, five queries, and the values there."""
    phase = 6.3 * torch.rand(count, 1, 1, generator=generator)
    x = 4 * torch.rand(count, 13, 1, generator=generator) - 2
    y = torch.sin(1.5 * x + phase)
    return (torch.cat([x, y], -1)[:, :8], x[:, 8:]), y[:, 8:]


class AngularMargin(nn.Module):
    """Cosines to class vectors times 16 (NormFace, Wang et al. 2017)."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(288, 64), nn.PReLU(), nn.Linear(64, 16), nn.BatchNorm1d(16))
        self.classes = nn.Parameter(torch.randn(5, 16))

    def forward(self, window: Tensor) -> Tensor:
        """Return scaled cosines."""
        return 16 * F.normalize(self.body(window)) @ F.normalize(self.classes).T


class Prototypes(nn.Module):
    """Negative squared distances to learned prototypes."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(6, 16, 5, 2), nn.ReLU(), nn.Conv1d(16, 16, 5, 2), nn.ReLU(), nn.Flatten(), nn.Linear(144, 8)
        )
        self.prototypes = nn.Parameter(torch.randn(5, 8))

    def forward(self, window: Tensor) -> Tensor:
        """Return scores of activities."""
        return -(self.body(window)[:, None] - self.prototypes).square().sum(-1)


class QNetwork(nn.Module):
    """The value of an action in a state (critic of DDPG, Lillicrap et al. 2016)."""

    def __init__(self) -> None:
        super().__init__()
        self.state, self.both, self.out = nn.Linear(2, 48), nn.Linear(49, 48), nn.Linear(48, 1)
        nn.init.uniform_(self.out.weight, -3e-3, 3e-3)

    def forward(self, state: Tensor, action: Tensor) -> Tensor:
        """Return values."""
        h = F.relu(self.state(state))
        return self.out(F.relu(self.both(torch.cat([h, action], 1))))


def controlled(count: int, generator: torch.Generator) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """Return states, actions in [-1, 1], and a value."""
    state, _ = domains.pendulum(count, generator)
    action = 2 * torch.rand(count, 1, generator=generator) - 1
    return (state, action), state[:, :1].cos() - 0.1 * state[:, 1:].square() / 2 - 0.5 * action.square()


class Distributional(nn.Module):
    """A distribution over 21 values for each action (C51, Bellemare et al. 2017); returns log-probabilities."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 3 * 21))

    def forward(self, state: Tensor) -> Tensor:
        """Return log-probabilities ``[count, 3, 21]``."""
        return self.net(state).unflatten(1, (3, 21)).log_softmax(-1)


def returns(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return states and the index of the return of each action."""
    state, _ = domains.pendulum(count, generator)
    value = state[:, :1].cos() + 0.2 * torch.arange(3)
    return state, ((value + 1) / 2.4 * 20).long().clamp(0, 20)


def distributional_loss(logs: Tensor, index: Tensor) -> Tensor:
    """Return the cross-entropy with the observed returns."""
    return F.nll_loss(logs.flatten(0, 1), index.flatten())


HEALTHY = (
    Healthy("graph_transformer", Program(GraphTransformer, domains.graphs())),
    Healthy("jumping_knowledge", Program(JumpingKnowledge, domains.graphs(), lr=3e-3)),
    Healthy("personalized_rank", Program(PersonalizedRank, domains.graphs(), lr=3e-3)),
    Healthy("continuous_filters", Program(ContinuousFilter, domains.particles, F.mse_loss, samples=256)),
    Healthy("equivariant_messages", Program(Equivariant, domains.particles, F.mse_loss, lr=2e-3, samples=256)),
    Healthy("relation_network", Program(RelationNetwork, domains.particles, F.mse_loss)),
    Healthy("gated_bag", Program(GatedBag, domains.bags, BCE, lr=2e-3)),
    Healthy("neural_process", Program(NeuralProcess, functions, F.mse_loss, lr=3e-3)),
    Healthy("angular_margin", Program(AngularMargin, domains.sensors())),
    Healthy("prototypes", Program(Prototypes, domains.sensors(), lr=3e-3)),
    Healthy("critic_of_state_and_action", Program(QNetwork, controlled, F.mse_loss)),
    Healthy("distribution_of_returns", Program(Distributional, returns, distributional_loss, lr=3e-3)),
)  # fmt: skip
