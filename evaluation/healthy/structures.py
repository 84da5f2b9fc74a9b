"""Points, sets, graphs, pairs, fields, tables and agents."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evaluation.programs import Healthy, Program
from evaluation.samples import blobs, class_table, digits, fixed_normal, smooth_table


def clouds(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return clouds of 32 points on one of four surfaces."""
    labels = torch.randint(4, (count,), generator=generator)
    points = torch.randn(count, 3, 32, generator=generator)
    sphere = points / points.norm(dim=1, keepdim=True)
    stretch = torch.tensor([[1.0, 1, 1], [2, 1, 0.3], [1, 2, 0.3], [0.3, 0.3, 2]])[labels]
    return sphere * stretch[..., None], labels


class PointNet(nn.Module):
    """Shared layers, a maximum over points, a small head (Qi et al. 2017)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2, self.conv3 = nn.Conv1d(3, 32, 1), nn.Conv1d(32, 64, 1), nn.Conv1d(64, 128, 1)
        self.bn1, self.bn2, self.bn3 = nn.BatchNorm1d(32), nn.BatchNorm1d(64), nn.BatchNorm1d(128)
        self.fc1, self.fc2, self.drop = nn.Linear(128, 64), nn.Linear(64, 4), nn.Dropout(0.3)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        x = self.bn3(self.conv3(x)).amax(2)
        return self.fc2(self.drop(F.relu(self.fc1(x))))


class DeepSets(nn.Module):
    """A sum over elements (Zaheer et al. 2017)."""

    def __init__(self) -> None:
        super().__init__()
        self.phi = nn.Sequential(nn.Linear(3, 48), nn.ELU(), nn.Linear(48, 48), nn.ELU())
        self.rho = nn.Sequential(nn.Linear(48, 48), nn.ELU(), nn.Linear(48, 4))

    def forward(self, x: Tensor) -> Tensor:
        return self.rho(self.phi(x.transpose(1, 2)).mean(1))


def graphs(count: int, generator: torch.Generator) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """Return features and normalized adjacencies of eight nodes, and a class of the graph."""
    edges = torch.rand(count, 8, 8, generator=generator) < 0.3
    adjacency = (edges | edges.mT | torch.eye(8).bool()).float()
    degree = adjacency.sum(2).rsqrt()
    adjacency = degree[:, :, None] * adjacency * degree[:, None]
    features = torch.randn(count, 8, 5, generator=generator)
    return (features, adjacency), ((adjacency @ features @ fixed_normal(5)).sum(1) > 0).long()


class GCN(nn.Module):
    """Two graph convolutions with dropout (Kipf and Welling 2017)."""

    def __init__(self) -> None:
        super().__init__()
        self.w1, self.w2, self.out = nn.Linear(5, 32, bias=False), nn.Linear(32, 32, bias=False), nn.Linear(32, 2)
        nn.init.xavier_uniform_(self.w1.weight)
        nn.init.xavier_uniform_(self.w2.weight)

    def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
        x = F.relu(adjacency @ self.w1(x))
        x = F.relu(adjacency @ self.w2(F.dropout(x, 0.2, self.training)))
        return self.out(x.mean(1))


class GAT(nn.Module):
    """Additive attention over neighbours (Veličković et al. 2018)."""

    def __init__(self, heads: int = 4, width: int = 8) -> None:
        super().__init__()
        self.w, self.heads = nn.Linear(5, heads * width, bias=False), heads
        self.source, self.target = nn.Parameter(torch.empty(heads, width)), nn.Parameter(torch.empty(heads, width))
        nn.init.xavier_uniform_(self.source)
        nn.init.xavier_uniform_(self.target)
        self.out = nn.Linear(heads * width, 2)

    def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
        h = self.w(x).unflatten(2, (self.heads, -1))
        e = (h * self.source).sum(-1)[:, :, None] + (h * self.target).sum(-1)[:, None]
        e = F.leaky_relu(e, 0.2).masked_fill((adjacency == 0)[..., None], -1e9)
        return self.out(F.elu(torch.einsum("bijh,bjhd->bihd", e.softmax(2), h)).flatten(2).mean(1))


class Siamese(nn.Module):
    """Two images through one encoder; the logit of their distance."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
        self.out = nn.Linear(32, 1)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return self.out((self.encoder(left) - self.encoder(right)).abs()).squeeze(1)


def image_pairs(count: int, generator: torch.Generator) -> tuple[tuple[Tensor, Tensor], Tensor]:
    left, a = digits()(count, generator)
    right, b = digits()(count, generator)
    half = count // 2
    right[:half], b[:half] = left[:half].roll(1, 2), a[:half]
    return (left, right), (a == b).float()


