"""Healthy models of windows, genes, text and series."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evaluation.development_5 import domains
from evaluation.development_5.bugs_of_models import on_tokens
from evaluation.programs import Healthy, Program


def motif_network() -> nn.Module:
    """Return the network of DeepBind: filters, the largest response, a small head (Alipanahi et al. 2015)."""
    return nn.Sequential(
        nn.Conv1d(4, 32, 8), nn.ReLU(), nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(32, 32), nn.ReLU(),
        nn.Dropout(0.3), nn.Linear(32, 3),
    )  # fmt: skip


class DanQ(nn.Module):
    """Convolution, pooling and a bidirectional LSTM on genes (Quang and Xie 2016)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.rnn = nn.Conv1d(4, 24, 7), nn.LSTM(24, 16, bidirectional=True, batch_first=True)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(32 * 8, 32), nn.ReLU(), nn.Linear(32, 3))

    def forward(self, genes: Tensor) -> Tensor:
        """Return scores of three classes."""
        features = F.max_pool1d(F.relu(self.conv(genes)), 4).transpose(1, 2)
        return self.head(self.rnn(F.dropout(features, 0.1, self.training))[0])


class DeepConvLstm(nn.Module):
    """Four convolutions and two LSTM layers for activities (Ordóñez and Roggen 2016)."""

    def __init__(self) -> None:
        super().__init__()
        widths = (6, 24, 24, 24)
        self.convs = nn.ModuleList(nn.Conv1d(a, b, 5) for a, b in pairwise(widths))
        self.rnn, self.head = nn.LSTM(24, 32, num_layers=2, batch_first=True, dropout=0.1), nn.Linear(32, 5)

    def forward(self, window: Tensor) -> Tensor:
        """Return scores of activities."""
        for conv in self.convs:
            window = torch.relu(conv(window))
        return self.head(self.rnn(window.transpose(1, 2))[0][:, -1])


class InceptionBlock(nn.Module):
    """Filters of three lengths and a pooled branch, with batch norm."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv1d(inputs, 8, 1, bias=False)
        self.filters = nn.ModuleList(nn.Conv1d(8, 8, k, padding=k // 2, bias=False) for k in (9, 19, 39))
        self.pooled, self.norm = nn.Conv1d(inputs, 8, 1, bias=False), nn.BatchNorm1d(32)

    def forward(self, x: Tensor) -> Tensor:
        """Return 32 channels."""
        y = self.squeeze(x)
        parts = [conv(y) for conv in self.filters] + [self.pooled(F.max_pool1d(x, 3, 1, 1))]
        return F.relu(self.norm(torch.cat(parts, 1)))


class InceptionTime(nn.Module):
    """Three inception blocks with a residual connection (Fawaz et al. 2020)."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([InceptionBlock(6), InceptionBlock(32), InceptionBlock(32)])
        self.skip = nn.Sequential(nn.Conv1d(6, 32, 1, bias=False), nn.BatchNorm1d(32))
        self.head = nn.Linear(32, 5)

    def forward(self, window: Tensor) -> Tensor:
        """Return scores of activities."""
        x = window
        for block in self.blocks:
            x = block(x)
        return self.head(F.relu(x + self.skip(window)).mean(-1))


class SincFilters(nn.Module):
    """Band-pass filters with learned cut-offs (SincNet, Ravanelli and Bengio 2018)."""

    def __init__(self) -> None:
        super().__init__()
        self.low = nn.Parameter(torch.linspace(0.02, 0.3, 12))
        self.band = nn.Parameter(torch.full((12,), 0.05))
        self.register_buffer("time", torch.arange(-12, 13).float())
        self.register_buffer("window", torch.hamming_window(25, periodic=False))
        self.head = nn.Sequential(nn.BatchNorm1d(12), nn.LeakyReLU(0.2), nn.Conv1d(12, 24, 5), nn.LeakyReLU(0.2))
        self.out = nn.Linear(24, 5)

    def forward(self, window: Tensor) -> Tensor:
        """Return scores of activities."""
        low, high = self.low.abs()[:, None], (self.low.abs() + self.band.abs())[:, None]
        filters = 2 * high * torch.sinc(2 * high * self.time) - 2 * low * torch.sinc(2 * low * self.time)
        x = F.conv1d(window[:, :1], (filters * self.window)[:, None], padding=12)
        return self.out(self.head(x).square().mean(-1))


