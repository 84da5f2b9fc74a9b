"""Models of tables, graphs, sets, pairs, fields and densities."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import nn

from evaluation.published.attention import PreNormBlock, SelfAttention
from evaluation.published.losses import contrastive, cross_entropy, likelihood, squares
from evaluation.published.members import Member
from evaluation.published.samples import (
    flat_digits,
    grid_adjacency,
    grid_graphs,
    image_pairs,
    photographs,
    points,
    table,
)


def tabular():
    """A perceptron with dropout; torch's own start (Gorishniy et al. 2021)."""
    return nn.Sequential(
        nn.Linear(30, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 128), nn.ReLU(), nn.Dropout(0.1),
        nn.Linear(128, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 2),
    )  # fmt: skip


class FeatureTransformer(nn.Module):
    """FT-Transformer: every number its own token, uniform within width^-½, then pre-norm blocks and a class token."""

    def __init__(self, features=30, width=32, depth=3, heads=4):
        super().__init__()
        bound = width**-0.5
        self.weight, self.bias = (nn.Parameter(torch.empty(features, width).uniform_(-bound, bound)) for _ in range(2))
        self.token = nn.Parameter(torch.empty(1, 1, width).uniform_(-bound, bound))
        self.blocks = nn.Sequential(*[PreNormBlock(width, SelfAttention(width, heads)) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 2)

    def forward(self, x):
        x = x[..., None] * self.weight + self.bias
        x = self.blocks(torch.cat([self.token.expand(len(x), -1, -1), x], dim=1))
        return self.head(torch.relu(self.norm(x[:, 0])))


class TableBlock(nn.Module):
    """x + linear(dropout(relu(linear(norm(x)))))."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.first, self.second = (
            nn.BatchNorm1d(width),
            nn.Linear(width, 2 * width),
            nn.Linear(2 * width, width),
        )

    def forward(self, x):
        return x + self.second(F.dropout(torch.relu(self.first(self.norm(x))), 0.1, self.training))


def tabular_resnet():
    """Residual blocks of dense layers (Gorishniy et al. 2021)."""
    blocks = [TableBlock(64) for _ in range(4)]
    return nn.Sequential(nn.Linear(30, 64), *blocks, nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 2))


class GraphConvolution(nn.Module):
    """Â X W of a fixed graph, Glorot's law."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.empty(inputs, outputs)), nn.Parameter(torch.zeros(outputs))
        self.register_buffer("adjacency", grid_adjacency())
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x):
        return self.adjacency @ (x @ self.weight) + self.bias


class GraphNetwork(nn.Module):
    """GCN of two layers, means over the nodes."""

    def __init__(self, width=32):
        super().__init__()
        self.first, self.second = GraphConvolution(4, width), GraphConvolution(width, width)
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        return self.head(torch.relu(self.second(torch.relu(self.first(x)))).mean(1))


