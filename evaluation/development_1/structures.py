"""Networks of graphs, points, actions, fields and densities."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from evaluation.declared import network
from evaluation.development_1.data import labelled_table, table


def _graphs(count, generator):
    features = torch.randn(count, 12, 8, generator=generator)
    edges = (torch.rand(count, 12, 12, generator=generator) < 0.25).float()
    adjacency = ((edges + edges.mT + torch.eye(12)) > 0).float()
    labels = ((adjacency @ features)[:, :, 0].mean(1) * 3).round().clamp(-1, 1).long() + 1
    return (features, adjacency), labels


@network(_graphs, rate=5e-3)
def gcn_dense_adjacency() -> nn.Module:
    class GCN(nn.Module):
        def __init__(self):
            super().__init__()
            self.w1, self.w2, self.w3 = nn.Linear(8, 32), nn.Linear(32, 32), nn.Linear(32, 3)

        def forward(self, x, adj):
            inv = adj.sum(-1).rsqrt()
            a = inv[:, :, None] * adj * inv[:, None, :]
            x = F.relu(a @ self.w1(x))
            x = F.dropout(F.relu(a @ self.w2(x)), 0.1, self.training)
            return self.w3(x.mean(1))

    return GCN()


@network(_graphs, rate=5e-3)
def graph_attention() -> nn.Module:
    class GAT(nn.Module):
        def __init__(self, before, after):
            super().__init__()
            self.w, self.a1, self.a2 = nn.Linear(before, after, bias=False), nn.Linear(after, 1), nn.Linear(after, 1)

        def forward(self, x, adj):
            h = self.w(x)
            e = F.leaky_relu(self.a1(h) + self.a2(h).transpose(1, 2), 0.2)
            return torch.softmax(e.masked_fill(adj == 0, -9e15), -1) @ h

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.g1, self.g2, self.head = GAT(8, 32), GAT(32, 32), nn.Linear(32, 3)

        def forward(self, x, adj):
            return self.head(F.elu(self.g2(F.elu(self.g1(x, adj)), adj)).mean(1))

    return Net()


def _points(count, generator):
    labels = torch.randint(3, (count,), generator=generator)
    points = torch.randn(count, 64, 3, generator=generator)
    sphere, box = F.normalize(points, dim=-1), torch.rand(count, 64, 3, generator=generator) * 2 - 1
    shapes = torch.stack([sphere, box, 0.6 * points], 1)
    return shapes[torch.arange(count), labels], labels


@network(_points)
def pointnet() -> nn.Module:
    class TNet(nn.Module):
        def __init__(self, k):
            super().__init__()
            self.k = k
            self.conv = nn.Sequential(
                nn.Conv1d(k, 32, 1),
                nn.BatchNorm1d(32),
                nn.ReLU(),
                nn.Conv1d(32, 128, 1),
                nn.BatchNorm1d(128),
                nn.ReLU(),
            )
            self.fc = nn.Sequential(nn.Linear(128, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, k * k))

        def forward(self, x):
            out = self.fc(self.conv(x).max(2)[0])
            return out.view(-1, self.k, self.k) + torch.eye(self.k)

    class PointNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.tnet = TNet(3)
            self.conv1, self.conv2, self.conv3 = nn.Conv1d(3, 64, 1), nn.Conv1d(64, 128, 1), nn.Conv1d(128, 256, 1)
            self.bn1, self.bn2, self.bn3 = nn.BatchNorm1d(64), nn.BatchNorm1d(128), nn.BatchNorm1d(256)
            self.head = nn.Sequential(
                nn.Linear(256, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Dropout(0.3), nn.Linear(128, 3)
            )

        def forward(self, points):
            x = points.transpose(1, 2)
            x = torch.bmm(self.tnet(x), x)
            x = F.relu(self.bn1(self.conv1(x)))
            x = F.relu(self.bn2(self.conv2(x)))
            return self.head(torch.max(self.bn3(self.conv3(x)), 2)[0])

    return PointNet()


@network(
    lambda n, g: (lambda x: (x, (x.pow(2).sum((1, 2), keepdim=True)[..., 0] - 30) / 8))(
        torch.randn(n, 10, 3, generator=g)
    ),
    loss=F.mse_loss,
    rate=3e-3,
)
def deep_sets() -> nn.Module:
    class DeepSets(nn.Module):
        def __init__(self):
            super().__init__()
            self.phi = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
            self.rho = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))

        def forward(self, x):
            return self.rho(self.phi(x).sum(dim=1))

    return DeepSets()


def _ppo(out, targets):
    policy, value = out
    actions, returns = targets
    return (
        -(policy.log_prob(actions) * returns).mean()
        + 0.5 * F.mse_loss(value.squeeze(-1), returns)
        - 0.01 * policy.entropy().mean()
    )


def _control(count, generator):
    states, returns = table(8)(count, generator)
    return states, ((states @ torch.eye(8)[:, :4]).argmax(1), returns.squeeze(1).abs())


@network(_control, loss=_ppo, rate=3e-3)
def actor_critic_distribution() -> nn.Module:
    def layer_init(layer, std=2**0.5):
        nn.init.orthogonal_(layer.weight, std)
        nn.init.constant_(layer.bias, 0.0)
        return layer

    class Agent(nn.Module):
        def __init__(self):
            super().__init__()
            self.critic = nn.Sequential(
                layer_init(nn.Linear(8, 64)),
                nn.Tanh(),
                layer_init(nn.Linear(64, 64)),
                nn.Tanh(),
                layer_init(nn.Linear(64, 1), std=1.0),
            )
            self.actor = nn.Sequential(
                layer_init(nn.Linear(8, 64)),
                nn.Tanh(),
                layer_init(nn.Linear(64, 64)),
                nn.Tanh(),
                layer_init(nn.Linear(64, 4), std=0.01),
            )

        def forward(self, x):
            return torch.distributions.Categorical(logits=self.actor(x)), self.critic(x)

    return Agent()


def _sac_data(count, generator):
    states, _ = table(8)(count, generator)
    actions = torch.tanh(states[:, :2])
    return (states, actions), (states[:, 2:3] - actions[:, :1]) / 2


@network(_sac_data, loss=lambda out, t: F.mse_loss(out[0], t) + F.mse_loss(out[1], t))
def twin_q_networks() -> nn.Module:
    class TwinQ(nn.Module):
        def __init__(self):
            super().__init__()
            self.q1 = nn.Sequential(nn.Linear(10, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))
            self.q2 = nn.Sequential(nn.Linear(10, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))

        def forward(self, state, action):
            sa = torch.cat([state, action], dim=-1)
            return self.q1(sa), self.q2(sa)

    return TwinQ()


def _mdn_loss(out, targets):
    logits, mu, sigma = out
    density = torch.distributions.Normal(mu, sigma).log_prob(targets)
    return -torch.logsumexp(F.log_softmax(logits, -1) + density, -1).mean()


@network(table(1, 1), loss=_mdn_loss, rate=5e-3)
def mixture_density() -> nn.Module:
    class MDN(nn.Module):
        def __init__(self, k=5):
            super().__init__()
            self.z_h = nn.Sequential(nn.Linear(1, 20), nn.Tanh())
            self.z_pi, self.z_mu, self.z_sigma = nn.Linear(20, k), nn.Linear(20, k), nn.Linear(20, k)

        def forward(self, x):
            z = self.z_h(x)
            return self.z_pi(z), self.z_mu(z), torch.exp(self.z_sigma(z))

    return MDN()


def _moons(count, generator):
    angle = math.pi * torch.rand(count, generator=generator)
    side = (torch.rand(count, generator=generator) < 0.5).float() * 2 - 1
    xy = torch.stack([side * angle.cos() + side / 2, side * angle.sin() - side / 4], 1)
    return xy + 0.1 * torch.randn(count, 2, generator=generator), torch.zeros(count)


@network(_moons, loss=lambda out, _: (0.5 * out[0].pow(2).sum(1) - out[1]).mean(), rate=3e-3)
def real_nvp() -> nn.Module:
    class RealNVP(nn.Module):
        def __init__(self, couplings=6):
            super().__init__()
            self.register_buffer("masks", torch.tensor([[0.0, 1.0], [1.0, 0.0]] * (couplings // 2)))

            def net(end):
                hidden = [nn.Linear(2, 64), nn.LeakyReLU(), nn.Linear(64, 64), nn.LeakyReLU()]
                return nn.Sequential(*hidden, nn.Linear(64, 2), end)

            self.s = nn.ModuleList(net(nn.Tanh()) for _ in range(couplings))
            self.t = nn.ModuleList(net(nn.Identity()) for _ in range(couplings))

        def forward(self, x):
            log_det = x.new_zeros(len(x))
            for mask, s, t in zip(self.masks, self.s, self.t, strict=True):
                kept = x * mask
                scale, shift = s(kept) * (1 - mask), t(kept) * (1 - mask)
                x = kept + (1 - mask) * (x * scale.exp() + shift)
                log_det = log_det + scale.sum(1)
            return x, log_det

    return RealNVP()


@network(_moons, loss=lambda out, _: (0.5 * out[0].pow(2).sum(1) - out[1]).mean(), rate=3e-3)
def glow_with_actnorm() -> nn.Module:
    class Flow(nn.Module):
        def __init__(self, depth=6):
            super().__init__()
            self.log_scale, self.shift = nn.Parameter(torch.zeros(depth, 2)), nn.Parameter(torch.zeros(depth, 2))
            turn = [torch.linalg.qr(torch.randn(2, 2))[0] for _ in range(depth)]
            self.mix = nn.ParameterList(nn.Parameter(m) for m in turn)
            self.nets = nn.ModuleList(
                nn.Sequential(nn.Linear(1, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
                for _ in range(depth)
            )
            for net in self.nets:
                nn.init.zeros_(net[-1].weight)
                nn.init.zeros_(net[-1].bias)

        def forward(self, x):
            log_det = torch.zeros(len(x))
            for i, net in enumerate(self.nets):
                x = (x + self.shift[i]) * self.log_scale[i].exp() @ self.mix[i]
                a, b = x.chunk(2, 1)
                s, t = net(a).chunk(2, 1)
                s = torch.sigmoid(s + 2)
                x = torch.cat([a, b * s + t], 1)
                log_det = log_det + self.log_scale[i].sum() + torch.linalg.slogdet(self.mix[i])[1] + s.log().sum(1)
            return x, log_det

    return Flow()


@network(labelled_table(), rate=5e-3)
def neural_ode_euler() -> nn.Module:
    class ODE(nn.Module):
        def __init__(self):
            super().__init__()
            self.lift = nn.Linear(16, 32)
            self.field = nn.Sequential(nn.Linear(33, 64), nn.Tanh(), nn.Linear(64, 32))
            self.head = nn.Linear(32, 4)

        def forward(self, x):
            h, steps = self.lift(x), 10
            for i in range(steps):
                t = torch.full_like(h[:, :1], i / steps)
                h = h + self.field(torch.cat([h, t], 1)) / steps
            return self.head(h)

    return ODE()


def _field(count, generator):
    xy = torch.rand(count, 2, generator=generator) * 2 - 1
    return xy, torch.sin(6 * xy[:, :1]) * torch.cos(5 * xy[:, 1:])


@network(_field, loss=F.mse_loss, rate=1e-3)
def siren() -> nn.Module:
    class Sine(nn.Module):
        def __init__(self, before, after, first=False, omega=30.0):
            super().__init__()
            self.linear, self.omega = nn.Linear(before, after), omega
            bound = 1 / before if first else math.sqrt(6 / before) / omega
            nn.init.uniform_(self.linear.weight, -bound, bound)

        def forward(self, x):
            return torch.sin(self.omega * self.linear(x))

    last = nn.Linear(128, 1)
    nn.init.uniform_(last.weight, -math.sqrt(6 / 128) / 30, math.sqrt(6 / 128) / 30)
    return nn.Sequential(Sine(2, 128, True), Sine(128, 128), Sine(128, 128), last)


@network(_field, loss=F.mse_loss, rate=3e-3)
def fourier_features() -> nn.Module:
    class Fourier(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("B", 2 * torch.randn(2, 64))
            self.mlp = nn.Sequential(
                nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 1), nn.Tanh()
            )

        def forward(self, v):
            proj = 2 * math.pi * v @ self.B
            return self.mlp(torch.cat([proj.sin(), proj.cos()], -1))

    return Fourier()
