"""Healthy models of graphs, points, physics, games, densities and pairs."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evaluation.development_6 import domains
from evaluation.programs import Healthy, Program


class GraphConvolutions(nn.Module):
    """Two graph convolutions of the normalized adjacency; a class for each node (Kipf and Welling 2017)."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(5, 24), nn.Linear(24, 2)

    def forward(self, nodes: Tensor, adjacency: Tensor) -> Tensor:
        adjacency = adjacency + torch.eye(adjacency.shape[-1])
        scale = adjacency.sum(-1).rsqrt()
        adjacency = scale[:, :, None] * adjacency * scale[:, None, :]
        return adjacency @ self.second(F.relu(adjacency @ self.first(nodes)))


class GraphAttention(nn.Module):
    """Attention over neighbors with two heads (Velickovic et al. 2018)."""

    def __init__(self, width: int = 12, heads: int = 2) -> None:
        super().__init__()
        self.enter = nn.Linear(5, width * heads, bias=False)
        self.target, self.neighbor = (nn.Parameter(torch.randn(heads, width) / math.sqrt(width)) for _ in range(2))
        self.head = nn.Linear(width * heads, 2)

    def forward(self, nodes: Tensor, adjacency: Tensor) -> Tensor:
        values = self.enter(nodes).unflatten(-1, (2, -1))
        scores = (values * self.target).sum(-1)[:, :, None] + (values * self.neighbor).sum(-1)[:, None]
        linked = (adjacency + torch.eye(adjacency.shape[-1]))[..., None] > 0
        share = F.leaky_relu(scores, 0.2).masked_fill(~linked, -1e9).softmax(2)
        return self.head(F.elu(torch.einsum("bijh,bjhw->bihw", share, values).flatten(2)))


def each_node(scores: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(scores.transpose(1, 2), labels)


class MessagePassing(nn.Module):
    """Messages over bonds, a GRU that updates atoms with shared weights, and a gated sum (Gilmer et al. 2017)."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.embed = nn.Embedding(4, width)
        self.message = nn.Linear(2 * width, width)
        self.update = nn.GRUCell(width, width)
        self.gate, self.read = nn.Linear(2 * width, 1), nn.Linear(width, 1)

    def forward(self, kinds: Tensor, bonds: Tensor) -> Tensor:
        start = atoms = self.embed(kinds)
        count = kinds.shape[1]
        for _ in range(2):
            both = torch.cat(
                [atoms[:, :, None].expand(-1, -1, count, -1), atoms[:, None].expand(-1, count, -1, -1)], -1
            )
            received = (bonds[..., None] * F.relu(self.message(both))).sum(2)
            atoms = self.update(received.flatten(0, 1), atoms.flatten(0, 1)).view_as(atoms)
        share = torch.sigmoid(self.gate(torch.cat([atoms, start], -1)))
        return (share * self.read(atoms)).sum(1)


class PointNet(nn.Module):
    """A shared perceptron of points and a maximum over them."""

    def __init__(self) -> None:
        super().__init__()
        self.points = nn.Sequential(
            *(nn.Conv1d(3, 32, 1), nn.BatchNorm1d(32), nn.ReLU(), nn.Conv1d(32, 64, 1), nn.BatchNorm1d(64), nn.ReLU())
        )
        self.head = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 4))

    def forward(self, clouds: Tensor) -> Tensor:
        return self.head(self.points(clouds.transpose(1, 2)).amax(2))


class EdgeConvolution(nn.Module):
    """Differences to the six nearest points (DGCNN)."""

    def __init__(self) -> None:
        super().__init__()
        self.edge = nn.Sequential(nn.Linear(6, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32))
        self.head = nn.Sequential(nn.Linear(64, 32), nn.LeakyReLU(0.2), nn.Linear(32, 4))

    def forward(self, clouds: Tensor) -> Tensor:
        near = torch.cdist(clouds, clouds).topk(6, largest=False).indices
        others = clouds[torch.arange(len(clouds))[:, None, None], near]
        center = clouds[:, :, None].expand_as(others)
        points = self.edge(torch.cat([center, others - center], -1)).amax(2)
        return self.head(torch.cat([points.amax(1), points.mean(1)], -1))


class Sine(nn.Module):
    """Sine layers with the initialization of Sitzmann et al. 2020; its derivatives enter the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(1, 32), nn.Linear(32, 32), nn.Linear(32, 1)])
        nn.init.uniform_(self.layers[0].weight, -1, 1)
        for layer in self.layers[1:]:
            nn.init.uniform_(layer.weight, -math.sqrt(6 / 32) / 5, math.sqrt(6 / 32) / 5)

    def forward(self, time: Tensor) -> Tensor:
        hidden = torch.sin(5 * self.layers[0](time))
        return self.layers[2](torch.sin(5 * self.layers[1](hidden)))


