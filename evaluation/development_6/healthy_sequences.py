"""Healthy models of texts, tags, melodies, waves and series."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evaluation.development_6 import domains
from evaluation.programs import Healthy, Program

ADAMW = partial(torch.optim.AdamW, weight_decay=0.05)


def next_token(scores: Tensor, labels: Tensor) -> Tensor:
    """Return the cross-entropy of scores ``[count, length, classes]``."""
    return F.cross_entropy(scores.flatten(0, 1), labels.flatten())


class PackedLSTM(nn.Module):
    """A bidirectional LSTM of padded texts, packed by their lengths, with a mean over real words."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(40, 24, padding_idx=0)
        self.memory = nn.LSTM(24, 24, batch_first=True, bidirectional=True)
        self.head = nn.Linear(48, 2)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embed(ids), mask.sum(1).cpu(), batch_first=True, enforce_sorted=False
        )
        states, _ = nn.utils.rnn.pad_packed_sequence(
            self.memory(packed)[0], batch_first=True, total_length=ids.shape[1]
        )
        return self.head((states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True))


class MaskedEncoder(nn.Module):
    """A transformer encoder of padded texts; the mean is over real words."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.embed = nn.Embedding(40, width, padding_idx=0)
        self.position = nn.Parameter(0.02 * torch.randn(20, width))
        layer = nn.TransformerEncoderLayer(width, 4, 64, 0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 2)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        states = self.encoder(self.embed(ids) + self.position, src_key_padding_mask=~mask)
        states = states.masked_fill(~mask[..., None], 0)
        return self.head(states.sum(1) / mask.sum(1, keepdim=True))


class TextCNN(nn.Module):
    """Convolutions of three widths and a mean over time (after Kim 2014)."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(40, 32, padding_idx=0)
        self.filters = nn.ModuleList(nn.Conv1d(32, 32, width, padding=width // 2) for width in (1, 2, 3))
        self.head = nn.Sequential(nn.Dropout(0.3), nn.Linear(96, 2))

    def forward(self, ids: Tensor) -> Tensor:
        words = self.embed(ids).transpose(1, 2)
        return self.head(torch.cat([F.relu(convolution(words)).mean(2) for convolution in self.filters], 1))


class TiedDecoder(nn.Module):
    """A decoder with RMS normalization, gated feed-forward layers, rotary positions and a tied output."""

    def __init__(self, width: int = 48, depth: int = 2, words: int = 24) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        nn.init.normal_(self.embed.weight, std=0.05)
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width, bias=False) for _ in range(depth))
        self.out = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(depth))
        self.gate = nn.ModuleList(nn.Linear(width, 4 * width, bias=False) for _ in range(depth))
        self.down = nn.ModuleList(nn.Linear(2 * width, width, bias=False) for _ in range(depth))
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(2 * depth + 1))
        for layer in (*self.out, *self.down):
            nn.init.normal_(layer.weight, std=0.1 / math.sqrt(2 * depth))

    @staticmethod
    def rotate(values: Tensor) -> Tensor:
        half = values.shape[-1] // 2
        angle = torch.arange(values.shape[-2])[:, None] * 100.0 ** (-torch.arange(half) / half)
        even, odd = values[..., :half], values[..., half:]
        return torch.cat([even * angle.cos() - odd * angle.sin(), even * angle.sin() + odd * angle.cos()], -1)

    def forward(self, ids: Tensor) -> Tensor:
        tokens = self.embed(ids)
        for index in range(len(self.qkv)):
            heads = self.qkv[index](self.norms[2 * index](tokens)).unflatten(2, (3, 4, -1)).permute(2, 0, 3, 1, 4)
            query, key, value = heads.unbind()
            mixed = F.scaled_dot_product_attention(self.rotate(query), self.rotate(key), value, is_causal=True)
            tokens = tokens + self.out[index](mixed.transpose(1, 2).flatten(2))
            gate, up = self.gate[index](self.norms[2 * index + 1](tokens)).chunk(2, -1)
            tokens = tokens + self.down[index](F.silu(gate) * up)
        return self.norms[-1](tokens) @ self.embed.weight.T


