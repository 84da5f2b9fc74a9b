"""Series, speech and states over time."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from evaluation.declared import network
from evaluation.development_1.data import sentences, waves
from evaluation.development_1.sequences import per_token


def _last(count, generator):
    x, y = waves(48, 4)(count, generator)
    return (x + (y[:, None, None] - 1.5) / 2).transpose(1, 2), y


def _ahead(count, generator):
    x, _ = waves(60, 3)(count, generator)
    x = x.transpose(1, 2)
    return x[:, :48], x[:, 48:]


@network(waves(400, 1), rate=2e-3)
def wav2vec_stem_and_context() -> nn.Module:
    class Wav2Vec(nn.Module):
        def __init__(self, d=48):
            super().__init__()
            self.feature_extractor, i = nn.ModuleList(), 1
            for n, (o, k, s) in enumerate(((d, 10, 5), (d, 3, 2), (d, 3, 2))):
                conv = nn.Conv1d(i, o, k, stride=s, bias=False)
                nn.init.kaiming_normal_(conv.weight)
                self.feature_extractor.append(
                    nn.Sequential(conv, nn.GroupNorm(o, o) if n == 0 else nn.Identity(), nn.GELU())
                )
                i = o
            self.layer_norm, self.post_extract_proj = nn.LayerNorm(d), nn.Linear(d, d)
            self.pos_conv = nn.utils.parametrizations.weight_norm(nn.Conv1d(d, d, 8, padding=4, groups=8), dim=2)
            layer = nn.TransformerEncoderLayer(d, 4, 2 * d, activation="gelu", batch_first=True)
            self.encoder, self.final = (
                nn.ModuleList([layer, nn.TransformerEncoderLayer(d, 4, 2 * d, batch_first=True)]),
                nn.Linear(d, 4),
            )

        def forward(self, x):
            for block in self.feature_extractor:
                x = block(x)
            x = self.post_extract_proj(self.layer_norm(x.transpose(1, 2)))
            x = x + F.gelu(self.pos_conv(x.transpose(1, 2))[..., : x.shape[1]]).transpose(1, 2)
            for layer in self.encoder:
                x = layer(x)
            return self.final(x.mean(1))

    return Wav2Vec()


def _spoken(count, generator):
    x, y = waves(400, 1)(count, generator)
    return x.squeeze(1), y


@network(_spoken, rate=2e-3)
def whisper_with_spectrogram_in_the_call() -> nn.Module:
    class Whisper(nn.Module):
        def __init__(self, d=48):
            super().__init__()
            self.register_buffer("window", torch.hann_window(40))
            self.conv1, self.conv2 = nn.Conv1d(21, d, 3, padding=1), nn.Conv1d(d, d, 3, stride=2, padding=1)
            t = torch.arange(16)[:, None] * torch.exp(-math.log(10000) / (d // 2 - 1) * torch.arange(d // 2))
            self.register_buffer("positional_embedding", torch.cat([t.sin(), t.cos()], 1))
            self.blocks = nn.ModuleList(
                nn.TransformerEncoderLayer(
                    d, 4, 4 * d, activation="gelu", norm_first=True, batch_first=True, dropout=0.0
                )
                for _ in range(2)
            )
            self.ln_post, self.head = nn.LayerNorm(d), nn.Linear(d, 4)

        def forward(self, audio):
            stft = torch.stft(audio, 40, 20, window=self.window, return_complex=True)
            spec = torch.clamp(stft[..., :-1].abs() ** 2, min=1e-10).log10()
            spec = (torch.maximum(spec, spec.amax((1, 2), keepdim=True) - 8.0) + 4.0) / 4.0
            x = F.gelu(self.conv2(F.gelu(self.conv1(spec)))).permute(0, 2, 1)
            x = x + self.positional_embedding[: x.shape[1]]
            for block in self.blocks:
                x = block(x)
            return self.head(self.ln_post(x).mean(1))

    return Whisper()


@network(_last, rate=3e-3)
def temporal_blocks_with_chomp() -> nn.Module:
    class Chomp(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.size = size

        def forward(self, x):
            return x[:, :, : -self.size].contiguous()

    class TemporalBlock(nn.Module):
        def __init__(self, i, o, k, dilation):
            super().__init__()
            p = (k - 1) * dilation
            self.conv1, self.conv2 = (nn.Conv1d(a, o, k, padding=p, dilation=dilation) for a in (i, o))
            self.net = nn.Sequential(
                self.conv1, Chomp(p), nn.ReLU(), nn.Dropout(0.2), self.conv2, Chomp(p), nn.ReLU(), nn.Dropout(0.2)
            )
            self.downsample = nn.Conv1d(i, o, 1) if i != o else None
            for conv in (self.conv1, self.conv2, self.downsample):
                if conv is not None:
                    conv.weight.data.normal_(0, 0.01)

        def forward(self, x):
            res = x if self.downsample is None else self.downsample(x)
            return F.relu(self.net(x) + res)

    class TCN(nn.Module):
        def __init__(self):
            super().__init__()
            self.tcn = nn.Sequential(*[TemporalBlock(4 if i == 0 else 32, 32, 5, 2**i) for i in range(4)])
            self.linear = nn.Linear(32, 4)

        def forward(self, inputs):
            return self.linear(self.tcn(inputs.transpose(1, 2))[:, :, -1])

    return TCN()


def _padded(count, generator):
    text, _ = sentences()(count, generator)
    lengths = torch.randint(8, 25, (count,), generator=generator)
    text = text.masked_fill(torch.arange(24)[None] >= lengths[:, None], 0)
    return {"text": text, "lengths": lengths}, ((text > 20).sum(1) / lengths * 10).long().clamp(2, 8) - 2


@network(_padded, rate=5e-3)
def packed_lstm_of_sentiment() -> nn.Module:
    class Sentiment(nn.Module):
        def __init__(self, d=32, h=48):
            super().__init__()
            self.embedding, self.rnn = (
                nn.Embedding(64, d, padding_idx=0),
                nn.LSTM(d, h, num_layers=2, bidirectional=True, dropout=0.3),
            )
            self.fc, self.dropout = nn.Linear(2 * h, 7), nn.Dropout(0.3)
            for name, p in self.rnn.named_parameters():
                if "weight_hh" in name:
                    nn.init.orthogonal_(p)
                elif "bias" in name:
                    p.data.zero_()
                    n = p.size(0)
                    p.data[n // 4 : n // 2].fill_(0.5)

        def forward(self, text, lengths):
            embedded = self.dropout(self.embedding(text.t()))
            packed = pack_padded_sequence(embedded, lengths.cpu(), enforce_sorted=False)
            output, (hidden, _) = self.rnn(packed)
            pad_packed_sequence(output)
            return self.fc(self.dropout(torch.cat((hidden[-2], hidden[-1]), 1)))

    return Sentiment()


def _to_reverse(count, generator):
    text, _ = sentences(10)(count, generator)
    target = text.flip(1)
    return {"src": text, "trg": torch.cat([torch.zeros_like(target[:, :1]), target[:, :-1]], 1)}, target


@network(_to_reverse, loss=per_token, rate=5e-3)
def gru_seq2seq_with_bahdanau() -> nn.Module:
    class Bahdanau(nn.Module):
        def __init__(self, h):
            super().__init__()
            self.Wa, self.Ua, self.Va = nn.Linear(h, h), nn.Linear(2 * h, h), nn.Linear(h, 1)

        def forward(self, query, keys):
            scores = self.Va(torch.tanh(self.Wa(query).unsqueeze(1) + self.Ua(keys))).squeeze(2)
            weights = F.softmax(scores, dim=-1)
            return torch.bmm(weights.unsqueeze(1), keys).squeeze(1), weights

    class Seq2Seq(nn.Module):
        def __init__(self, h=48):
            super().__init__()
            self.src_emb, self.trg_emb = nn.Embedding(64, 32), nn.Embedding(64, 32)
            self.encoder, self.bridge = nn.GRU(32, h, batch_first=True, bidirectional=True), nn.Linear(2 * h, h)
            self.attention, self.cell, self.out = Bahdanau(h), nn.GRUCell(32 + 2 * h, h), nn.Linear(3 * h + 32, 64)

        def forward(self, src, trg):
            keys, last = self.encoder(self.src_emb(src))
            state = torch.tanh(self.bridge(torch.cat([last[0], last[1]], 1)))
            outputs = []
            for t in range(trg.shape[1]):
                word = self.trg_emb(trg[:, t])
                context, _ = self.attention(state, keys)
                state = self.cell(torch.cat([word, context], 1), state)
                outputs.append(self.out(torch.cat([state, context, word], 1)))
            return torch.stack(outputs, 1)

    return Seq2Seq()


@network(_ahead, loss=F.mse_loss, rate=3e-3)
def dlinear_of_trend_and_season() -> nn.Module:
    class DLinear(nn.Module):
        def __init__(self, seq=48, pred=12, channels=3):
            super().__init__()
            self.trend = nn.ModuleList(nn.Linear(seq, pred) for _ in range(channels))
            self.season = nn.ModuleList(nn.Linear(seq, pred) for _ in range(channels))
            for m in (*self.trend, *self.season):
                m.weight = nn.Parameter((1 / seq) * torch.ones(pred, seq))

        def forward(self, x):
            padded = torch.cat([x[:, :1].repeat(1, 4, 1), x, x[:, -1:].repeat(1, 4, 1)], 1)
            mean = F.avg_pool1d(padded.transpose(1, 2), 9, 1)
            rest = x.transpose(1, 2) - mean
            out = [t(mean[:, i]) + s(rest[:, i]) for i, (t, s) in enumerate(zip(self.trend, self.season, strict=True))]
            return torch.stack(out, 2)

    return DLinear()


@network(_ahead, loss=F.mse_loss, rate=2e-3)
def informer_like_forecast() -> nn.Module:
    class DataEmbedding(nn.Module):
        def __init__(self, c, d):
            super().__init__()
            self.token = nn.Conv1d(c, d, 3, padding=1, padding_mode="circular", bias=False)
            nn.init.kaiming_normal_(self.token.weight, mode="fan_in", nonlinearity="leaky_relu")
            place = torch.arange(60)[:, None] * torch.exp(torch.arange(0, d, 2) * -(math.log(10000.0) / d))
            self.register_buffer("pe", torch.stack([place.sin(), place.cos()], 2).flatten(1))

        def forward(self, x):
            return self.token(x.permute(0, 2, 1)).transpose(1, 2) + self.pe[: x.size(1)]

    class Informer(nn.Module):
        def __init__(self, d=48):
            super().__init__()
            self.enc, self.dec = DataEmbedding(3, d), DataEmbedding(3, d)
            self.transformer = nn.Transformer(d, 4, 1, 1, 96, dropout=0.05, batch_first=True)
            self.projection = nn.Linear(d, 3)

        def forward(self, x):
            start = torch.cat([x[:, -12:], torch.zeros_like(x[:, :12])], 1)
            return self.projection(self.transformer(self.enc(x), self.dec(start)))[:, -12:]

    return Informer()


@network(_last, rate=3e-3)
def liquid_cells_and_layer_norm_gru() -> nn.Module:
    class LayerNormGRUCell(nn.Module):
        def __init__(self, i, h):
            super().__init__()
            self.linear, self.norm = nn.Linear(i + h, 3 * h, bias=False), nn.LayerNorm(3 * h, eps=1e-3)

        def forward(self, x, h):
            reset, cand, update = self.norm(self.linear(torch.cat([x, h], -1))).chunk(3, -1)
            cand = torch.tanh(torch.sigmoid(reset) * cand)
            update = torch.sigmoid(update - 1)
            return update * cand + (1 - update) * h

    class Net(nn.Module):
        def __init__(self, h=32):
            super().__init__()
            self.cell, self.h = LayerNormGRUCell(4, h), h
            self.tau, self.a, self.f = nn.Parameter(torch.zeros(h)), nn.Parameter(torch.randn(h)), nn.Linear(2 * h, h)
            self.readout = nn.Linear(2 * h, 4)

        def forward(self, x):
            h, y = x.new_zeros(len(x), self.h), x.new_zeros(len(x), self.h)
            for t in range(x.shape[1]):
                h = self.cell(x[:, t], h)
                f = torch.sigmoid(self.f(torch.cat([h, y], 1)))
                y = (y + 0.2 * f * self.a) / (1 + 0.2 * (F.softplus(self.tau) + f))
            return self.readout(torch.cat([h, y], 1))

    return Net()


@network(_last, rate=3e-3)
def unitary_like_recurrence_with_scan() -> nn.Module:
    class LRU(nn.Module):
        def __init__(self, d, n=32):
            super().__init__()
            u1, u2 = torch.rand(n), torch.rand(n)
            self.nu_log = nn.Parameter(torch.log(-0.5 * torch.log(u1 * (0.99**2 - 0.8**2) + 0.8**2)))
            self.theta_log = nn.Parameter(torch.log(u2 * 3.14))
            gamma = torch.sqrt(1 - torch.exp(-torch.exp(self.nu_log.detach())) ** 2)
            self.gamma_log = nn.Parameter(torch.log(gamma))
            self.B_re, self.B_im = (nn.Parameter(torch.randn(n, d) / math.sqrt(2 * d)) for _ in range(2))
            self.C_re, self.C_im = (nn.Parameter(torch.randn(d, n) / math.sqrt(n)) for _ in range(2))
            self.D = nn.Parameter(torch.randn(d))

        def forward(self, u):
            lam = torch.exp(torch.complex(-torch.exp(self.nu_log), torch.exp(self.theta_log)))
            bu = u.to(torch.cfloat) @ (torch.complex(self.B_re, self.B_im) * torch.exp(self.gamma_log)[:, None]).T
            state, states = torch.zeros_like(bu[:, 0]), []
            for t in range(u.shape[1]):
                state = lam * state + bu[:, t]
                states.append(state)
            return (torch.stack(states, 1) @ torch.complex(self.C_re, self.C_im).T).real + self.D * u

    class Net(nn.Module):
        def __init__(self, d=32):
            super().__init__()
            self.encoder, self.norm1, self.lru1, self.glu = (
                nn.Linear(4, d),
                nn.LayerNorm(d),
                LRU(d),
                nn.Linear(d, 2 * d),
            )
            self.head = nn.Linear(d, 4)

        def forward(self, x):
            x = self.encoder(x)
            x = x + F.glu(self.glu(F.gelu(self.lru1(self.norm1(x)))), -1)
            return self.head(x.mean(1))

    return Net()