class FastText(nn.Module):
    """A mean of word vectors and a linear layer (Joulin et al. 2016)."""

    def __init__(self) -> None:
        super().__init__()
        self.bag, self.out = nn.EmbeddingBag(50, 16, mode="mean", padding_idx=0), nn.Linear(16, 2)
        self.bag.weight.data.uniform_(-1 / 16, 1 / 16)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return scores of two classes."""
        return self.out(self.bag(tokens))


class AveragingNetwork(nn.Module):
    """A deep averaging network (Iyyer et al. 2015)."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 32, padding_idx=0)
        self.body = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 2))

    def forward(self, tokens: Tensor) -> Tensor:
        """Return scores of two classes."""
        mask = (tokens > 0).unsqueeze(-1).float()
        return self.body((self.embed(tokens) * mask).sum(1) / mask.sum(1))


class AttentiveGru(nn.Module):
    """A bidirectional GRU with a learned context vector (Yang et al. 2016)."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.rnn = nn.Embedding(50, 24, padding_idx=0), nn.GRU(24, 24, bidirectional=True, batch_first=True)
        self.project, self.context = nn.Linear(48, 48), nn.Parameter(0.1 * torch.randn(48))
        self.out = nn.Linear(48, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return scores of two classes."""
        states, _ = self.rnn(self.embed(tokens))
        score = torch.tanh(self.project(states)) @ self.context
        weight = score.masked_fill(tokens == 0, -1e9).softmax(1)
        return self.out((weight[..., None] * states).sum(1))


class GatedConvolutions(nn.Module):
    """A language model of causal gated convolutions (Dauphin et al. 2017)."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.out = nn.Embedding(24, 32), nn.Linear(32, 24)
        self.convs = nn.ModuleList(nn.utils.parametrizations.weight_norm(nn.Conv1d(32, 64, 3)) for _ in range(3))

    def forward(self, tokens: Tensor) -> Tensor:
        """Return scores of the next tokens."""
        x = self.embed(tokens).transpose(1, 2)
        for conv in self.convs:
            x = x + F.glu(conv(F.pad(x, (2, 0))), dim=1)
        return self.out(x.transpose(1, 2))


class QuasiRecurrent(nn.Module):
    """Convolutional gates and an elementwise recurrence (Bradbury et al. 2017)."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.out = nn.Embedding(24, 32), nn.Linear(32, 24)
        self.gates = nn.ModuleList(nn.Conv1d(32, 96, 2) for _ in range(2))

    def forward(self, tokens: Tensor) -> Tensor:
        """Return scores of the next tokens."""
        x = self.embed(tokens).transpose(1, 2)
        for gates in self.gates:
            z, f, o = gates(F.pad(x, (1, 0))).chunk(3, 1)
            z, f, o = z.tanh(), f.sigmoid(), o.sigmoid()
            state, states = torch.zeros_like(z[..., 0]), []
            for time in range(z.shape[-1]):
                state = f[..., time] * state + (1 - f[..., time]) * z[..., time]
                states.append(o[..., time] * state)
            x = torch.stack(states, -1)
        return self.out(x.transpose(1, 2))