class Translator(nn.Module):
    """A GRU encoder and a decoder with additive attention that reads its queries from learned positions."""

    def __init__(self, width: int = 40) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, width)
        self.encoder = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.queries = nn.Parameter(0.3 * torch.randn(6, width))
        self.cell = nn.GRUCell(3 * width, width)
        self.to_key, self.to_query = nn.Linear(2 * width, width), nn.Linear(2 * width, width, bias=False)
        self.energy = nn.Linear(width, 1, bias=False)
        self.head = nn.Linear(3 * width, 10)

    def forward(self, ids: Tensor) -> Tensor:
        memory, last = self.encoder(self.embed(ids))
        keys, state, scores = self.to_key(memory), last[0], []
        for query in self.queries:
            asked = self.to_query(torch.cat([state, query.expand_as(state)], 1))
            share = self.energy(torch.tanh(keys + asked[:, None])).softmax(1)
            context = (share * memory).sum(1)
            state = self.cell(torch.cat([context, query.expand_as(state)], 1), state)
            scores.append(self.head(torch.cat([state, context], 1)))
        return torch.stack(scores, 1)


class Tagger(nn.Module):
    """A bidirectional GRU that tags every word."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(30, 24)
        self.memory = nn.GRU(24, 24, num_layers=2, batch_first=True, bidirectional=True, dropout=0.1)
        self.head = nn.Linear(48, 4)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.memory(self.embed(ids))[0])


class WaveNet(nn.Module):
    """Gated dilated causal convolutions with skip connections on a raw wave."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.stem = nn.Conv1d(1, width, 4, stride=4)
        self.rates = (1, 2, 4, 8)
        self.gates = nn.ModuleList(nn.Conv1d(width, 2 * width, 2, dilation=rate) for rate in self.rates)
        self.mixes = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in self.rates)
        self.head = nn.Sequential(nn.ReLU(), nn.Conv1d(width, width, 1), nn.ReLU())
        self.classify = nn.Linear(2 * width, 4)

    def forward(self, waves: Tensor) -> Tensor:
        maps = self.stem(waves)
        total = torch.zeros_like(maps)
        for rate, gate, mix in zip(self.rates, self.gates, self.mixes):
            signal, share = gate(F.pad(maps, (rate, 0))).chunk(2, 1)
            inner = mix(torch.tanh(signal) * torch.sigmoid(share))
            maps, total = maps + inner, total + inner
        maps = self.head(total)
        half = maps.shape[2] // 2
        return self.classify(torch.cat([maps[:, :, :half].mean(2), maps[:, :, half:].mean(2)], 1))


class Spectrogram(nn.Module):
    """A fixed short-time Fourier transform and convolutions of its log power."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(32))
        self.body = nn.Sequential(
            *(nn.BatchNorm2d(1), nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d((2, 4)), nn.Flatten()),
            nn.Linear(256, 4),
        )

    def forward(self, waves: Tensor) -> Tensor:
        spectrum = torch.stft(waves[:, 0], 32, 16, window=self.window, return_complex=True)
        return self.body(torch.log(spectrum.abs().square() + 1e-3)[:, None])


class StateSpace(nn.Module):
    """Diagonal complex state spaces computed as a long convolution (S4D)."""

    def __init__(self, width: int = 24, states: int = 8) -> None:
        super().__init__()
        self.enter = nn.Linear(5, width)
        self.decay = nn.Parameter(torch.log(0.5 * torch.ones(width, states)))
        self.register_buffer("pitch", math.pi * torch.arange(states).float())
        self.step = nn.Parameter(torch.log(torch.empty(width, 1).uniform_(0.02, 0.3)))
        self.weight = nn.Parameter(torch.randn(width, states, 2) * 0.5)
        self.skip = nn.Parameter(torch.ones(width))
        self.mix = nn.Linear(width, 2 * width)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 4)

    def forward(self, values: Tensor) -> Tensor:
        signal = self.enter(values)
        length = signal.shape[1]
        rate = torch.complex(-self.decay.exp(), self.pitch.expand_as(self.decay)) * self.step.exp()
        powers = torch.exp(rate[..., None] * torch.arange(length))
        kernel = 2 * torch.einsum("wn,wnl->wl", torch.view_as_complex(self.weight), powers).real
        spectrum = torch.fft.rfft(signal, 2 * length, dim=1) * torch.fft.rfft(kernel.T, 2 * length, dim=0)
        mixed = torch.fft.irfft(spectrum, 2 * length, dim=1)[:, :length] + self.skip * signal
        gated = F.glu(self.mix(F.gelu(mixed)), -1)
        return self.head((self.norm(signal + gated) * gated).mean(1))


class Forecaster(nn.Module):
    """An LSTM of past values whose last state predicts all next values, after removing the level of the window."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = nn.LSTM(1, 40, batch_first=True)
        self.head = nn.Linear(40, 6)

    def forward(self, past: Tensor) -> Tensor:
        level = past.mean(1, keepdim=True)
        _, (state, _) = self.memory(past - level)
        return self.head(state[-1])[..., None] + level


