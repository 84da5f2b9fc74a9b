"""Networks of tables, graphs, points, actions, fields and densities."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from held_out.members import labelled_table, network, pictures, sentences, table


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
            net = lambda end: nn.Sequential(
                nn.Linear(2, 64), nn.LeakyReLU(), nn.Linear(64, 64), nn.LeakyReLU(), nn.Linear(64, 2), end
            )  # noqa: E731
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


def _columns(count, generator):
    rows, _ = table(6)(count, generator)
    cats = torch.stack([torch.randint(k, (count,), generator=generator) for k in (4, 12, 30)], 1)
    target = rows[:, 0] + (cats[:, 1] % 3 - 1.0)
    return {"x_num": rows, "x_cat": cats}, (target > 0).float()


def _bce(out, targets):
    return F.binary_cross_entropy_with_logits(out.squeeze(-1), targets)


@network(_columns, loss=_bce, rate=3e-3)
def tab_transformer() -> nn.Module:
    class TabTransformer(nn.Module):
        def __init__(self, d=32):
            super().__init__()
            self.embeds = nn.ModuleList(nn.Embedding(k, d) for k in (4, 12, 30))
            layer = nn.TransformerEncoderLayer(d, 4, 64, 0.1, "gelu", batch_first=True, norm_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.norm = nn.LayerNorm(6)
            self.mlp = nn.Sequential(
                nn.Linear(3 * d + 6, 128), nn.ReLU(), nn.Linear(128, 32), nn.ReLU(), nn.Linear(32, 1)
            )

        def forward(self, x_num, x_cat):
            tokens = torch.stack([e(x_cat[:, i]) for i, e in enumerate(self.embeds)], 1)
            return self.mlp(torch.cat([self.encoder(tokens).flatten(1), self.norm(x_num)], 1))

    return TabTransformer()


@network(_columns, loss=_bce, rate=3e-3)
def tabular_resnet() -> nn.Module:
    class Block(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.body = nn.Sequential(
                nn.BatchNorm1d(d), nn.Linear(d, 2 * d), nn.ReLU(), nn.Dropout(0.2), nn.Linear(2 * d, d), nn.Dropout(0.1)
            )

        def forward(self, x):
            return x + self.body(x)

    class Net(nn.Module):
        def __init__(self, d=64):
            super().__init__()
            self.cat = nn.ModuleList(nn.Embedding(k, min(50, k // 2 + 1)) for k in (4, 12, 30))
            self.first = nn.Linear(6 + 3 + 7 + 16, d)
            self.blocks = nn.Sequential(*[Block(d) for _ in range(3)])
            self.head = nn.Sequential(nn.BatchNorm1d(d), nn.ReLU(), nn.Linear(d, 1))

        def forward(self, x_num, x_cat):
            x = torch.cat([x_num, *[e(x_cat[:, i]) for i, e in enumerate(self.cat)]], 1)
            return self.head(self.blocks(self.first(x)))

    return Net()


def _clicks(count, generator):
    users, items = (torch.randint(k, (count,), generator=generator) for k in (20, 30))
    return {"user": users, "item": items}, (users % 2 == items % 2).float()


@network(_clicks, loss=_bce, rate=2e-2)
def two_tower() -> nn.Module:
    class TwoTower(nn.Module):
        def __init__(self):
            super().__init__()
            self.user, self.item = nn.Embedding(200, 32), nn.Embedding(300, 32)
            self.user_mlp = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))
            self.item_mlp = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))
            self.bias = nn.Parameter(torch.zeros(1))

        def forward(self, user, item):
            u = F.normalize(self.user_mlp(self.user(user)), dim=-1)
            i = F.normalize(self.item_mlp(self.item(item)), dim=-1)
            return (u * i).sum(-1) / 0.1 + self.bias

    return TwoTower()


@network(_clicks, loss=_bce, rate=2e-2)
def factorisation_machine() -> nn.Module:
    class DeepFM(nn.Module):
        def __init__(self, k=16):
            super().__init__()
            self.linear = nn.ModuleList([nn.Embedding(200, 1), nn.Embedding(300, 1)])
            self.factors = nn.ModuleList([nn.Embedding(200, k), nn.Embedding(300, k)])
            for e in [*self.linear, *self.factors]:
                nn.init.normal_(e.weight, std=0.01)
            self.deep = nn.Sequential(nn.Linear(2 * k, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 1))

        def forward(self, user, item):
            first = self.linear[0](user) + self.linear[1](item)
            v = torch.stack([self.factors[0](user), self.factors[1](item)], 1)
            second = 0.5 * (v.sum(1) ** 2 - (v**2).sum(1)).sum(1, keepdim=True)
            return first + second + self.deep(v.flatten(1))

    return DeepFM()


class LoRA(nn.Module):
    def __init__(self, base, rank=4, alpha=8):
        super().__init__()
        self.base, self.scaling = base.requires_grad_(False), alpha / rank
        self.A = nn.Parameter(torch.empty(rank, base.in_features))
        self.B = nn.Parameter(torch.zeros(base.out_features, rank))
        nn.init.kaiming_uniform_(self.A, a=math.sqrt(5))

    def forward(self, x):
        return self.base(x) + (x @ self.A.T @ self.B.T) * self.scaling


@network(sentences(target="class"), rate=1e-2)
def lora_on_encoder() -> nn.Module:
    class Net(nn.Module):
        def __init__(self, d=64):
            super().__init__()
            self.embed = nn.Embedding(64, d).requires_grad_(False)
            self.pos = nn.Parameter(0.02 * torch.randn(24, d), requires_grad=False)
            self.blocks = nn.ModuleList(
                nn.ModuleDict({"n1": nn.LayerNorm(d), "qkv": LoRA(nn.Linear(d, 3 * d)), "o": LoRA(nn.Linear(d, d)),
                               "n2": nn.LayerNorm(d), "up": LoRA(nn.Linear(d, 4 * d)), "down": LoRA(nn.Linear(4 * d, d))})
                for _ in range(3)
            )  # fmt: skip
            for b in self.blocks:
                b["n1"].requires_grad_(False)
                b["n2"].requires_grad_(False)
            self.score = nn.Linear(d, 8)

        def forward(self, ids):
            x = self.embed(ids) + self.pos
            for b in self.blocks:
                q, k, v = b["qkv"](b["n1"](x)).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
                x = x + b["o"](F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
                x = x + b["down"](F.gelu(b["up"](b["n2"](x))))
            return self.score(x.mean(1))

    return Net()


@network(table(12, 3), loss=F.mse_loss, rate=3e-3)
def orthogonal_parametrised() -> nn.Module:
    ortho = nn.utils.parametrizations.orthogonal
    return nn.Sequential(
        nn.Linear(12, 64),
        nn.ELU(),
        *[m for _ in range(6) for m in (ortho(nn.Linear(64, 64)), nn.ELU())],
        nn.Linear(64, 3),
    )


@network(labelled_table(32), rate=1e-3)
def self_normalising() -> nn.Module:
    layers = [
        m
        for a, b in zip([32] + [96] * 7, [96] * 8, strict=True)
        for m in (nn.Linear(a, b), nn.SELU(), nn.AlphaDropout(0.05))
    ]
    model = nn.Sequential(*layers, nn.Linear(96, 4))
    for m in model:
        if isinstance(m, nn.Linear):
            nn.init.kaiming_normal_(m.weight, nonlinearity="linear")
            nn.init.zeros_(m.bias)
    return model


@network(labelled_table(24), rate=2e-3)
def sparse_mixture_of_experts() -> nn.Module:
    class MoE(nn.Module):
        def __init__(self, d=48, experts=4, k=2):
            super().__init__()
            self.k, self.gate = k, nn.Linear(d, experts, bias=False)
            self.experts = nn.ModuleList(
                nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d)) for _ in range(experts)
            )

        def forward(self, x):
            weights, chosen = self.gate(x).softmax(-1).topk(self.k, -1)
            out = torch.zeros_like(x)
            for i, expert in enumerate(self.experts):
                row, place = (chosen == i).nonzero(as_tuple=True)
                out[row] += weights[row, place, None] * expert(x[row])
            return x + out

    return nn.Sequential(nn.Linear(24, 48), MoE(), MoE(), nn.LayerNorm(48), nn.Linear(48, 4))


@network(lambda n, g: (lambda x, y: ((x, y), y))(*pictures(16, 1)(n, g)), loss=lambda out, y: F.mse_loss(*out))
def conditional_hypernetwork() -> nn.Module:
    class Film(nn.Module):
        def __init__(self):
            super().__init__()
            self.label = nn.Embedding(10, 32)
            self.film = nn.Linear(32, 2 * 24)
            self.conv1, self.conv2 = nn.Conv2d(1, 24, 3, padding=1), nn.Conv2d(24, 1, 3, padding=1)

        def forward(self, x, y):
            gamma, beta = self.film(self.label(y))[:, :, None, None].chunk(2, 1)
            h = F.relu((1 + gamma) * self.conv1(x) + beta)
            return self.conv2(h), x

    return Film()


@network(table(16, 1), loss=lambda out, t: F.gaussian_nll_loss(out["mean"], t, out["variance"]), rate=3e-3)
def heteroscedastic_dict() -> nn.Module:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.trunk = nn.Sequential(nn.Linear(16, 64), nn.Softplus(), nn.Linear(64, 64), nn.Softplus())
            self.mean, self.raw = nn.Linear(64, 1), nn.Linear(64, 1)

        def forward(self, x):
            h = self.trunk(x)
            return {"mean": self.mean(h), "variance": F.softplus(self.raw(h)) + 1e-3}

    return Net()