class GraphAttention(nn.Module):
    """GAT's layer: neighbours weighed by a learned score with a leaky slope."""

    def __init__(self, inputs, outputs, heads=4):
        super().__init__()
        self.heads, self.project = heads, nn.Linear(inputs, outputs, bias=False)
        self.source, self.target = (nn.Parameter(torch.empty(heads, outputs // heads)) for _ in range(2))
        self.register_buffer("apart", grid_adjacency() == 0)
        for parameter in (self.project.weight, self.source, self.target):
            nn.init.xavier_uniform_(parameter, gain=math.sqrt(2))

    def forward(self, x):
        x = self.project(x).unflatten(2, (self.heads, -1)).transpose(1, 2)
        score = (x * self.source[:, None]).sum(-1)[..., None] + (x * self.target[:, None]).sum(-1)[..., None, :]
        weights = torch.softmax(F.leaky_relu(score, 0.2).masked_fill(self.apart, -math.inf), dim=-1)
        return F.elu((weights @ x).transpose(1, 2).flatten(2))


class AttentiveGraphNetwork(nn.Module):
    """GAT of two layers."""

    def __init__(self, width=32):
        super().__init__()
        self.first, self.second = GraphAttention(4, width), GraphAttention(width, width)
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        return self.head(self.second(self.first(x)).mean(1))


class Isomorphism(nn.Module):
    """GIN: sums over neighbours through a perceptron with batch norm, sums over nodes."""

    def __init__(self, width=32):
        super().__init__()
        self.register_buffer("neighbours", (grid_adjacency() > 0).float())
        self.layers = nn.ModuleList(
            nn.ModuleList(
                [nn.Linear(inputs, width), nn.BatchNorm1d(width), nn.Linear(width, width), nn.BatchNorm1d(width)]
            )
            for inputs in (4, width, width)
        )
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        for first, norm, second, last in self.layers:
            y = torch.relu(norm(first(self.neighbours @ x).mT).mT)
            x = torch.relu(last(second(y).mT).mT)
        return self.head(x.sum(1))


class PointNet(nn.Module):
    """Points one by one through a perceptron, their maximum, a classifier; the input is turned by a learned matrix."""

    def __init__(self):
        super().__init__()
        self.turn = nn.Sequential(nn.Conv1d(3, 32, 1), nn.BatchNorm1d(32), nn.ReLU())
        self.matrix = nn.Linear(32, 9)
        nn.init.zeros_(self.matrix.weight)
        nn.init.zeros_(self.matrix.bias)
        sizes = (3, 32, 64, 128)
        layers = [(nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU()) for a, b in pairwise(sizes)]
        self.points = nn.Sequential(*[layer for group in layers for layer in group])
        self.head = nn.Sequential(nn.Linear(128, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 10))

    def forward(self, x):
        matrix = self.matrix(self.turn(x).amax(2)).view(-1, 3, 3) + torch.eye(3, device=x.device)
        return self.head(self.points(matrix @ x).amax(2))


class DeepSets(nn.Module):
    """A sum over the elements between two perceptrons."""

    def __init__(self, width=64):
        super().__init__()
        self.elements = nn.Sequential(nn.Linear(3, width), nn.ELU(), nn.Linear(width, width), nn.ELU())
        self.head = nn.Sequential(nn.Linear(width, width), nn.ELU(), nn.Linear(width, 10))

    def forward(self, x):
        return self.head(self.elements(x.transpose(1, 2)).mean(1))


class Siamese(nn.Module):
    """One convolutional network for both images of a pair."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
            nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 16),
        )  # fmt: skip

    def forward(self, left, right):
        return self.embed(left), self.embed(right)


class Sine(nn.Module):
    """sin(30·(Wx + b)); uniform within √(6/n)/30, the first layer within 1/n."""

    def __init__(self, inputs, outputs, *, first=False):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        bound = 1 / inputs if first else math.sqrt(6 / inputs) / 30
        nn.init.uniform_(self.linear.weight, -bound, bound)

    def forward(self, x):
        return torch.sin(30 * self.linear(x))


def siren():
    """SIREN of a photograph: from places to colours."""
    last = nn.Linear(64, 3)
    nn.init.uniform_(last.weight, -math.sqrt(6 / 64) / 30, math.sqrt(6 / 64) / 30)
    return nn.Sequential(Sine(2, 64, first=True), Sine(64, 64), Sine(64, 64), last)


def pixels(count):
    """Places in [-1, 1]² of a photograph, and the colours there."""
    image = photographs(1, 64)[0][0]
    order = torch.randperm(64 * 64, generator=torch.Generator().manual_seed(0))[:count]
    places = torch.stack([order // 64, order % 64], dim=1) / 31.5 - 1
    return places, image.flatten(1).T[order]


class Coupling(nn.Module):
    """RealNVP's layer: half of the values scaled and shifted by a network of the other half, which begins at 0."""

    def __init__(self, size, hidden, swap):
        super().__init__()
        self.swap = swap
        self.network = nn.Sequential(
            nn.Linear(size // 2, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, size)
        )
        nn.init.zeros_(self.network[-1].weight)
        nn.init.zeros_(self.network[-1].bias)

    def forward(self, x):
        kept, moved = reversed(x.chunk(2, dim=1)) if self.swap else x.chunk(2, dim=1)
        scale, shift = self.network(kept).chunk(2, dim=1)
        scale = torch.tanh(scale)
        moved = moved * torch.exp(scale) + shift
        joined = torch.cat([moved, kept] if self.swap else [kept, moved], dim=1)
        return joined, scale.sum(1)


class Flow(nn.Module):
    """Four coupling layers."""

    def __init__(self, size=64, hidden=64, depth=4):
        super().__init__()
        self.layers = nn.ModuleList(Coupling(size, hidden, bool(index % 2)) for index in range(depth))

    def forward(self, x):
        total = torch.zeros(len(x), device=x.device)
        for layer in self.layers:
            x, log_determinant = layer(x)
            total = total + log_determinant
        return x, total


class LowRank(nn.Module):
    """A frozen Linear layer and a trained product of two thin ones, the second of which begins at 0 (LoRA)."""

    def __init__(self, inputs, outputs, rank=4):
        super().__init__()
        self.frozen, self.down = nn.Linear(inputs, outputs), nn.Linear(inputs, rank, bias=False)
        self.up = nn.Linear(rank, outputs, bias=False)
        nn.init.zeros_(self.up.weight)
        self.frozen.requires_grad_(False)

    def forward(self, x):
        return self.frozen(x) + self.up(self.down(x))


def low_rank():
    """A perceptron fine-tuned by LoRA; its head is trained."""
    return nn.Sequential(LowRank(64, 128), nn.ReLU(), LowRank(128, 128), nn.ReLU(), nn.Linear(128, 10))


MEMBERS = (
    Member("tabular MLP", "Gorishniy et al. 2021", tabular, table, cross_entropy),
    Member("tabular ResNet", "Gorishniy et al. 2021", tabular_resnet, table, cross_entropy),
    Member("FT-Transformer", "Gorishniy et al. 2021", FeatureTransformer, table, cross_entropy),
    Member("GCN", "Kipf, Welling 2017", GraphNetwork, grid_graphs, cross_entropy),
    Member("GAT", "Veličković et al. 2018", AttentiveGraphNetwork, grid_graphs, cross_entropy),
    Member("GIN", "Xu et al. 2019", Isomorphism, grid_graphs, cross_entropy),
    Member("PointNet", "Qi et al. 2017", PointNet, points, cross_entropy),
    Member("Deep Sets", "Zaheer et al. 2017", DeepSets, points, cross_entropy),
    Member("siamese", "Hadsell et al. 2006; Koch et al. 2015", Siamese, image_pairs, contrastive),
    Member("SIREN", "Sitzmann et al. 2020", siren, pixels, squares),
    Member("RealNVP", "Dinh et al. 2017", Flow, flat_digits, likelihood),
    Member("LoRA", "Hu et al. 2022", low_rank, flat_digits, cross_entropy),
)
