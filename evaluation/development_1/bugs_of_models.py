"""Bugs that practitioners make, each in a small network of its own; `found` says which verdict tells it, and where."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional as F

from evaluation.declared import bug
from evaluation.development_1.data import labelled_table, pictures, sentences, table
from evaluation.development_1.image_transformers import Attention, mlp
from evaluation.development_1.images import conv_bn
from evaluation.development_1.sequences import PositionalEncoding


def small_cnn(*end: nn.Module) -> nn.Sequential:
    return nn.Sequential(
        conv_bn(3, 16), nn.MaxPool2d(2), conv_bn(16, 32), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(2048, 64), nn.ReLU(),
        nn.Linear(64, 10), *end,
    )  # fmt: skip


def dense(*widths: int, act=nn.ReLU) -> nn.Sequential:
    layers = [m for a, b in pairwise(widths) for m in (nn.Linear(a, b), act())]
    return nn.Sequential(*layers[:-1])


class Encoder(nn.Module):
    """A pre-norm encoder of words whose parts a bug may change."""

    def __init__(self, d=64, outputs=8, depth=2, pos=True, causal=False, pool=True):
        super().__init__()
        self.embed, self.pos = nn.Embedding(64, d), PositionalEncoding(d) if pos else nn.Identity()
        self.blocks = nn.ModuleList(
            nn.ModuleDict({"n1": nn.LayerNorm(d), "attn": Attention(d, 4), "n2": nn.LayerNorm(d), "mlp": mlp(d, 4 * d)})
            for _ in range(depth)
        )
        self.head, self.causal, self.pool = nn.Linear(d, outputs), causal, pool

    def bias(self, tokens):
        return torch.full((tokens, tokens), float("-inf")).triu(1) if self.causal else 0.0

    def forward(self, ids):
        x = self.pos(self.embed(ids))
        for b in self.blocks:
            x = x + b["attn"](b["n1"](x), self.bias(ids.shape[1]))
            x = x + b["mlp"](b["n2"](x))
        return self.head(x.mean(1) if self.pool else x)


@bug(pictures(), "double-softmax", where="8")
def softmax_before_cross_entropy():
    return small_cnn(nn.Softmax(dim=1))


def _binary(count, generator):
    rows, labels = labelled_table(16, 2)(count, generator)
    return rows, labels.float()


@bug(_binary, "double-softmax", "clipped-output", loss=lambda o, t: F.binary_cross_entropy_with_logits(o.squeeze(1), t))
def sigmoid_before_bce_with_logits():
    return nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1), nn.Sigmoid())


@bug(pictures(), "clipped-output", where="8")
def relu_on_logits():
    return small_cnn(nn.ReLU())


@bug(table(16, 1, 3.0), "clipped-output", loss=F.mse_loss)
def sigmoid_on_regression():
    return nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1), nn.Sigmoid())


@bug(pictures(), "samples-mixed", loss=F.nll_loss)
def log_softmax_over_the_batch():
    return small_cnn(nn.LogSoftmax(dim=0))


@bug(sentences(target="class"), "attention-entropy")
def attention_softmax_over_queries():
    class Wrong(Attention):
        def forward(self, x, bias=0.0):
            B, N, C = x.shape
            q, k, v = self.qkv(x).reshape(B, N, 3, 4, C // 4).permute(2, 0, 3, 1, 4)
            attn = ((q @ k.transpose(-2, -1)) * (C // 4) ** -0.5).softmax(dim=-2)
            return self.proj((attn @ v).transpose(1, 2).reshape(B, N, C))

    model = Encoder()
    for b in model.blocks:
        b["attn"] = Wrong(64, 4)
    return model


@bug(sentences(target="class"), "attention-entropy")
def attention_without_its_scale():
    class Wrong(Attention):
        def forward(self, x, bias=0.0):
            B, N, C = x.shape
            q, k, v = self.qkv(x).reshape(B, N, 3, 4, C // 4).permute(2, 0, 3, 1, 4)
            return self.proj(((q @ k.mT).softmax(dim=-1) @ v).transpose(1, 2).reshape(B, N, C))

    model = Encoder(256)
    for b in model.blocks:
        b["attn"] = Wrong(256, 4)
        nn.init.xavier_normal_(b["attn"].qkv.weight, gain=2.0)
    return model


@bug(sentences(target="class"), "norm-axis")
def layer_norm_over_tokens():
    class Wrong(nn.LayerNorm):
        def __init__(self):
            super().__init__(24)

        def forward(self, x):
            return super().forward(x.transpose(1, 2)).transpose(1, 2)

    model = Encoder(depth=3)
    model.blocks[1]["n1"] = Wrong()
    return model


@bug(labelled_table(), "symmetric", "zero-gradient", "no-gradient", "vanishing")
def all_weights_zero():
    model = dense(16, 64, 64, 4)
    for p in model.parameters():
        nn.init.zeros_(p)
    return model


@bug(labelled_table(), "symmetric", where="0")
def all_weights_constant():
    model = dense(16, 64, 64, 4)
    for p in model.parameters():
        nn.init.constant_(p, 0.1)
    return model


@bug(pictures(), "exploding", "loss-at-start", "precision")
def unit_normal_weights():
    model = nn.Sequential(nn.Flatten(), dense(3072, 256, 256, 256, 256, 10))
    for m in model.modules():
        if isinstance(m, nn.Linear):
            nn.init.normal_(m.weight)
    return model


@bug(labelled_table(), "dead-units", "zero-gradient", where="0.1")
def bias_of_minus_five():
    model = nn.Sequential(dense(16, 64, 64, 4))
    nn.init.constant_(model[0][0].bias, -5.0)
    return model


class Add(nn.Module):
    def __init__(self, *body):
        super().__init__()
        self.body = nn.Sequential(*body)

    def forward(self, x):
        return x + self.body(x)


@bug(pictures(), "exploding", "loss-at-start", "precision")
def residual_without_norm():
    blocks = [Add(nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1)) for _ in range(24)]
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)
    )
    for m in model.modules():
        if isinstance(m, nn.Conv2d):
            nn.init.kaiming_normal_(m.weight, nonlinearity="relu")
    return model


@bug(lambda n, g: (lambda x, y: (255 * torch.sigmoid(x), y))(*pictures()(n, g)), "input-scale")
def pixels_to_255():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip


@bug(lambda n, g: (lambda x, y: (torch.sigmoid(x) / 255**2, y))(*pictures()(n, g)), "input-scale")
def divided_by_255_twice():
    return nn.Sequential(nn.Flatten(), dense(3072, 64, 10))


def _income(count, generator):
    rows, labels = labelled_table()(count, generator)
    rows[:, 3] = 40000 + 15000 * rows[:, 3]
    return rows, labels


@bug(_income, "input-scale")
def one_column_in_dollars():
    return dense(16, 64, 64, 4)


def _year(count, generator):
    rows, labels = labelled_table()(count, generator)
    rows[:, 3] = 60 + 10 * rows[:, 3]
    return rows, labels


@bug(_year, "input-scale")
def one_column_in_years():
    return dense(16, 64, 64, 4)


@bug(lambda n, g: (lambda x, y: ((x, x.flip(3)), y))(*pictures(16)(n, g)), "no-gradient", where="right")
def detached_branch():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.left, self.right = (nn.Sequential(conv_bn(3, 16), conv_bn(16, 32, stride=2)) for _ in range(2))
            self.head = nn.Linear(64, 10)

        def forward(self, one, two):
            a, b = self.left(one).mean((2, 3)), self.right(two).mean((2, 3)).detach()
            return self.head(torch.cat([a, b], 1))

    return Net()


@bug(labelled_table(), "no-gradient", where="fc2")
def layer_never_called():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1, self.fc2, self.fc3 = nn.Linear(16, 64), nn.Linear(64, 64), nn.Linear(64, 4)

        def forward(self, x):
            return self.fc3(F.relu(self.fc1(x)))

    return Net()


@bug(labelled_table(), "unregistered", "no-gradient")
def layers_in_a_python_list():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.head = nn.Linear(16, 64), nn.Linear(64, 4)
            self.hidden = [nn.Linear(64, 64) for _ in range(3)]

        def forward(self, x):
            x = F.relu(self.first(x))
            for layer in self.hidden:
                x = F.relu(layer(x))
            return self.head(x)

    return Net()


@bug(labelled_table(), "no-gradient", where="2")
def frozen_by_accident():
    model = dense(16, 64, 64, 64, 4)
    model[2].requires_grad_(False)
    return model


@bug(labelled_table(), "no-gradient", "zero-gradient")
def hard_threshold():
    class Binarise(nn.Module):
        def forward(self, x):
            return (x > 0).float()

    return nn.Sequential(nn.Linear(16, 64), Binarise(), nn.Linear(64, 4))