class Decomposed(nn.Module):
    """Linear forecasts of the moving average and of the rest; no activation on purpose (DLinear)."""

    def __init__(self) -> None:
        super().__init__()
        self.average = nn.AvgPool1d(7, 1, 3, count_include_pad=False)
        self.trend, self.season = nn.Linear(24, 6), nn.Linear(24, 6)

    def forward(self, past: Tensor) -> Tensor:
        values = past.transpose(1, 2)
        trend = self.average(values)
        return (self.trend(trend) + self.season(values - trend)).transpose(1, 2)


class NBeats(nn.Module):
    """Blocks that explain a part of the past and forecast from it; the rest goes to the next block."""

    def __init__(self, blocks: int = 3, width: int = 48) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(24, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 30))
            for _ in range(blocks)
        )

    def forward(self, past: Tensor) -> Tensor:
        rest, ahead = past[..., 0], 0
        for block in self.blocks:
            explained, forecast = block(rest).split([24, 6], 1)
            rest, ahead = rest - explained, ahead + forecast
        return ahead[..., None]


class Quantiles(nn.Module):
    """Three quantiles of each next value, in order by construction."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(24, 48), nn.SiLU(), nn.Linear(48, 18))

    def forward(self, past: Tensor) -> Tensor:
        low, middle, high = self.body(past).view(-1, 6, 3).unbind(2)
        return torch.stack([middle - F.softplus(low), middle, middle + F.softplus(high)], 2)


def pinball(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the quantile loss at 0.1, 0.5 and 0.9."""
    levels = torch.tensor([0.1, 0.5, 0.9])
    rest = targets - outputs
    return torch.maximum(levels * rest, (levels - 1) * rest).mean()


class IdentityRNN(nn.Module):
    """A plain RNN with ReLU whose recurrent weights begin as the identity (Le et al. 2015)."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.memory = nn.RNN(2, width, nonlinearity="relu", batch_first=True)
        with torch.no_grad():
            self.memory.weight_hh_l0.copy_(torch.eye(width))
            self.memory.weight_ih_l0.normal_(std=0.3)
            self.memory.bias_hh_l0.zero_()
            self.memory.bias_ih_l0.zero_()
        self.head = nn.Linear(width, 1)

    def forward(self, values: Tensor) -> Tensor:
        return self.head(self.memory(values)[0][:, -1])


class EchoState(nn.Module):
    """A fixed random reservoir of spectral radius 0.9 and a trained readout (Jaeger 2001)."""

    def __init__(self, width: int = 100) -> None:
        super().__init__()
        weight = torch.randn(width, width) / math.sqrt(width)
        self.register_buffer("recurrent", 0.9 * weight / torch.linalg.eigvals(weight).abs().max())
        self.register_buffer("enter", 0.5 * torch.randn(1, width))
        self.readout = nn.Linear(width, 6)

    def forward(self, past: Tensor) -> Tensor:
        state = past.new_zeros(len(past), self.recurrent.shape[0])
        for value in past.unbind(1):
            state = torch.tanh(value @ self.enter + state @ self.recurrent)
        return self.readout(state)[..., None]


class Temporal(nn.Module):
    """Weight-normalized causal convolutions with residual connections (TCN)."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        norm = nn.utils.parametrizations.weight_norm
        self.enter = nn.Conv1d(5, width, 1)
        self.layers = nn.ModuleList(norm(nn.Conv1d(width, width, 3, dilation=rate)) for rate in (1, 2, 4))
        self.head = nn.Linear(width, 4)

    def forward(self, values: Tensor) -> Tensor:
        maps = self.enter(values.transpose(1, 2))
        for index, layer in enumerate(self.layers):
            maps = maps + F.dropout(F.relu(layer(F.pad(maps, (2 * 2**index, 0)))), 0.05, self.training)
        return self.head(maps.square().mean(2))


