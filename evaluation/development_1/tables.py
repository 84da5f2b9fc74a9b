"""Networks of tables, clicks and conditions, adapted and constrained ones."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from evaluation.declared import network
from evaluation.development_1.data import labelled_table, pictures, sentences, table


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
                nn.ModuleDict({
                    "n1": nn.LayerNorm(d), "qkv": LoRA(nn.Linear(d, 3 * d)), "o": LoRA(nn.Linear(d, d)),
                    "n2": nn.LayerNorm(d), "up": LoRA(nn.Linear(d, 4 * d)), "down": LoRA(nn.Linear(4 * d, d)),
                }) for _ in range(3)
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