class IndependentRecurrence(nn.Module):
    """A recurrence with one weight for each unit and ReLU (IndRNN, Li et al. 2018)."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs = nn.ModuleList([nn.Linear(1, 48), nn.Linear(48, 48)])
        self.recurrent = nn.ParameterList([nn.Parameter(torch.rand(48)) for _ in range(2)])
        self.norms = nn.ModuleList([nn.LayerNorm(48), nn.LayerNorm(48)])
        self.out = nn.Linear(48, 6)

    def forward(self, series: Tensor) -> Tensor:
        """Return the next six values."""
        x = series.unsqueeze(-1)
        for layer, weight, norm in zip(self.inputs, self.recurrent, self.norms, strict=True):
            drive, state, states = layer(x), torch.zeros(len(series), 48), []
            for time in range(x.shape[1]):
                state = F.relu(drive[:, time] + weight * state)
                states.append(state)
            x = norm(torch.stack(states, 1))
        return self.out(x[:, -1])


class LinearAttention(nn.Module):
    """Attention with the feature map elu + 1, causal by cumulative sums (Katharopoulos et al. 2020)."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.position = nn.Embedding(24, 32), nn.Embedding(20, 32)
        self.qkv = nn.ModuleList(nn.Linear(32, 96) for _ in range(2))
        self.mlps = nn.ModuleList(nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32)) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(32) for _ in range(5))
        self.out = nn.Linear(32, 24)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return scores of the next tokens."""
        x = self.embed(tokens) + self.position(torch.arange(tokens.shape[1]))
        for i in range(2):
            q, k, v = self.qkv[i](self.norms[2 * i](x)).chunk(3, -1)
            q, k = F.elu(q) + 1, F.elu(k) + 1
            memory = torch.einsum("ntd,nte->ntde", k, v).cumsum(1)
            weight = torch.einsum("ntd,ntd->nt", q, k.cumsum(1))
            x = x + torch.einsum("ntd,ntde->nte", q, memory) / weight[..., None]
            x = x + self.mlps[i](self.norms[2 * i + 1](x))
        return self.out(self.norms[4](x))


class SpatialGating(nn.Module):
    """A gated perceptron over positions (gMLP, Liu et al. 2021)."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 32)
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    "norm": nn.LayerNorm(32),
                    "up": nn.Linear(32, 96),
                    "gate_norm": nn.LayerNorm(48),
                    "mix": nn.Conv1d(20, 20, 1),
                    "down": nn.Linear(48, 32),
                }
            )
            for _ in range(2)
        )
        for block in self.blocks:
            nn.init.normal_(block["mix"].weight, std=1e-3)
            nn.init.ones_(block["mix"].bias)
        self.out = nn.Linear(32, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return scores of two classes."""
        x = self.embed(tokens)
        for block in self.blocks:
            u, v = F.gelu(block["up"](block["norm"](x))).chunk(2, -1)
            x = x + block["down"](u * block["mix"](block["gate_norm"](v)))
        return self.out(x.mean(1))


class MemoryNetwork(nn.Module):
    """Two hops over a memory of words (Sukhbaatar et al. 2015)."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(50, 24) for _ in range(3))
        for table in self.tables:
            nn.init.normal_(table.weight, std=0.1)
        self.query, self.out = nn.Parameter(0.1 * torch.randn(24)), nn.Linear(24, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return scores of two classes."""
        state = self.query.expand(len(tokens), -1)
        for hop in range(2):
            keys, values = self.tables[hop](tokens), self.tables[hop + 1](tokens)
            weight = torch.softmax(torch.einsum("nd,ntd->nt", state, keys), 1)
            state = state + torch.einsum("nt,ntd->nd", weight, values)
        return self.out(state)


class PointerNetwork(nn.Module):
    """An LSTM that points to one of its inputs (Vinyals et al. 2015): to the largest value."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.start = nn.LSTM(1, 24, batch_first=True), nn.Parameter(torch.zeros(24))
        self.keys, self.query, self.score = nn.Linear(24, 24), nn.Linear(24, 24), nn.Linear(24, 1)

    def forward(self, values: Tensor) -> Tensor:
        """Return scores of positions."""
        states, (last, _) = self.encoder(values)
        query = self.query(last[-1] + self.start)
        return self.score(torch.tanh(self.keys(states) + query[:, None])).squeeze(-1)


def largest(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return eight values and the position of the largest."""
    values = torch.randn(count, 8, 1, generator=generator)
    return values, values[..., 0].argmax(1)


class Hierarchical(nn.Module):
    """Blocks that forecast at several resolutions and subtract what they explain (N-HiTS, Challu et al. 2023)."""

    def __init__(self) -> None:
        super().__init__()
        self.pools = (1, 2, 5)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Linear(30 // pool, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 30 + 6 // size)
            )
            for pool, size in zip(self.pools, (1, 2, 3), strict=True)
        )

    def forward(self, series: Tensor) -> Tensor:
        """Return the next six values."""
        rest, total = series, torch.zeros(len(series), 6)
        for pool, block in zip(self.pools, self.blocks, strict=True):
            pooled = F.max_pool1d(rest[:, None], pool)[:, 0]
            result = block(pooled)
            rest = rest - result[:, :30]
            total = total + F.interpolate(result[:, None, 30:], 6, mode="linear")[:, 0]
        return total


class SequenceToForecast(nn.Module):
    """An encoder and an autoregressive decoder of GRU cells."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.cell, self.out = nn.GRU(1, 32, batch_first=True), nn.GRUCell(1, 32), nn.Linear(32, 1)

    def forward(self, series: Tensor) -> Tensor:
        """Return the next six values."""
        state = self.encoder(series[..., None])[1][0]
        value, values = series[:, -1:], []
        for _ in range(6):
            state = self.cell(value, state)
            value = value + self.out(state)
            values.append(value)
        return torch.cat(values, 1)


def plain_windows() -> nn.Module:
    """Return a fully convolutional network of windows (Wang et al. 2017)."""
    parts: list[nn.Module] = []
    for inputs, outputs, size in ((6, 32, 7), (32, 48, 5), (48, 32, 3)):
        parts += [nn.Conv1d(inputs, outputs, size, padding="same"), nn.BatchNorm1d(outputs), nn.ReLU()]
    return nn.Sequential(*parts, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(32, 5))


WINDOWS, TEXT, REVIEWS = domains.sensors(), domains.periodic_text(), domains.reviews()
HEALTHY = (
    Healthy("motif_network", Program(motif_network, domains.genes(), lr=3e-3)),
    Healthy("genes_danq", Program(DanQ, domains.genes(), lr=5e-3)),
    Healthy("deep_conv_lstm", Program(DeepConvLstm, WINDOWS, lr=3e-3)),
    Healthy("inception_time", Program(InceptionTime, WINDOWS)),
    Healthy("sinc_filters", Program(SincFilters, WINDOWS, lr=3e-3)),
    Healthy("plain_windows", Program(plain_windows, WINDOWS)),
    Healthy("fast_text", Program(FastText, REVIEWS, lr=0.02)),
    Healthy("averaging_network", Program(AveragingNetwork, REVIEWS, lr=3e-3)),
    Healthy("attentive_gru", Program(AttentiveGru, REVIEWS, lr=3e-3)),
    Healthy("gated_convolutions", Program(GatedConvolutions, TEXT, on_tokens, lr=3e-3)),
    Healthy("quasi_recurrent", Program(QuasiRecurrent, TEXT, on_tokens, lr=5e-3)),
    Healthy("independent_recurrence", Program(IndependentRecurrence, domains.demand, F.mse_loss)),
    Healthy("linear_attention", Program(LinearAttention, TEXT, on_tokens, lr=3e-3)),
    Healthy("spatial_gating", Program(SpatialGating, REVIEWS, lr=2e-3)),
    Healthy("memory_network", Program(MemoryNetwork, REVIEWS, lr=5e-3)),
    Healthy("pointer_network", Program(PointerNetwork, largest, lr=5e-3)),
    Healthy("hierarchical_forecast", Program(Hierarchical, domains.demand, F.l1_loss)),
    Healthy("autoregressive_forecast", Program(SequenceToForecast, domains.demand, F.mse_loss, lr=3e-3)),
)  # fmt: skip