class Physics(nn.Module):
    """A solution and the residual of its differential equation by finite differences; starts at u(0) = 1."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))

    def solution(self, time: Tensor) -> Tensor:
        return 1 + time * self.body(time)

    def forward(self, time: Tensor) -> tuple[Tensor, Tensor]:
        here = self.solution(time)
        slope = (self.solution(time + 0.01) - self.solution(time - 0.01)) / 0.02
        return here, slope + 2 * here


def residual(outputs: tuple[Tensor, Tensor], _: Tensor) -> Tensor:
    return outputs[1].square().mean()


class Hamiltonian(nn.Module):
    """Motion from the gradient of a learned energy, with friction (Greydanus et al. 2019)."""

    def __init__(self) -> None:
        super().__init__()
        self.energy = nn.Sequential(nn.Linear(2, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 1))
        self.friction = nn.Parameter(torch.zeros(1))

    def forward(self, state: Tensor) -> Tensor:
        with torch.enable_grad():
            if not state.requires_grad:
                state = state.detach().requires_grad_()
            for _ in range(4):
                (slope,) = torch.autograd.grad(self.energy(state).sum(), state, create_graph=True)
                speed = state[:, 1] - 0.125 * (slope[:, 0] + self.friction * state[:, 1])
                state = torch.stack([state[:, 0] + 0.125 * slope[:, 1], speed], 1)
        return state


class Flow(nn.Module):
    """Runge-Kutta steps of one learned velocity with shared weights (neural ODE)."""

    def __init__(self) -> None:
        super().__init__()
        self.velocity = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 2))

    def forward(self, state: Tensor) -> Tensor:
        for _ in range(4):
            middle = state + 0.0625 * self.velocity(state)
            state = state + 0.125 * self.velocity(middle)
        return state


class Coupling(nn.Module):
    """Six affine couplings that begin as the identity (RealNVP)."""

    def __init__(self) -> None:
        super().__init__()
        self.nets = nn.ModuleList(
            nn.Sequential(nn.Linear(1, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2)) for _ in range(6)
        )
        for net in self.nets:
            nn.init.zeros_(net[-1].weight)
            nn.init.zeros_(net[-1].bias)

    def forward(self, values: Tensor) -> tuple[Tensor, Tensor]:
        total = values.new_zeros(len(values))
        for net in self.nets:
            passed, changed = values[:, :1], values[:, 1:]
            scale, shift = net(passed).chunk(2, 1)
            scale = torch.tanh(scale)
            values = torch.cat([changed * scale.exp() + shift, passed], 1)
            total = total + scale.squeeze(1)
        return values, total


def likelihood(outputs: tuple[Tensor, Tensor], _: Tensor) -> Tensor:
    values, total = outputs
    return (0.5 * values.square().sum(1) + math.log(2 * math.pi) - total).mean()


class Denoiser(nn.Module):
    """A diffusion model's network: noise from noised points and the strength of the noise as sines."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 96), nn.SiLU(), nn.Linear(96, 96), nn.SiLU(), nn.Linear(96, 2))
        nn.init.zeros_(self.body[-1].weight)

    def forward(self, points: Tensor, strength: Tensor) -> Tensor:
        angle = strength * torch.tensor([1.0, 2, 4, 8])
        return self.body(torch.cat([points, angle.sin(), angle.cos()], 1))


