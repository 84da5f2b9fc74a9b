"""Networks of rows, sets, graphs, games and fields."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from evaluation.declared import network
from evaluation.development_1.data import labelled_table, pictures, sentences, table


@network(table(12), loss=F.mse_loss)
def ft_transformer() -> nn.Module:
    class FT(nn.Module):
        def __init__(self, n=12, d=48):
            super().__init__()
            self.weight, self.bias = nn.Parameter(torch.empty(n, d)), nn.Parameter(torch.empty(n, d))
            self.cls = nn.Parameter(torch.empty(d))
            for p in (self.weight, self.bias, self.cls):
                nn.init.uniform_(p, -(d**-0.5), d**-0.5)
            self.attn = nn.ModuleList(nn.MultiheadAttention(d, 4, 0.2, batch_first=True) for _ in range(2))
            self.norm1 = nn.ModuleList([nn.Identity(), nn.LayerNorm(d)])
            self.norm2 = nn.ModuleList(nn.LayerNorm(d) for _ in range(2))
            self.up, self.down = (nn.ModuleList(nn.Linear(a, b) for _ in range(2)) for a, b in ((d, 128), (64, d)))
            self.head = nn.Sequential(nn.LayerNorm(d), nn.ReLU(), nn.Linear(d, 1))

        def forward(self, x):
            x = x[..., None] * self.weight + self.bias
            x = torch.cat([x, self.cls.expand(len(x), 1, -1)], 1)
            for i in range(2):
                h = self.norm1[i](x)
                x = x + self.attn[i](h, h, h, need_weights=False)[0]
                a, b = self.up[i](self.norm2[i](x)).chunk(2, -1)
                x = x + self.down[i](a * F.relu(b))
            return self.head(x[:, -1])

    return FT()


class Sparsemax(nn.Module):
    def forward(self, z):
        z = z - z.max(-1, keepdim=True).values
        ordered = z.sort(-1, descending=True).values
        k = torch.arange(1, z.shape[-1] + 1, dtype=z.dtype)
        total = ordered.cumsum(-1)
        support = (1 + k * ordered > total).sum(-1, keepdim=True)
        tau = (total.gather(-1, support - 1) - 1) / support
        return F.relu(z - tau)


@network(labelled_table(), rate=1e-2)
def tabnet_like() -> nn.Module:
    class GLUBlock(nn.Module):
        def __init__(self, i, o):
            super().__init__()
            self.fc, self.bn = nn.Linear(i, 2 * o, bias=False), nn.BatchNorm1d(2 * o, momentum=0.02)
            nn.init.xavier_normal_(self.fc.weight, gain=math.sqrt((i + 2 * o) / math.sqrt(4 * i)))

        def forward(self, x):
            return F.glu(self.bn(self.fc(x)))

    class TabNet(nn.Module):
        def __init__(self, n=16, d=16, steps=3):
            super().__init__()
            self.bn, self.shared, self.first = nn.BatchNorm1d(n), GLUBlock(n, 2 * d), GLUBlock(2 * d, 2 * d)
            self.own = nn.ModuleList(GLUBlock(2 * d, 2 * d) for _ in range(steps))
            self.att = nn.ModuleList(
                nn.Sequential(nn.Linear(d, n, bias=False), nn.BatchNorm1d(n, momentum=0.02)) for _ in range(steps)
            )
            self.sparsemax, self.final, self.d = Sparsemax(), nn.Linear(d, 4, bias=False), d

        def forward(self, x):
            x = self.bn(x)
            prior, total = torch.ones_like(x), 0.0
            a = self.first(self.shared(x))[:, self.d :]
            for own, att in zip(self.own, self.att, strict=True):
                mask = self.sparsemax(att(a) * prior)
                prior = prior * (1.3 - mask)
                h = self.shared(mask * x)
                h = (h + own(h)) * math.sqrt(0.5)
                total = total + F.relu(h[:, : self.d])
                a = h[:, self.d :]
            return self.final(total)

    return TabNet()


def _impressions(count, generator):
    dense = torch.rand(count, 5, generator=generator).pow(3) * 50
    sparse = torch.stack([torch.randint(k, (count,), generator=generator) for k in (10, 40, 5)], 1)
    return {"dense": dense.log1p(), "sparse": sparse}, ((sparse[:, 0] % 2 == 0) ^ (dense[:, 0] > 6)).float()


def _click(out, targets):
    return F.binary_cross_entropy(out.squeeze(1), targets)


@network(_impressions, loss=_click, rate=1e-2)
def dlrm_with_sigmoid_and_bce() -> nn.Module:
    class DLRM(nn.Module):
        def __init__(self, d=16):
            super().__init__()
            self.tables = nn.ModuleList(nn.EmbeddingBag(k, d, mode="sum") for k in (10, 40, 5))
            for t, k in zip(self.tables, (10, 40, 5), strict=True):
                nn.init.uniform_(t.weight, -math.sqrt(1 / k), math.sqrt(1 / k))
            self.bot = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, d), nn.ReLU())
            self.top = nn.Sequential(nn.Linear(d + 6, 32), nn.ReLU(), nn.Linear(32, 1), nn.Sigmoid())

        def forward(self, dense, sparse):
            x = self.bot(dense)
            ly = [x] + [t(sparse[:, i : i + 1]) for i, t in enumerate(self.tables)]
            T = torch.stack(ly, 1)
            Z = torch.bmm(T, T.transpose(1, 2))
            li, lj = torch.tril_indices(4, 4, offset=-1)
            return self.top(torch.cat([x, Z[:, li, lj]], 1))

    return DLRM()


@network(_impressions, loss=lambda out, t: F.binary_cross_entropy_with_logits(out, t), rate=1e-2)
def deep_and_cross() -> nn.Module:
    class DCN(nn.Module):
        def __init__(self, d=8):
            super().__init__()
            self.embed = nn.ModuleList(nn.Embedding(k, d) for k in (10, 40, 5))
            n = 5 + 3 * d
            self.cross = nn.ModuleList(nn.Linear(n, n) for _ in range(3))
            self.deep = nn.Sequential(nn.Linear(n, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.2),
                                      nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU())  # fmt: skip
            self.out = nn.Linear(n + 32, 1)
            for e in self.embed:
                nn.init.normal_(e.weight, std=1e-4)

        def forward(self, dense, sparse):
            x0 = torch.cat([dense, *[e(sparse[:, i]) for i, e in enumerate(self.embed)]], 1)
            x = x0
            for layer in self.cross:
                x = x0 * layer(x) + x
            return self.out(torch.cat([x, self.deep(x0)], 1)).squeeze(-1)

    return DCN()


def _nodes(count, generator):
    x = torch.randn(count, 12, 8, generator=generator)
    links = (torch.rand(count, 12, 12, generator=generator) < 0.25).float()
    links = ((links + links.transpose(1, 2)) > 0).float()
    around = links @ x[..., :1] / links.sum(2, keepdim=True).clamp(min=1)
    return (x, links), (around.squeeze(-1) + x[..., 1] > 0).long()


@network(_nodes, loss=lambda out, t: F.cross_entropy(out.flatten(0, 1), t.flatten()), rate=5e-3)
def graph_sage_mean() -> nn.Module:
    class SAGE(nn.Module):
        def __init__(self, i, o):
            super().__init__()
            self.lin_l, self.lin_r = nn.Linear(i, o), nn.Linear(i, o, bias=False)

        def forward(self, x, adj):
            neighbours = adj @ x / adj.sum(-1, keepdim=True).clamp(min=1)
            return F.normalize(self.lin_l(neighbours) + self.lin_r(x), p=2.0, dim=-1)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.conv2, self.out = SAGE(8, 32), SAGE(32, 32), nn.Linear(32, 2)

        def forward(self, x, adj):
            x = F.dropout(F.relu(self.conv1(x, adj)), 0.3, self.training)
            return self.out(F.relu(self.conv2(x, adj)))

    return Net()


@network(_nodes, loss=lambda out, t: F.cross_entropy(out, (t.sum(1) > 6).long()), rate=5e-3)
def graph_isomorphism_network() -> nn.Module:
    class GIN(nn.Module):
        def __init__(self, layers=3, h=32):
            super().__init__()
            self.eps = nn.Parameter(torch.zeros(layers))
            self.mlps = nn.ModuleList(nn.Sequential(nn.Linear(h if i else 8, h), nn.ReLU(), nn.Linear(h, h))
                                      for i in range(layers))  # fmt: skip
            self.norms = nn.ModuleList(nn.BatchNorm1d(h) for _ in range(layers))
            self.heads = nn.ModuleList(nn.Linear(h, 2) for _ in range(layers))

        def forward(self, h, adj):
            score = 0
            for i, mlp in enumerate(self.mlps):
                h = mlp((1 + self.eps[i]) * h + adj @ h)
                h = F.relu(self.norms[i](h.flatten(0, 1)).view(h.shape))
                score = score + self.heads[i](h.sum(1) / 12)
            return score

    return GIN()


@network(lambda n, g: (lambda x, y: (x.transpose(2, 3).flatten(2).transpose(1, 2), y))(*pictures(12)(n, g)))
def perceiver() -> nn.Module:
    class Perceiver(nn.Module):
        def __init__(self, d=64, n=16):
            super().__init__()
            self.latents, self.pos = nn.Parameter(0.02 * torch.randn(n, d)), nn.Parameter(0.02 * torch.randn(144, 29))
            self.kv, self.q, self.norm_x, self.norm_l = (
                nn.Linear(32, 2 * d),
                nn.Linear(d, d),
                nn.LayerNorm(32),
                nn.LayerNorm(d),
            )
            self.mlp = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))
            layer = nn.TransformerEncoderLayer(d, 4, 2 * d, 0.0, batch_first=True, norm_first=True)
            self.latent = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.out = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 10))

        def forward(self, x):
            x = self.norm_x(torch.cat([x, self.pos.expand(len(x), -1, -1)], -1))
            z = self.latents.expand(len(x), -1, -1)
            for _ in range(2):
                k, v = self.kv(x).chunk(2, -1)
                z = z + (self.q(self.norm_l(z)) @ k.transpose(1, 2) / 8).softmax(-1) @ v
                z = self.latent(z + self.mlp(z))
            return self.out(z.mean(1))

    return Perceiver()


def _sets(count, generator):
    centres = 2 * torch.randn(count, 1, 2, generator=generator)
    x = centres + torch.randn(count, 20, 2, generator=generator)
    return x, x.max(1).values


@network(_sets, loss=F.l1_loss, rate=3e-3)
def set_transformer() -> nn.Module:
    class MAB(nn.Module):
        def __init__(self, dq, dk, d, heads=4):
            super().__init__()
            self.d, self.heads = d, heads
            self.fc_q, self.fc_k, self.fc_v, self.fc_o = (
                nn.Linear(dq, d),
                nn.Linear(dk, d),
                nn.Linear(dk, d),
                nn.Linear(d, d),
            )

        def forward(self, Q, K):
            Q, K, V = self.fc_q(Q), self.fc_k(K), self.fc_v(K)
            s = self.d // self.heads
            Q_, K_, V_ = (torch.cat(t.split(s, 2), 0) for t in (Q, K, V))
            A = torch.softmax(Q_.bmm(K_.transpose(1, 2)) / math.sqrt(self.d), 2)
            O = torch.cat((Q_ + A.bmm(V_)).split(Q.size(0), 0), 2)  # noqa: E741
            return O + F.relu(self.fc_o(O))

    class SetTransformer(nn.Module):
        def __init__(self, d=32):
            super().__init__()
            self.I, self.S = nn.Parameter(torch.empty(1, 8, d)), nn.Parameter(torch.empty(1, 1, d))
            nn.init.xavier_uniform_(self.I)
            nn.init.xavier_uniform_(self.S)
            self.mab0, self.mab1, self.sab = MAB(d, 2, d), MAB(2, d, d), MAB(d, d, d)
            self.pma, self.dec = MAB(d, d, d), nn.Linear(d, 2)

        def forward(self, X):
            H = self.mab0(self.I.repeat(len(X), 1, 1), X)
            X = self.mab1(X, H)
            X = self.sab(X, X)
            return self.dec(self.pma(self.S.repeat(len(X), 1, 1), X)).squeeze(1)

    return SetTransformer()


@network(sentences(target="class"), loss=lambda out, y: F.cross_entropy(out[0], y) + 0.01 * out[1])
def switch_transformer() -> nn.Module:
    class Switch(nn.Module):
        def __init__(self, d=48, experts=4):
            super().__init__()
            self.gate = nn.Linear(d, experts, bias=False)
            nn.init.normal_(self.gate.weight, std=0.02)
            self.experts = nn.ModuleList(
                nn.Sequential(nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d)) for _ in range(experts)
            )

        def forward(self, x):
            probs = self.gate(x).softmax(-1)
            best, index = probs.max(-1)
            out = torch.zeros_like(x)
            for i, expert in enumerate(self.experts):
                chosen = index == i
                if chosen.any():
                    out[chosen] = expert(x[chosen])
            share = F.one_hot(index, len(self.experts)).float().mean((0, 1))
            return out * best[..., None], len(self.experts) * (share * probs.mean((0, 1))).sum()

    class Net(nn.Module):
        def __init__(self, d=48):
            super().__init__()
            self.emb, self.pos = nn.Embedding(64, d), nn.Parameter(0.02 * torch.randn(24, d))
            self.norm1, self.attn = nn.LayerNorm(d), nn.MultiheadAttention(d, 4, batch_first=True)
            self.norm2, self.moe, self.norm, self.head = nn.LayerNorm(d), Switch(d), nn.LayerNorm(d), nn.Linear(d, 8)

        def forward(self, ids):
            x = self.emb(ids) + self.pos
            h = self.norm1(x)
            x = x + self.attn(h, h, h, need_weights=False)[0]
            y, aux = self.moe(self.norm2(x))
            return self.head(self.norm(x + y).mean(1)), aux

    return Net()
