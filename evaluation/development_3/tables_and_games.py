"""Rows, graphs, games, operators and what does not fit elsewhere."""

from __future__ import annotations

import math
from collections import namedtuple
from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from evaluation.declared import network
from evaluation.development_1.data import labelled_table, pictures, table, unit_pictures


@network(labelled_table(16, 2), rate=2e-2)
def logistic_regression() -> nn.Module:
    return nn.Linear(16, 2)


@network(
    lambda n, g: (lambda x, y: (x, (y > 0).float().squeeze(1)))(*table(10)(n, g)),
    rate=2e-2,
    loss=lambda out, y: F.binary_cross_entropy(out, y),
)
def logistic_regression_with_a_sigmoid() -> nn.Module:
    class LogisticRegression(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(10, 1)

        def forward(self, x):
            return torch.sigmoid(self.linear(x)).squeeze(1)

    return LogisticRegression()


@network(table(8), loss=F.mse_loss, rate=2e-2)
def linear_regression_from_zero() -> nn.Module:
    model = nn.Linear(8, 1)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    return model


def _houses(count, generator):
    """Columns as they are after a robust scaler: skewed, some binary, one with a long tail."""
    rooms, area = torch.randn(count, generator=generator), torch.randn(count, generator=generator).exp()
    flags = (torch.rand(count, 4, generator=generator) < torch.tensor([0.5, 0.1, 0.03, 0.7])).float()
    place = torch.rand(count, 2, generator=generator)
    x = torch.cat([rooms[:, None], area[:, None], flags, place], 1)
    y = 0.4 * rooms + area.log() + flags[:, 0] * place[:, 1] + 0.1 * torch.randn(count, generator=generator)
    return x, y[:, None]


@network(_houses, loss=nn.SmoothL1Loss(), rate=1e-2, dtype=torch.float64)
def prices_in_double() -> nn.Module:
    return nn.Sequential(
        nn.BatchNorm1d(8), nn.Linear(8, 64), nn.Mish(), nn.Dropout(0.1), nn.Linear(64, 32), nn.Mish(), nn.Linear(32, 1)
    ).double()


@network(
    _houses,
    loss=lambda out, y: sum(
        torch.max(q * (y - out[:, i : i + 1]), (q - 1) * (y - out[:, i : i + 1])).mean()
        for i, q in enumerate((0.1, 0.5, 0.9))
    ),
    rate=1e-2,
)
def quantiles_by_pinball() -> nn.Module:
    class Quantiles(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.head = (
                nn.Sequential(nn.Linear(8, 48), nn.ELU(), nn.Linear(48, 48), nn.ELU()),
                nn.Linear(48, 3),
            )

        def forward(self, x):
            low, step1, step2 = self.head(self.net(x)).unbind(1)
            return torch.stack([low, low + F.softplus(step1), low + F.softplus(step1) + F.softplus(step2)], 1)

    return Quantiles()


Transition = namedtuple("Transition", ["policy", "value"])


def _states(count, generator):
    x, y = labelled_table(8, 4)(count, generator)
    return x, {"action": y, "returns": x[:, 0] + 0.5 * x[:, 1]}


def _imitated(out, seen):
    chosen = out.policy.log_prob(seen["action"]).mean()
    return 0.5 * F.mse_loss(out.value, seen["returns"]) - chosen - 0.01 * out.policy.entropy().mean()


@network(_states, loss=_imitated, rate=3e-3)
def actor_critic_with_layer_init() -> nn.Module:
    def layer_init(layer, std=2**0.5, bias_const=0.0):
        torch.nn.init.orthogonal_(layer.weight, std)
        torch.nn.init.constant_(layer.bias, bias_const)
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
            return Transition(torch.distributions.Categorical(logits=self.actor(x)), self.critic(x).squeeze(-1))

    return Agent()


@network(
    lambda n, g: (lambda x, y: (x, y))(*table(11, 3)(n, g)),
    rate=3e-3,
    loss=lambda out, a: F.mse_loss(out[0], a) + 1e-3 * out[1].mean(),
)
def soft_actor_squashed() -> nn.Module:
    class Actor(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1, self.fc2, self.fc_mean, self.fc_logstd = (
                nn.Linear(11, 64),
                nn.Linear(64, 64),
                nn.Linear(64, 3),
                nn.Linear(64, 3),
            )
            self.register_buffer("action_scale", torch.tensor(2.0))

        def forward(self, x):
            x = F.relu(self.fc2(F.relu(self.fc1(x))))
            mean, log_std = self.fc_mean(x), torch.tanh(self.fc_logstd(x))
            log_std = -5 + 0.5 * 7 * (log_std + 1)
            normal = torch.distributions.Normal(mean, log_std.exp())
            x_t = normal.rsample()
            y_t = torch.tanh(x_t)
            log_prob = normal.log_prob(x_t) - torch.log(self.action_scale * (1 - y_t.pow(2)) + 1e-6)
            return y_t * self.action_scale, log_prob.sum(1, keepdim=True)

    return Actor()


def _walks(count, generator):
    states = torch.randn(count, 8, 6, generator=generator).cumsum(1) / 2
    actions = torch.tanh(states[..., :3] - states[..., 3:])
    returns = states[..., :1].flip(1).cumsum(1).flip(1) / 8
    steps = torch.arange(8).expand(count, 8)
    return {"states": states, "actions": actions, "returns_to_go": returns, "timesteps": steps}, actions


@network(_walks, loss=F.mse_loss, rate=2e-3)
def decision_transformer() -> nn.Module:
    class DecisionTransformer(nn.Module):
        def __init__(self, d=48):
            super().__init__()
            self.embed_timestep, self.embed_return = nn.Embedding(16, d), nn.Linear(1, d)
            self.embed_state, self.embed_action, self.embed_ln = nn.Linear(6, d), nn.Linear(3, d), nn.LayerNorm(d)
            self.blocks = nn.ModuleList(
                nn.TransformerEncoderLayer(d, 4, 4 * d, 0.1, "gelu", norm_first=True, batch_first=True)
                for _ in range(2)
            )
            self.predict_action = nn.Sequential(nn.Linear(d, 3), nn.Tanh())

        def forward(self, states, actions, returns_to_go, timesteps):
            time, b, t = self.embed_timestep(timesteps), *states.shape[:2]
            parts = (
                self.embed_return(returns_to_go) + time,
                self.embed_state(states) + time,
                self.embed_action(actions) + time,
            )
            x = torch.stack(parts, 1).permute(0, 2, 1, 3).reshape(b, 3 * t, -1)
            x, mask = self.embed_ln(x), torch.triu(torch.full((3 * t, 3 * t), float("-inf")), 1)
            for block in self.blocks:
                x = block(x, src_mask=mask)
            return self.predict_action(x.reshape(b, t, 3, -1).permute(0, 2, 1, 3)[:, 1])

    return DecisionTransformer()


def _molecules(count, generator):
    adjacency = (torch.rand(count, 10, 10, generator=generator) < 0.2).float().triu(1)
    adjacency = adjacency + adjacency.transpose(1, 2)
    kinds = torch.randint(6, (count, 10), generator=generator)
    return (kinds, adjacency), ((adjacency * (kinds == 2).float()[:, None]).sum((1, 2)) / 4)[:, None]


@network(_molecules, loss=F.mse_loss, rate=5e-3)
def gated_message_passing() -> nn.Module:
    class MPNN(nn.Module):
        def __init__(self, d=32):
            super().__init__()
            self.embed, self.message, self.update = nn.Embedding(6, d), nn.Linear(2 * d, d), nn.GRUCell(d, d)
            self.readout = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, 1))

        def forward(self, kinds, adjacency):
            h = self.embed(kinds)
            b, n, d = h.shape
            for _ in range(3):
                pairs = torch.cat([h[:, :, None].expand(b, n, n, d), h[:, None].expand(b, n, n, d)], -1)
                m = (adjacency[..., None] * F.relu(self.message(pairs))).sum(2)
                h = self.update(m.reshape(-1, d), h.reshape(-1, d)).view(b, n, d)
            return self.readout(h).sum(1) / 10

    return MPNN()


@network(_molecules, loss=F.mse_loss, rate=5e-3)
def graph_attention_v2_dense() -> nn.Module:
    class GATv2(nn.Module):
        def __init__(self, i, o, heads=4):
            super().__init__()
            self.l, self.r, self.h = nn.Linear(i, o * heads, bias=False), nn.Linear(i, o * heads, bias=False), heads
            self.att, self.bias = nn.Parameter(torch.empty(1, 1, 1, heads, o)), nn.Parameter(torch.zeros(heads * o))
            for w in (self.l.weight, self.r.weight, self.att):
                nn.init.xavier_uniform_(w)

        def forward(self, x, adj):
            b, n, _ = x.shape
            left, right = self.l(x).view(b, n, self.h, -1), self.r(x).view(b, n, self.h, -1)
            e = (F.leaky_relu(left[:, None] + right[:, :, None], 0.2) * self.att).sum(-1)
            e = e.masked_fill((adj + torch.eye(n))[..., None] == 0, float("-inf"))
            return torch.einsum("bijh,bjhd->bihd", e.softmax(2), left).reshape(b, n, -1) + self.bias

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.conv1, self.conv2, self.lin = (
                nn.Embedding(6, 16),
                GATv2(16, 8),
                GATv2(32, 8),
                nn.Linear(33, 1),
            )

        def forward(self, kinds, adj):
            x = F.elu(self.conv1(self.embed(kinds), adj))
            x = F.elu(self.conv2(x, adj))
            return self.lin(torch.cat([x, adj.sum(2, keepdim=True)], -1)).mean(1)

    return Net()


def _rays(count, generator):
    points = 2 * torch.rand(count, 3, generator=generator) - 1
    views = F.normalize(torch.randn(count, 3, generator=generator), dim=-1)
    colour = torch.sigmoid(3 * torch.sin(3 * points) + views)
    return torch.cat([points, views], 1), torch.cat([colour, F.relu(1 - 2 * points.norm(dim=1, keepdim=True))], 1)


@network(
    _rays,
    loss=lambda out, y: F.mse_loss(torch.sigmoid(out[:, :3]), y[:, :3]) + F.mse_loss(F.relu(out[:, 3:]), y[:, 3:]),
    rate=3e-3,
)
def nerf_with_skip_and_views() -> nn.Module:
    def embed(x, bands):
        out = [x]
        for k in range(bands):
            out += [torch.sin(2**k * x), torch.cos(2**k * x)]
        return torch.cat(out, -1)

    class NeRF(nn.Module):
        def __init__(self, D=6, W=64, skips=(3,)):
            super().__init__()
            i, v, self.skips = 3 * 13, 3 * 9, skips
            self.pts_linears = nn.ModuleList(
                [nn.Linear(i, W)] + [nn.Linear(W + i if k in skips else W, W) for k in range(D - 1)]
            )
            self.views_linears = nn.ModuleList([nn.Linear(v + W, W // 2)])
            self.feature_linear, self.alpha_linear, self.rgb_linear = (
                nn.Linear(W, W),
                nn.Linear(W, 1),
                nn.Linear(W // 2, 3),
            )

        def forward(self, x):
            pts, views = embed(x[:, :3], 6), embed(x[:, 3:], 4)
            h = pts
            for i, linear in enumerate(self.pts_linears):
                h = F.relu(linear(h))
                if i in self.skips:
                    h = torch.cat([pts, h], -1)
            alpha, feature = self.alpha_linear(h), self.feature_linear(h)
            h = F.relu(self.views_linears[0](torch.cat([feature, views], -1)))
            return torch.cat([self.rgb_linear(h), alpha], -1)

    # layer 3 puts points beside its own output, so that the fourth of the others reads more
    return NeRF()


def _coordinates(count, generator):
    x = 2 * torch.rand(count, 2, generator=generator) - 1
    return x, torch.sin(8 * x[:, :1]) * torch.cos(5 * x[:, 1:])


@network(_coordinates, loss=F.mse_loss, rate=1e-3)
def siren_of_thirty() -> nn.Module:
    class SineLayer(nn.Module):
        def __init__(self, i, o, is_first=False, omega_0=30):
            super().__init__()
            self.omega_0, self.linear = omega_0, nn.Linear(i, o)
            with torch.no_grad():
                bound = 1 / i if is_first else math.sqrt(6 / i) / omega_0
                self.linear.weight.uniform_(-bound, bound)

        def forward(self, x):
            return torch.sin(self.omega_0 * self.linear(x))

    final = nn.Linear(64, 1)
    nn.init.uniform_(final.weight, -math.sqrt(6 / 64) / 30, math.sqrt(6 / 64) / 30)
    return nn.Sequential(SineLayer(2, 64, True), SineLayer(64, 64), SineLayer(64, 64), final)


def _burgers(out, _):
    u, residual = out
    return residual.pow(2).mean() + u.pow(2).mean()


@network(_coordinates, loss=_burgers, rate=3e-3)
def burgers_residual_by_autograd() -> nn.Module:
    class PINN(nn.Module):
        def __init__(self, layers=(2, 32, 32, 32, 1)):
            super().__init__()
            self.linears = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(layers))
            for m in self.linears:
                nn.init.xavier_normal_(m.weight)
                nn.init.zeros_(m.bias)

        def u(self, x, t):
            h = torch.cat([x, t], 1)
            for m in self.linears[:-1]:
                h = torch.tanh(m(h))
            return self.linears[-1](h)

        def forward(self, xt):
            with torch.enable_grad():
                x, t = xt[:, :1].requires_grad_(True), xt[:, 1:].requires_grad_(True)
                u = self.u(x, t)
                u_t, u_x = torch.autograd.grad(u.sum(), (t, x), create_graph=True)
                u_xx = torch.autograd.grad(u_x.sum(), x, create_graph=True)[0]
            return u + torch.sin(math.pi * x.detach()), u_t + u * u_x - 0.01 / math.pi * u_xx

    return PINN()


@network(labelled_table(), rate=5e-3)
def hypernetwork_of_weights() -> nn.Module:
    class Hyper(nn.Module):
        def __init__(self):
            super().__init__()
            self.z, self.hyper = (
                nn.Parameter(torch.randn(3, 8)),
                nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32 * 32)),
            )
            nn.init.normal_(self.hyper[2].weight, std=(1 / 32 / 16) ** 0.5)
            nn.init.zeros_(self.hyper[2].bias)
            self.inp, self.out = nn.Linear(16, 32), nn.Linear(32, 4)

        def forward(self, x):
            x = F.relu(self.inp(x))
            for z in self.z:
                x = x + F.relu(F.linear(x, self.hyper(z).view(32, 32)))
            return self.out(x)

    return Hyper()


@network(lambda n, g: (lambda x, y: (x, y))(*pictures(8)(n, g)), rate=3e-3)
def set_of_models_by_vmap() -> nn.Module:
    class Ensemble(nn.Module):
        def __init__(self, k=4):
            super().__init__()
            models = [nn.Sequential(nn.Linear(192, 48), nn.ReLU(), nn.Linear(48, 10)) for _ in range(k)]
            params, _ = torch.func.stack_module_state(models)
            self.names = list(params)
            self.stacked = nn.ParameterList(nn.Parameter(p.detach().clone()) for p in params.values())
            self.base = [nn.Sequential(nn.Linear(192, 48), nn.ReLU(), nn.Linear(48, 10)).to("meta")]

        def forward(self, x):
            def one(params, data):
                return torch.func.functional_call(self.base[0], params, (data,))

            stacked = dict(zip(self.names, self.stacked, strict=True))
            return torch.vmap(one, in_dims=(0, None))(stacked, x.flatten(1)).mean(0)

    return Ensemble()


class FakeQuantize(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x / scale)
        return torch.clamp(torch.round(x / scale), -8, 7) * scale

    @staticmethod
    def backward(ctx, grad):
        (ratio,) = ctx.saved_tensors
        return grad * ((ratio >= -8) & (ratio <= 7)), None


@network(pictures(16), rate=3e-3)
def four_bits_by_a_custom_function() -> nn.Module:
    class QuantConv(nn.Conv2d):
        def forward(self, x):
            w = FakeQuantize.apply(self.weight, self.weight.detach().abs().amax() / 7)
            return self._conv_forward(x, w, self.bias)

    return nn.Sequential(
        QuantConv(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU6(),
        nn.MaxPool2d(2),
        QuantConv(16, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU6(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(128, 10),
    )


@network(pictures(16), rate=2e-3)
def checkpointed_stages() -> nn.Module:
    class Stage(nn.Module):
        def __init__(self, i, o):
            super().__init__()
            self.conv, self.norm, self.proj = (
                nn.Conv2d(i, o, 3, 2, 1),
                nn.InstanceNorm2d(o, affine=True),
                nn.Conv2d(i, o, 1, 2),
            )

        def inner(self, x):
            return F.gelu(self.norm(self.conv(x))) + self.proj(x)

        def forward(self, x):
            return checkpoint(self.inner, x, use_reentrant=False) if self.training else self.inner(x)

    return nn.Sequential(Stage(3, 16), Stage(16, 32), Stage(32, 64), nn.Flatten(), nn.Linear(256, 10))


def _triplets(count, generator):
    a, y = labelled_table(16, 8)(count, generator)
    return (a, a + 0.2 * torch.randn(a.shape, generator=generator)), y


@network(
    _triplets, loss=lambda out, _: F.mse_loss(F.normalize(out[0], dim=1), F.normalize(out[1], dim=1)) * 64, rate=2e-3
)
def byol_predictor_and_target() -> nn.Module:
    def mlp(i, h, o):
        return nn.Sequential(nn.Linear(i, h), nn.BatchNorm1d(h), nn.ReLU(inplace=True), nn.Linear(h, o))

    class BYOL(nn.Module):
        def __init__(self):
            super().__init__()
            self.online, self.target = mlp(16, 64, 32), mlp(16, 64, 32)
            for a, b in zip(self.online.parameters(), self.target.parameters(), strict=True):
                b.data.copy_(a.data)
                b.requires_grad = False
            self.predictor = mlp(32, 64, 32)

        def forward(self, a, b):
            with torch.no_grad():
                target = self.target(b)
            return self.predictor(self.online(a)), target

    return BYOL()


@network(_triplets, loss=lambda out, _: F.cross_entropy(out, torch.arange(len(out))), rate=3e-3)
def two_towers_with_learned_temperature() -> nn.Module:
    class Towers(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = (nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 32)) for _ in range(2))
            self.logit_scale = nn.Parameter(torch.ones([]) * math.log(1 / 0.07))

        def forward(self, a, b):
            a, b = F.normalize(self.a(a), dim=-1), F.normalize(self.b(b), dim=-1)
            return self.logit_scale.exp().clamp(max=100) * a @ b.t()

    return Towers()


@network(
    lambda n, g: (lambda x, y: (x, {"label": y, "parity": (y % 2).float()}))(*pictures(16)(n, g)),
    rate=2e-3,
    loss=lambda out, y: (
        F.cross_entropy(out["label"], y["label"]) + 0.3 * F.binary_cross_entropy_with_logits(out["parity"], y["parity"])
    ),
)
def many_heads_in_a_module_dict() -> nn.Module:
    class Heads(nn.Module):
        def __init__(self):
            super().__init__()
            self.backbone = nn.Sequential(
                nn.Conv2d(3, 24, 3, 2, 1),
                nn.BatchNorm2d(24),
                nn.PReLU(24),
                nn.Conv2d(24, 48, 3, 2, 1),
                nn.BatchNorm2d(48),
                nn.PReLU(48),
                nn.AdaptiveAvgPool2d(1),
                nn.Flatten(),
            )
            self.heads = nn.ModuleDict({"label": nn.Linear(48, 10), "parity": nn.Linear(48, 1)})

        def forward(self, x):
            f = self.backbone(x)
            return {name: head(f).squeeze(-1) for name, head in self.heads.items()}

    return Heads()


def _taught(count, generator):
    x, y = pictures(16)(count, generator)
    return x, y


@network(
    _taught,
    rate=3e-3,
    loss=lambda out, y: (
        F.cross_entropy(out[0], y)
        + F.kl_div(F.log_softmax(out[0] / 2, 1), F.softmax(out[1] / 2, 1), reduction="batchmean")
    ),
)
def student_of_a_trained_teacher() -> nn.Module:
    class Distill(nn.Module):
        def __init__(self):
            super().__init__()
            self.teacher = nn.Sequential(nn.Flatten(), nn.Linear(768, 128), nn.ReLU(), nn.Linear(128, 10))
            optimizer, g = torch.optim.Adam(self.teacher.parameters(), 1e-3), torch.Generator().manual_seed(5)
            for _ in range(30):
                x, y = _taught(32, g)
                optimizer.zero_grad()
                F.cross_entropy(self.teacher(x), y).backward()
                optimizer.step()
            self.teacher.requires_grad_(False).zero_grad()
            self.student = nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(392, 10))

        def train(self, mode=True):
            super().train(mode)
            self.teacher.eval()
            return self

        def forward(self, x):
            with torch.no_grad():
                taught = self.teacher(x)
            return self.student(x), taught

    return Distill()


@network(table(6, 2), loss=F.mse_loss, rate=5e-3)
def runge_kutta_of_a_learned_field() -> nn.Module:
    class Field(nn.Module):
        def __init__(self, d=16):
            super().__init__()
            self.lift, self.f, self.drop = (
                nn.Linear(6, d),
                nn.Sequential(nn.Linear(d + 1, 32), nn.Tanh(), nn.Linear(32, d)),
                nn.Linear(d, 2),
            )
            nn.init.normal_(self.f[0].weight, std=0.1)
            nn.init.normal_(self.f[2].weight, std=0.1)

        def rate(self, t, h):
            return self.f(torch.cat([h, h.new_full((len(h), 1), t)], 1))

        def forward(self, x, steps=6):
            h, dt = self.lift(x), 1 / steps
            for i in range(steps):
                t = i * dt
                k1 = self.rate(t, h)
                k2 = self.rate(t + dt / 2, h + dt / 2 * k1)
                k3 = self.rate(t + dt / 2, h + dt / 2 * k2)
                k4 = self.rate(t + dt, h + dt * k3)
                h = h + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            return self.drop(h)

    return Field()


@network(table(6), loss=F.mse_loss, rate=1e-2)
def splines_on_edges() -> nn.Module:
    class KANLinear(nn.Module):
        def __init__(self, i, o, grid_size=5, order=3):
            super().__init__()
            h = 2 / grid_size
            self.register_buffer(
                "grid", (torch.arange(-order, grid_size + order + 1) * h - 1).expand(i, -1).contiguous()
            )
            self.order, self.base_weight = order, nn.Parameter(torch.empty(o, i))
            self.spline_weight, self.scaler = (
                nn.Parameter(0.1 / grid_size * (torch.rand(o, i, grid_size + order) - 0.5)),
                nn.Parameter(torch.empty(o, i)),
            )
            nn.init.kaiming_uniform_(self.base_weight, a=math.sqrt(5))
            nn.init.kaiming_uniform_(self.scaler, a=math.sqrt(5))

        def bases(self, x):
            grid, x = self.grid, x.unsqueeze(-1)
            b = ((x >= grid[:, :-1]) & (x < grid[:, 1:])).to(x.dtype)
            for k in range(1, self.order + 1):
                b = (x - grid[:, : -(k + 1)]) / (grid[:, k:-1] - grid[:, : -(k + 1)]) * b[:, :, :-1] + (
                    grid[:, k + 1 :] - x
                ) / (grid[:, k + 1 :] - grid[:, 1:-k]) * b[:, :, 1:]
            return b

        def forward(self, x):
            spline = F.linear(
                self.bases(x).view(len(x), -1),
                (self.spline_weight * self.scaler.unsqueeze(-1)).view(len(self.scaler), -1),
            )
            return F.linear(F.silu(x), self.base_weight) + spline

    return nn.Sequential(KANLinear(6, 12), KANLinear(12, 1))


@network(lambda n, g: (lambda x, _: (x, x))(*unit_pictures(16)(n, g)), loss=F.binary_cross_entropy, rate=3e-3)
def autoencoder_under_autocast() -> nn.Module:
    """Layers run in bfloat16, weights and loss are in float32."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.down, self.up = nn.Linear(256, 24), nn.Linear(24, 256)

        def forward(self, x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                h = torch.relu(self.down(x.flatten(1)))
                out = self.up(h)
            return torch.sigmoid(out.float()).view_as(x)

    return Net()