class Siamese(nn.Module):
    """One network of two descriptions; the output is their distance."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(20, 48), nn.ReLU(), nn.Linear(48, 16))

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        return F.pairwise_distance(self.embed(first), self.embed(second))


def contrastive(distance: Tensor, same: Tensor) -> Tensor:
    """Return the contrastive loss (Hadsell et al. 2006)."""
    return torch.where(same == 1, distance.square(), F.relu(2 - distance).square()).mean()


class Triplets(nn.Module):
    """Unit vectors of an anchor, a positive and a negative."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(20, 64), nn.PReLU(), nn.Linear(64, 12))

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> tuple[Tensor, ...]:
        return tuple(F.normalize(self.embed(values), dim=1) for values in (anchor, positive, negative))


def triplet(outputs: tuple[Tensor, ...], _: Tensor) -> Tensor:
    return F.triplet_margin_loss(*outputs, margin=0.5)


class Views(nn.Module):
    """Two views of each sample and a learned temperature (SimCLR, CLIP)."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(20, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 16))
        self.scale = nn.Parameter(torch.tensor(math.log(5.0)))

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        first, second = F.normalize(self.embed(first), dim=1), F.normalize(self.embed(second), dim=1)
        return self.scale.exp() * first @ second.T


def matched(scores: Tensor, _: Tensor) -> Tensor:
    index = torch.arange(len(scores))
    return (F.cross_entropy(scores, index) + F.cross_entropy(scores.T, index)) / 2


class Siblings(nn.Module):
    """Two views, a predictor, and targets without a gradient (SimSiam)."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(20, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 16))
        self.norm = nn.BatchNorm1d(16, affine=False)
        self.predict = nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 16))

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        first, second = self.norm(self.embed(first)), self.norm(self.embed(second))
        one = F.cosine_similarity(self.predict(first), second.detach(), dim=1)
        other = F.cosine_similarity(self.predict(second), first.detach(), dim=1)
        return (one + other) / 2