class Recognizer(nn.Module):
    """Frames to symbols without an alignment, trained by CTC."""

    def __init__(self) -> None:
        super().__init__()
        self.frames = nn.Sequential(nn.Conv1d(4, 32, 5, padding=2), nn.BatchNorm1d(32), nn.ReLU())
        self.memory = nn.GRU(32, 24, batch_first=True, bidirectional=True)
        self.head = nn.Linear(48, 6)

    def forward(self, frames: Tensor) -> Tensor:
        states = self.memory(self.frames(frames).transpose(1, 2))[0]
        return self.head(states).log_softmax(2)


def spoken(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return frames ``[count, 4, 24]`` in which 4 symbols of 5 follow each other, and the symbols."""
    symbols = torch.randint(1, 6, (count, 4), generator=generator)
    frames = domains.fixed_normal(6, 4, seed=55)[symbols.repeat_interleave(6, 1)]
    frames = frames * (torch.arange(24) % 6 < 4)[None, :, None]
    return (frames + 0.3 * torch.randn(count, 24, 4, generator=generator)).transpose(1, 2), symbols


def ctc(scores: Tensor, symbols: Tensor) -> Tensor:
    lengths = torch.full((len(scores),), scores.shape[1])
    return F.ctc_loss(scores.transpose(0, 1), symbols, lengths, torch.full((len(scores),), 4), zero_infinity=True)


def _healthy(
    name: str, build: Any, data: Any, loss: Any = F.cross_entropy, source: str = "", **options: Any
) -> Healthy:
    return Healthy(name, Program(build, data, loss, **{"steps": 150, "lr": 3e-3} | options), source)


HEALTHY = (
    _healthy("packed_lstm", PackedLSTM, domains.opinions),
    _healthy("padded_encoder", MaskedEncoder, domains.opinions, source="nn.TransformerEncoder", lr=2e-3, steps=250),
    _healthy("text_cnn", TextCNN, domains.opinion_ids, source="Kim 2014"),
    _healthy("tied_rotary_decoder", TiedDecoder, domains.melody, next_token, "LLaMA", optimizer=ADAMW),
    _healthy(
        "attention_translator", Translator, domains.reversed_tokens, next_token, "Bahdanau et al. 2015", steps=200
    ),
    _healthy("gru_tagger", Tagger, domains.tags, next_token),
    _healthy("wavenet_chirps", WaveNet, domains.chirps(), source="WaveNet", steps=200),
    _healthy("spectrogram_chirps", Spectrogram, domains.chirps()),
    _healthy("diagonal_state_space", StateSpace, domains.readings, source="S4D", lr=5e-3, steps=250),
    _healthy("lstm_forecast", Forecaster, domains.demand(), F.mse_loss),
    _healthy("linear_decomposition", Decomposed, domains.demand(series=3), F.mse_loss, "DLinear", lr=1e-2),
    _healthy("nbeats", NBeats, domains.demand(), F.l1_loss, "N-BEATS"),
    _healthy("ordered_quantiles", Quantiles, domains.demand(), pinball),
    _healthy("identity_rnn", IdentityRNN, domains.running_sum, F.mse_loss, "Le et al. 2015", lr=1e-3, steps=300),
    _healthy("echo_state", EchoState, domains.demand(), F.mse_loss, "Jaeger 2001", lr=1e-2),
    _healthy("weight_normed_tcn", Temporal, domains.readings, source="TCN", steps=250),
    _healthy("ctc_symbols", Recognizer, spoken, ctc, "DeepSpeech", lr=5e-3, steps=200),
)
