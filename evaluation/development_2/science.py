"""Networks of fields, equations, games and odd parts: operators, rendering, splines, fixed points, noise."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from evaluation.declared import network
from evaluation.development_1.data import labelled_table, pictures, table


def _operators(count, generator):
    a = torch.randn(count, 4, generator=generator)
    grid = torch.linspace(0, 1, 40)
    u = sum(a[:, k : k + 1] * torch.sin((k + 1) * math.pi * grid) for k in range(4))
    y = torch.rand(count, 1, generator=generator)
    s = sum(a[:, k : k + 1] * (1 - torch.cos((k + 1) * math.pi * y)) / ((k + 1) * math.pi) for k in range(4))
    return (u, y), s


@network(_operators, loss=F.mse_loss)
def deep_o_net() -> nn.Module:
    class DeepONet(nn.Module):
        def __init__(self, p=40):
            super().__init__()
            self.branch = nn.Sequential(nn.Linear(40, 64), nn.Tanh(), nn.Linear(64, p))
            self.trunk = nn.Sequential(
                nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, p), nn.Tanh()
            )
            self.b = nn.Parameter(torch.zeros(1))
            for m in self.modules():
                if isinstance(m, nn.Linear):
                    nn.init.xavier_normal_(m.weight)
                    nn.init.zeros_(m.bias)

        def forward(self, u, y):
            return (self.branch(u) * self.trunk(y)).sum(1, keepdim=True) + self.b

    return DeepONet()


def _oscillation(out, _):
    return out[1].pow(2).mean() + (out[2] - 1).pow(2).mean() + out[3].pow(2).mean()


@network(lambda n, g: (4 * torch.rand(n, 1, generator=g), torch.zeros(n, 1)), loss=_oscillation, rate=5e-3)
def physics_informed_oscillator() -> nn.Module:
    class PINN(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
            for m in self.net:
                if isinstance(m, nn.Linear):
                    nn.init.xavier_uniform_(m.weight)

        def derivative(self, u, t):
            return torch.autograd.grad(u, t, torch.ones_like(u), create_graph=True)[0]

        def forward(self, t):
            with torch.enable_grad():
                t = t.clone().requires_grad_(True)
                u = self.net(t)
                du = self.derivative(u, t)
                residual = self.derivative(du, t) + u
                zero = torch.zeros(1, 1, requires_grad=True)
                u0 = self.net(zero)
                return u, residual, u0, self.derivative(u0, zero)

    return PINN()


def _rays(count, generator):
    o = torch.tensor([0.0, 0.0, -2.0]).expand(count, 3)
    d = F.normalize(torch.cat([0.5 * torch.randn(count, 2, generator=generator), torch.ones(count, 1)], 1), dim=1)
    colour = torch.sigmoid(4 * torch.stack([d[:, 0], d[:, 1], d[:, 0] * d[:, 1] * 4], 1))
    return (o, d), colour


@network(_rays, loss=F.mse_loss)
def nerf() -> nn.Module:
    def encode(x, levels):
        bands = 2.0 ** torch.arange(levels)
        scaled = (x[..., None] * bands).flatten(-2)
        return torch.cat([x, scaled.sin(), scaled.cos()], -1)

    class NeRF(nn.Module):
        def __init__(self, w=64, levels=6):
            super().__init__()
            self.levels, i = levels, 3 + 6 * levels
            self.pts = nn.ModuleList([nn.Linear(i, w)] + [nn.Linear(w + i if k == 2 else w, w) for k in range(5)])
            self.alpha, self.feature = nn.Linear(w, 1), nn.Linear(w, w)
            self.view, self.rgb = nn.Linear(w + 15, w // 2), nn.Linear(w // 2, 3)

        def forward(self, o, d):
            t = torch.linspace(1, 3, 16)
            x = encode(o[:, None] + d[:, None] * t[:, None], self.levels)
            h = x
            for i, layer in enumerate(self.pts):
                h = F.relu(layer(h))
                if i == 2:
                    h = torch.cat([x, h], -1)
            sigma = F.relu(self.alpha(h)).squeeze(-1)
            v = encode(d, 2)[:, None].expand(-1, 16, -1)
            rgb = torch.sigmoid(self.rgb(F.relu(self.view(torch.cat([self.feature(h), v], -1)))))
            alpha = 1 - torch.exp(-sigma * 2 / 16)
            ones = torch.ones(len(o), 1)
            weights = alpha * torch.cumprod(torch.cat([ones, 1 - alpha + 1e-10], 1), 1)[:, :-1]
            return (weights[..., None] * rgb).sum(1) + (1 - weights.sum(1, keepdim=True))

    return NeRF()


def _screens(count, generator):
    x = pictures(36, 4, 4)(count, generator)
    frames = (255 * torch.sigmoid(x[0])).to(torch.uint8)
    action, reward = torch.randint(4, (count,), generator=generator), torch.sign(x[0].mean((1, 2, 3)))
    return frames, torch.stack([action.float(), reward], 1)


def _td(q, targets):
    return F.smooth_l1_loss(q.gather(1, targets[:, :1].long()).squeeze(1), targets[:, 1])


@network(_screens, loss=_td)
def dqn_of_atari_bytes() -> nn.Module:
    class DQN(nn.Module):
        def __init__(self):
            super().__init__()
            self.network = nn.Sequential(
                nn.Conv2d(4, 32, 8, stride=4), nn.ReLU(), nn.Conv2d(32, 64, 4, stride=2), nn.ReLU(),
                nn.Conv2d(64, 64, 3, stride=1), nn.ReLU(), nn.Flatten(), nn.Linear(64, 128), nn.ReLU(),
                nn.Linear(128, 4),
            )  # fmt: skip

        def forward(self, x):
            return self.network(x / 255.0)

    return DQN()


def _states(count, generator):
    s = torch.randn(count, 8, generator=generator)
    action = torch.randint(3, (count,), generator=generator)
    return s, torch.stack([action.float(), torch.tanh(s[:, 0] * (action - 1.0))], 1)


@network(_states, loss=_td, rate=3e-3)
def rainbow_dueling_noisy() -> nn.Module:
    class NoisyLinear(nn.Module):
        def __init__(self, i, o, sigma=0.5):
            super().__init__()
            self.i, self.o = i, o
            self.weight_mu = nn.Parameter(torch.empty(o, i).uniform_(-(i**-0.5), i**-0.5))
            self.weight_sigma = nn.Parameter(torch.full((o, i), sigma * i**-0.5))
            self.bias_mu = nn.Parameter(torch.empty(o).uniform_(-(i**-0.5), i**-0.5))
            self.bias_sigma = nn.Parameter(torch.full((o,), sigma * o**-0.5))

        def forward(self, x):
            if not self.training:
                return F.linear(x, self.weight_mu, self.bias_mu)
            a, b = (e.sign() * e.abs().sqrt() for e in (torch.randn(self.i), torch.randn(self.o)))
            return F.linear(
                x, self.weight_mu + self.weight_sigma * torch.outer(b, a), self.bias_mu + self.bias_sigma * b
            )

    class Dueling(nn.Module):
        def __init__(self, h=64):
            super().__init__()
            self.feature = nn.Sequential(nn.Linear(8, h), nn.ReLU())
            self.advantage = nn.Sequential(NoisyLinear(h, h), nn.ReLU(), NoisyLinear(h, 3))
            self.value = nn.Sequential(NoisyLinear(h, h), nn.ReLU(), NoisyLinear(h, 1))

        def forward(self, x):
            x = self.feature(x)
            a, v = self.advantage(x), self.value(x)
            return v + a - a.mean(dim=-1, keepdim=True)

    return Dueling()


@network(table(6), loss=F.mse_loss, rate=1e-2)
def kolmogorov_arnold() -> nn.Module:
    class KANLinear(nn.Module):
        def __init__(self, i, o, grid=8):
            super().__init__()
            self.register_buffer("grid", torch.linspace(-2, 2, grid))
            self.norm, self.base = nn.LayerNorm(i), nn.Linear(i, o)
            self.spline = nn.Linear(i * grid, o, bias=False)
            nn.init.trunc_normal_(self.spline.weight, std=0.1)

        def forward(self, x):
            basis = torch.exp(-(((self.norm(x)[..., None] - self.grid) / (4 / 7)) ** 2))
            return self.spline(basis.flatten(-2)) + self.base(F.silu(x))

    return nn.Sequential(KANLinear(6, 16), KANLinear(16, 16), KANLinear(16, 1))


@network(labelled_table(), rate=5e-3)
def deep_equilibrium() -> nn.Module:
    class DEQ(nn.Module):
        def __init__(self, d=48):
            super().__init__()
            self.inject, self.norm1, self.norm2 = nn.Linear(16, d), nn.LayerNorm(d), nn.LayerNorm(d)
            self.fc1, self.fc2, self.head = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, 4)
            nn.init.normal_(self.fc1.weight, std=0.02)
            nn.init.normal_(self.fc2.weight, std=0.02)

        def f(self, z, x):
            return self.norm2(F.relu(z + self.norm1(x + self.fc2(F.relu(self.fc1(z))))))

        def forward(self, x):
            x = self.inject(x)
            z = torch.zeros_like(x)
            with torch.no_grad():
                for _ in range(20):
                    z = self.f(z, x)
            return self.head(self.f(z, x))

    return DEQ()


@network(lambda n, g: (lambda x: (x[:, :, :24], x[:, :, 4:28]))(_heat(n, g)), loss=F.mse_loss, rate=3e-3)
def fourier_neural_operator() -> nn.Module:
    class Spectral(nn.Module):
        def __init__(self, c, modes):
            super().__init__()
            self.modes = modes
            self.weights = nn.Parameter(torch.rand(c, c, modes, dtype=torch.cfloat) / (c * c))

        def forward(self, x):
            ft = torch.fft.rfft(x)
            out = torch.zeros(len(x), x.shape[1], ft.shape[-1], dtype=torch.cfloat)
            out[:, :, : self.modes] = torch.einsum("bix,iox->box", ft[:, :, : self.modes], self.weights)
            return torch.fft.irfft(out, n=x.shape[-1])

    class FNO(nn.Module):
        def __init__(self, c=24):
            super().__init__()
            self.fc0, self.fc1, self.fc2 = nn.Linear(2, c), nn.Linear(c, 64), nn.Linear(64, 1)
            self.convs, self.ws = (
                nn.ModuleList(Spectral(c, 8) for _ in range(3)),
                nn.ModuleList(nn.Conv1d(c, c, 1) for _ in range(3)),
            )

        def forward(self, u):
            grid = torch.linspace(0, 1, u.shape[-1]).expand(len(u), 1, -1)
            x = self.fc0(torch.cat([u, grid], 1).transpose(1, 2)).transpose(1, 2)
            for i in range(3):
                x = self.convs[i](x) + self.ws[i](x)
                x = F.gelu(x) if i < 2 else x
            return self.fc2(F.gelu(self.fc1(x.transpose(1, 2)))).transpose(1, 2)

    return FNO()


def _heat(count, generator):
    return F.interpolate(torch.randn(count, 1, 8, generator=generator), 32, mode="linear", align_corners=True)


@network(labelled_table(20, 4), rate=5e-3)
def batch_ensemble_of_four() -> nn.Module:
    class Ensemble(nn.Module):
        def __init__(self, k=4, h=48):
            super().__init__()
            self.w1, self.b1 = nn.Parameter(torch.randn(k, 20, h) / 20**0.5), nn.Parameter(torch.zeros(k, 1, h))
            self.w2, self.b2 = nn.Parameter(torch.randn(k, h, h) / h**0.5), nn.Parameter(torch.zeros(k, 1, h))
            self.w3, self.b3 = nn.Parameter(torch.randn(k, h, 4) / h**0.5), nn.Parameter(torch.zeros(k, 1, 4))

        def forward(self, x):
            x = x.expand(len(self.w1), *x.shape)
            x = F.relu(torch.baddbmm(self.b1, x, self.w1))
            x = F.relu(torch.baddbmm(self.b2, x, self.w2))
            return torch.baddbmm(self.b3, x, self.w3).mean(0)

    return Ensemble()


@network(pictures(28, 1), rate=3e-3)
def binary_weights_straight_through() -> nn.Module:
    class BinaryLinear(nn.Linear):
        def forward(self, x):
            scale = self.weight.abs().mean(1, keepdim=True)
            w = self.weight + (scale * self.weight.sign() - self.weight).detach()
            return F.linear(x, w, self.bias)

    return nn.Sequential(
        nn.Flatten(), BinaryLinear(784, 128), nn.BatchNorm1d(128), nn.Hardtanh(), BinaryLinear(128, 128),
        nn.BatchNorm1d(128), nn.Hardtanh(), nn.Linear(128, 10),
    )  # fmt: skip


@network(lambda n, g: (lambda x, y: (x, torch.stack([y.float().exp(), torch.ones(n)], 1)))(*_risk(n, g)),
         loss=lambda out, t: _cox(out.squeeze(1), t), rate=5e-3)  # fmt: skip
def cox_survival_selu() -> nn.Module:
    net = nn.Sequential(nn.Linear(16, 64), nn.SELU(), nn.AlphaDropout(0.1), nn.Linear(64, 64), nn.SELU(),
                        nn.Linear(64, 1, bias=False))  # fmt: skip
    for m in net:
        if isinstance(m, nn.Linear):
            nn.init.kaiming_normal_(m.weight, nonlinearity="linear")
    return net


def _risk(count, generator):
    x, y = table(16)(count, generator)
    return x, y.squeeze(1) + 0.1 * torch.randn(count, generator=generator)


def _cox(risk, targets):
    order = targets[:, 0].argsort(descending=True)
    risk, seen = risk[order], targets[order, 1]
    return -((risk - torch.logcumsumexp(risk, 0)) * seen).sum() / seen.sum()