def dueling() -> nn.Module:
    """Return a value network with separate values and advantages (Wang et al. 2016)."""

    class Dueling(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
            self.value, self.advantage = nn.Linear(64, 1), nn.Linear(64, 3)

        def forward(self, states: Tensor) -> Tensor:
            hidden = self.body(states)
            advantage = self.advantage(hidden)
            return self.value(hidden) + advantage - advantage.mean(1, keepdim=True)

    return Dueling()


def taken(values: Tensor, targets: dict[str, Tensor]) -> Tensor:
    """Return the Huber loss of the values of the actions that were taken."""
    return F.huber_loss(values.gather(1, targets["action"][:, None]).squeeze(1), targets["return"])


class ActorCritic(nn.Module):
    """Orthogonal tanh layers, a policy and a value from separate networks, as in PPO."""

    def __init__(self) -> None:
        super().__init__()
        self.actor, self.critic = self.net(3, 0.01), self.net(1, 1.0)

    @staticmethod
    def net(outputs: int, gain: float) -> nn.Module:
        model = nn.Sequential(nn.Linear(6, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, outputs))
        for layer, scale in zip(model[::2], (2**0.5, 2**0.5, gain)):
            nn.init.orthogonal_(layer.weight, scale)
            nn.init.zeros_(layer.bias)
        return model

    def forward(self, states: Tensor) -> tuple[Tensor, Tensor]:
        return self.actor(states), self.critic(states).squeeze(1)


def imitate(outputs: tuple[Tensor, Tensor], targets: dict[str, Tensor]) -> Tensor:
    scores, values = outputs
    best = targets["values"].argmax(1)
    entropy = torch.distributions.Categorical(logits=scores).entropy().mean()
    return F.cross_entropy(scores, best) + 0.5 * F.mse_loss(values, targets["values"].amax(1)) - 0.01 * entropy


class HyperNetwork(nn.Module):
    """A set of known points makes the weights of a small network of time."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.make = nn.Linear(64, 3 * 12 + 1)
        self.first = nn.Parameter(torch.randn(12))

    def forward(self, known: Tensor, asked: Tensor) -> Tensor:
        weights = self.make(self.encode(known).mean(1))
        slope, shift, out, bias = weights.split([12, 12, 12, 1], 1)
        hidden = torch.tanh(asked * (self.first + slope)[:, None] + shift[:, None])
        return (hidden * out[:, None]).sum(2, keepdim=True) / 3 + bias[:, None]


class Spikes(nn.Module):
    """Leaky neurons that fire at a threshold, with a smooth gradient instead of that of the step."""

    class Fire(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, potential: Tensor) -> Tensor:
            ctx.save_for_backward(potential)
            return (potential > 0).float()

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            (potential,) = ctx.saved_tensors
            return gradient / (1 + 3 * potential.abs()) ** 2

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.read = nn.Linear(24, 96), nn.Linear(96, 20)

    def forward(self, values: Tensor) -> Tensor:
        potential, total = values.new_zeros(len(values), 96), 0
        current = 2 * self.enter(values)
        for _ in range(6):
            potential = 0.8 * potential + current
            fired = self.Fire.apply(potential - 1)
            potential = potential - fired.detach()
            total = total + self.read(fired)
        return total / 6


class Zeroed(nn.Module):
    """Twenty residual layers of which each begins at zero (ReZero)."""

    def __init__(self, width: int = 32, depth: int = 20) -> None:
        super().__init__()
        self.enter, self.head = nn.Linear(6, width), nn.Linear(width, 3)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.scales = nn.Parameter(torch.zeros(depth))

    def forward(self, values: Tensor) -> Tensor:
        values = self.enter(values)
        for layer, scale in zip(self.layers, self.scales):
            values = values + scale * F.relu(layer(values))
        return self.head(values)


def _healthy(
    name: str, build: Any, data: Any, loss: Any = F.cross_entropy, source: str = "", **options: Any
) -> Healthy:
    return Healthy(name, Program(build, data, loss, **{"steps": 200, "lr": 3e-3} | options), source)


HEALTHY = (
    _healthy("graph_convolutions", GraphConvolutions, domains.networks, each_node, "GCN", lr=1e-2),
    _healthy("graph_attention", GraphAttention, domains.networks, each_node, "GAT", lr=5e-3),
    _healthy("message_passing", MessagePassing, domains.molecules, F.mse_loss, "MPNN"),
    _healthy("point_net", PointNet, domains.solids, source="PointNet"),
    _healthy("edge_convolution", EdgeConvolution, domains.solids, source="DGCNN", steps=100),
    _healthy("sine_layers", Sine, domains.oscillator, F.mse_loss, "SIREN", lr=1e-3),
    _healthy("equation_residual", Physics, domains.oscillator, residual, "PINN"),
    _healthy("learned_energy", Hamiltonian, domains.pendulum, F.mse_loss, "Hamiltonian networks"),
    _healthy("shared_velocity", Flow, domains.pendulum, F.mse_loss, "neural ODE", lr=5e-3),
    _healthy("affine_couplings", Coupling, domains.moons, likelihood, "RealNVP"),
    _healthy("diffusion_denoiser", Denoiser, domains.noised, F.mse_loss, "DDPM", steps=300),
    _healthy("siamese_distance", Siamese, domains.same_or_not, contrastive, "Hadsell et al. 2006"),
    _healthy("triplet_vectors", Triplets, domains.faces, triplet, "FaceNet"),
    _healthy("matched_views", Views, domains.two_views, matched, "SimCLR", batch=64),
    _healthy(
        "siblings_without_negatives",
        Siblings,
        domains.two_views,
        lambda similar, _: -similar.mean(),
        "SimSiam",
        optimizer=partial(torch.optim.SGD, momentum=0.9, weight_decay=1e-4),
        lr=0.05,
        batch=64,
    ),
    _healthy("dueling_values", dueling, domains.moves, taken, "Wang et al. 2016"),
    _healthy("actor_and_critic", ActorCritic, domains.moves, imitate, "PPO", lr=1e-3, steps=300),
    _healthy("weights_from_points", HyperNetwork, domains.curves, F.mse_loss, "hypernetworks", steps=300),
    _healthy("spiking_neurons", Spikes, domains.many_kinds, source="surrogate gradients"),
    _healthy("rezero_twenty", Zeroed, domains.rings(), source="ReZero"),
)
