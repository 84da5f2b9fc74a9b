"""Bugs of attention, axes, order and batches, each beside what it should have been."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from evaluation.declared import pair
from evaluation.development_1.data import labelled_table, pictures, sentences, waves
from evaluation.development_1.sequences import per_token
from evaluation.development_3.series import _last, _to_reverse
from evaluation.development_3.tables_and_games import _molecules


class Attending(nn.Module):
    """Self-attention whose inner step a bug may change."""

    def __init__(self, d, heads, inner):
        super().__init__()
        self.qkv, self.out, self.h, self.inner = nn.Linear(d, 3 * d), nn.Linear(d, d), heads, inner

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (y.view(b, t, self.h, d // self.h).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        return self.out(self.inner(q, k, v).transpose(1, 2).reshape(b, t, d))


class Words(nn.Module):
    """Pre-norm blocks between words and a head."""

    def __init__(self, attention, outputs=64, d=64, depth=2, pooled=False):
        super().__init__()
        self.tok, self.pos = nn.Embedding(64, d), nn.Embedding(32, d)
        self.attn = nn.ModuleList(attention(d) for _ in range(depth))
        self.n1, self.n2 = (nn.ModuleList(nn.LayerNorm(d) for _ in range(depth)) for _ in range(2))
        self.ff = nn.ModuleList(
            nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d)) for _ in range(depth)
        )
        self.head, self.pooled = nn.Linear(d, outputs), pooled
        nn.init.normal_(self.tok.weight, std=0.1)
        nn.init.normal_(self.pos.weight, std=0.1)

    def forward(self, ids):
        x = self.tok(ids) + self.pos.weight[: ids.shape[1]]
        for attn, n1, n2, ff in zip(self.attn, self.n1, self.n2, self.ff, strict=True):
            x = x + attn(n1(x))
            x = x + ff(n2(x))
        return self.head(x.mean(1) if self.pooled else x)


def softmax_of(scores, v, causal=True, dim=-1):
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1) > 0, float("-inf"))
    return F.softmax(scores, dim) @ v


class Patches(nn.Module):
    def __init__(self, inner, d=64, depth=3):
        super().__init__()
        self.patch, self.pos = nn.Conv2d(3, d, 4, 4), nn.Parameter(0.02 * torch.randn(1, 17, d))
        self.cls = nn.Parameter(torch.zeros(1, 1, d))
        self.attn = nn.ModuleList(Attending(d, 2, inner) for _ in range(depth))
        self.n1, self.n2 = (nn.ModuleList(nn.LayerNorm(d) for _ in range(depth)) for _ in range(2))
        self.ff = nn.ModuleList(
            nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d)) for _ in range(depth)
        )
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, 10)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos
        for attn, n1, n2, ff in zip(self.attn, self.n1, self.n2, self.ff, strict=True):
            x = x + attn(n1(x))
            x = x + ff(n2(x))
        return self.head(self.norm(x)[:, 0])


@pair(pictures(16), "attention-entropy", rate=2e-3)
def scores_times_the_root_of_the_width(wrong):
    def inner(q, k, v):
        root = math.sqrt(q.shape[-1])
        return softmax_of(q @ k.transpose(-2, -1) * (root if wrong else 1 / root), v, causal=False)

    return Patches(inner)


@pair(sentences(target="class"), "attention-entropy", rate=2e-3)
def softmax_over_the_heads(wrong):
    def inner(q, k, v):
        return softmax_of(q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5, v, causal=False, dim=1 if wrong else -1)

    return Words(lambda d: Attending(d, 4, inner), 8, pooled=True)


@pair(sentences(), "sees-target", loss=per_token, rate=3e-3)
def scores_masked_by_a_product(wrong):
    def inner(q, k, v):
        scores, seen = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5, torch.ones(q.shape[-2], q.shape[-2]).tril()
        scores = scores * seen if wrong else scores.masked_fill(seen == 0, float("-inf"))
        return F.softmax(scores, -1) @ v

    return Words(lambda d: Attending(d, 4, inner))


@pair(
    sentences(),
    "sees-target",
    loss=per_token,
    rate=3e-3,
    wrong={"data": lambda n, g: (lambda x, _: (x, x))(*sentences()(n, g))},
)
def labels_not_shifted(wrong):
    return Words(lambda d: Attending(d, 4, lambda q, k, v: softmax_of(q @ k.mT / q.shape[-1] ** 0.5, v)))


@pair(_to_reverse, "sees-target", loss=per_token, rate=3e-3)
def decoder_without_its_mask(wrong):
    class Translator(nn.Module):
        def __init__(self, d=48):
            super().__init__()
            self.src, self.trg = nn.Embedding(64, d), nn.Embedding(64, d)
            self.pos, self.core = (
                nn.Parameter(0.1 * torch.randn(1, 10, d)),
                nn.Transformer(d, 4, 1, 1, 96, batch_first=True),
            )
            self.generator = nn.Linear(d, 64)

        def forward(self, src, trg):
            mask = None if wrong else self.core.generate_square_subsequent_mask(trg.shape[1])
            return self.generator(self.core(self.src(src) + self.pos, self.trg(trg) + self.pos, tgt_mask=mask))

    return Translator()


@pair(sentences(), "sees-target", "axes-mixed", loss=per_token, rate=3e-3)
def heads_by_a_view_alone(wrong):
    class Attention(nn.Module):
        def __init__(self, d, heads=4):
            super().__init__()
            self.q, self.k, self.v, self.o, self.h = *(nn.Linear(d, d) for _ in range(4)), heads

        def split(self, x):
            b, t, d = x.shape
            return x.view(b, self.h, t, d // self.h) if wrong else x.view(b, t, self.h, d // self.h).transpose(1, 2)

        def forward(self, x):
            q, k, v = (self.split(m(x)) for m in (self.q, self.k, self.v))
            y = softmax_of(q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5, v)
            return self.o(y.reshape(x.shape) if wrong else y.transpose(1, 2).reshape(x.shape))

    return Words(Attention)


@pair(sentences(), "attention-axis", "attention-entropy", "order-unseen", "axes-mixed", loss=per_token, rate=3e-3)
def fused_attention_across_heads(wrong):
    class Attention(nn.Module):
        def __init__(self, d, heads=4):
            super().__init__()
            self.qkv, self.o, self.h = nn.Linear(d, 3 * d), nn.Linear(d, d), heads

        def forward(self, x):
            b, t, d = x.shape
            q, k, v = (y.view(b, t, self.h, -1) for y in self.qkv(x).chunk(3, -1))
            if wrong:
                return self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).reshape(b, t, d))
            q, k, v = (y.transpose(1, 2) for y in (q, k, v))
            return self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d))

    return Words(Attention)


@pair(sentences(target="class"), "token-collapse", "attention-entropy", "collapse", rate=3e-3)
def einsum_with_a_free_index(wrong):
    def inner(q, k, v):
        w = F.softmax(torch.einsum("bhid,bhjd->bhij", q, k) / q.shape[-1] ** 0.5, -1)
        return torch.einsum("bhij,bhkd->bhid" if wrong else "bhij,bhjd->bhid", w, v)

    return Words(lambda d: Attending(d, 4, inner), 8, pooled=True)


@pair(_last, "zero-gradient", "no-gradient", "attention-entropy", where="score", rate=3e-3)
def softmax_over_an_axis_of_one(wrong):
    class Pooled(nn.Module):
        def __init__(self, h=32):
            super().__init__()
            self.rnn, self.score, self.fc = nn.GRU(4, h, batch_first=True), nn.Linear(h, 1), nn.Linear(h, 4)

        def forward(self, x):
            out, _ = self.rnn(x)
            return self.fc((F.softmax(self.score(torch.tanh(out)), dim=2 if wrong else 1) * out).sum(1))

    return Pooled()


@pair(
    lambda n, g: (lambda x, y: (x, (y % 2).float()[:, None]))(*labelled_table()(n, g)),
    "zero-gradient",
    "no-gradient",
    "double-softmax",
    "clipped-output",
    "collapse",
    "loss-kind",
    loss=F.binary_cross_entropy,
    rate=3e-3,
)
def softmax_of_one_logit(wrong):
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1), nn.Softmax(1) if wrong else nn.Sigmoid())


@pair(_last, "samples-mixed", rate=3e-3)
def hidden_state_viewed_by_batch(wrong):
    class Net(nn.Module):
        def __init__(self, h=24):
            super().__init__()
            self.lstm, self.fc = nn.LSTM(4, h, num_layers=2, batch_first=True), nn.Linear(2 * h, 4)

        def forward(self, x):
            _, (h_n, _) = self.lstm(x)
            h = h_n.view(x.size(0), -1) if wrong else h_n.permute(1, 0, 2).reshape(x.size(0), -1)
            return self.fc(h)

    return Net()


@pair(_last, "samples-mixed", rate=3e-3)
def reshape_for_permute_before_gru(wrong):
    class Net(nn.Module):
        def __init__(self, h=32):
            super().__init__()
            self.gru, self.fc = nn.GRU(4, h), nn.Linear(h, 4)

        def forward(self, x):
            b, t, c = x.shape
            out, _ = self.gru(x.reshape(t, b, c) if wrong else x.permute(1, 0, 2))
            return self.fc(out[-1])

    return Net()


@pair(sentences(), "samples-mixed", loss=per_token, rate=3e-3)
def router_softmax_over_tokens(wrong):
    class Router(nn.Module):
        def __init__(self, d=48, experts=4):
            super().__init__()
            self.embed, self.gate, self.head = nn.Embedding(64, d), nn.Linear(d, experts), nn.Linear(d, 64)
            self.experts = nn.ModuleList(
                nn.Sequential(nn.Linear(d, 64), nn.GELU(), nn.Linear(64, d)) for _ in range(experts)
            )

        def forward(self, ids):
            x = self.embed(ids).flatten(0, 1)
            weights = F.softmax(self.gate(x), dim=0 if wrong else -1)
            x = x + sum(weights[:, i : i + 1] * expert(x) for i, expert in enumerate(self.experts))
            return self.head(x).view(*ids.shape, -1)

    return Router()


def _views(count, generator):
    a, y = labelled_table(16, 8)(count, generator)
    return (a, a + 0.3 * torch.randn(a.shape, generator=generator)), y


@pair(
    _views,
    "samples-mixed",
    loss=lambda out, _: F.cross_entropy(out[0] @ out[1].t() / 0.2, torch.arange(len(out[0]))),
    rate=3e-3,
)
def normalised_over_the_batch(wrong):
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 24))

        def forward(self, a, b):
            return tuple(F.normalize(self.encoder(x), dim=0 if wrong else 1) for x in (a, b))

    return Pair()


@pair(waves(32, 4), "axes-mixed", "pool-axis", "norm-axis", rate=3e-3)
def mean_over_channels_for_places(wrong):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.conv2, self.fc = (
                nn.Conv1d(4, 32, 5, padding=2),
                nn.Conv1d(32, 32, 5, padding=2),
                nn.Linear(32, 4),
            )

        def forward(self, x):
            x = F.relu(self.conv2(F.relu(self.conv1(x))))
            return self.fc(x.mean(1 if wrong else 2))

    return Net()


@pair(_molecules, "not-finite", loss=F.mse_loss, rate=5e-3)
def neighbours_of_a_lonely_node(wrong):
    class GAT(nn.Module):
        def __init__(self, d=32):
            super().__init__()
            self.embed, self.w, self.a, self.lin = (
                nn.Embedding(6, d),
                nn.Linear(d, d),
                nn.Linear(2 * d, 1),
                nn.Linear(d, 1),
            )

        def forward(self, kinds, adj):
            h = self.w(self.embed(kinds))
            n = h.shape[1]
            e = self.a(torch.cat([h[:, :, None].expand(-1, -1, n, -1), h[:, None].expand(-1, n, -1, -1)], -1)).squeeze(
                -1
            )
            links = adj if wrong else adj + torch.eye(n)
            alpha = F.leaky_relu(e).masked_fill(links == 0, float("-inf")).softmax(-1)
            return self.lin(F.elu(alpha @ h)).sum(1) / 4

    return GAT()


@pair(_last, "step-fails", "samples-mixed", "stateful", rate=3e-3)
def hidden_state_kept_between_calls(wrong):
    class Net(nn.Module):
        def __init__(self, h=32):
            super().__init__()
            self.rnn, self.fc, self.hidden = nn.GRU(4, h, batch_first=True), nn.Linear(h, 4), None

        def forward(self, x):
            state = self.hidden if wrong and self.hidden is not None and self.hidden.shape[1] == len(x) else None
            out, self.hidden = self.rnn(x, state)
            return self.fc(out[:, -1])

    return Net()