class NeRF(nn.Module):
    """Sine positions, a skip, density and colour (Mildenhall et al. 2020), here of points with a known field."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.a = nn.Sequential(nn.Linear(27, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.b = nn.Sequential(nn.Linear(width + 27, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.density, self.colour = nn.Linear(width, 1), nn.Sequential(nn.Linear(width, 3), nn.Sigmoid())

    def forward(self, x: Tensor) -> Tensor:
        angle = x[:, None] * 2.0 ** torch.arange(4)[:, None]
        encoded = torch.cat([x, angle.sin().flatten(1), angle.cos().flatten(1)], 1)
        h = self.b(torch.cat([self.a(encoded), encoded], 1))
        return torch.cat([F.softplus(self.density(h)), self.colour(h)], 1)


def field(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    x = 2 * torch.rand(count, 3, generator=generator) - 1
    density = torch.exp(-3 * x.square().sum(1, keepdim=True))
    return x, torch.cat([density, 0.5 + 0.4 * torch.sin(3 * x)], 1)


class SirenLayer(nn.Module):
    """A sine layer with its own initialization (Sitzmann et al. 2020)."""

    def __init__(self, inputs: int, outputs: int, first: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        bound = 1 / inputs if first else (6 / inputs) ** 0.5 / 30
        nn.init.uniform_(self.linear.weight, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(30 * self.linear(x))


def siren() -> nn.Module:
    return nn.Sequential(SirenLayer(3, 64, True), SirenLayer(64, 64, False), nn.Linear(64, 4))


def dqn() -> nn.Module:
    """Return the network of Mnih et al. (2015), smaller."""
    return nn.Sequential(
        *(nn.Conv2d(4, 16, 4, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(288, 64)),
        *(nn.ReLU(), nn.Linear(64, 4)),
    )


def frames(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    images, labels = blobs(4, 16, 4)(count, generator)
    return torch.sigmoid(images), F.one_hot(labels, 4).float()


class ActorCritic(nn.Module):
    """Orthogonal layers, a policy of gain 0.01 and a value of gain 1 (as in CleanRL)."""

    def __init__(self) -> None:
        super().__init__()
        self.critic = nn.Sequential(
            self.layer(16, 64), nn.Tanh(), self.layer(64, 64), nn.Tanh(), self.layer(64, 1, 1.0)
        )
        self.actor = nn.Sequential(
            self.layer(16, 64), nn.Tanh(), self.layer(64, 64), nn.Tanh(), self.layer(64, 4, 0.01)
        )

    @staticmethod
    def layer(inputs: int, outputs: int, gain: float = 2**0.5) -> nn.Linear:
        layer = nn.Linear(inputs, outputs)
        nn.init.orthogonal_(layer.weight, gain)
        nn.init.zeros_(layer.bias)
        return layer

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.actor(x), self.critic(x).squeeze(-1)


def actor_critic_loss(outputs: tuple[Tensor, Tensor], actions: Tensor) -> Tensor:
    logits, value = outputs
    return F.cross_entropy(logits, actions) + 0.5 * F.mse_loss(value, (actions == 0).float())


class TabularResNet(nn.Module):
    """Residual blocks of a table (Gorishniy et al. 2021)."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(16, 48), nn.Sequential(nn.BatchNorm1d(48), nn.ReLU(), nn.Linear(48, 1))
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.BatchNorm1d(48), nn.Linear(48, 96), nn.ReLU(), nn.Dropout(0.1), nn.Linear(96, 48))
            for _ in range(2)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


def logistic_regression() -> nn.Module:
    return nn.Linear(16, 4)


HEALTHY = (
    Healthy("pointnet", Program(PointNet, clouds, steps=100), "pointnet.pytorch"),
    Healthy("deep_sets", Program(DeepSets, clouds, lr=3e-3, steps=100), "DeepSets"),
    Healthy("gcn_dense", Program(GCN, graphs, lr=0.01, steps=100), "pygcn"),
    Healthy("gat_dense", Program(GAT, graphs, lr=0.01, steps=100), "pyGAT"),
    Healthy(
        "siamese", Program(Siamese, image_pairs, F.binary_cross_entropy_with_logits, steps=200), "PyTorch examples"
    ),
    Healthy("nerf", Program(NeRF, field, F.mse_loss, steps=200), "nerf-pytorch"),
    Healthy("siren", Program(siren, field, F.mse_loss, lr=1e-4, steps=200), "siren"),
    Healthy("dqn", Program(dqn, frames, F.smooth_l1_loss, steps=100), "CleanRL"),
    Healthy("actor_critic", Program(ActorCritic, class_table(), actor_critic_loss, lr=2.5e-4, steps=200), "CleanRL"),
    Healthy("tabular_resnet", Program(TabularResNet, smooth_table(), F.mse_loss, steps=100), "rtdl"),
    Healthy("logistic_regression", Program(logistic_regression, class_table(), lr=0.01, steps=100), "tutorials"),
)
