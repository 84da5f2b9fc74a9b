"""Networks of series and sounds: forecasts with and without distributions, speech, spikes, reservoirs, world models."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from evaluation.declared import network
from evaluation.development_1.data import waves
from evaluation.development_2.vision_transformers import Block, ctc


def _history(length=48, ahead=12, level=0.0):
    """Sines with a trend and noise: what was, and what comes."""

    def draw(count, generator):
        t = torch.arange(length + ahead)[None]
        period = 8 + 8 * torch.rand(count, 1, generator=generator)
        phase, slope = (
            6.3 * torch.rand(count, 1, generator=generator),
            0.02 * torch.randn(count, 1, generator=generator),
        )
        x = torch.sin(6.283 * t / period + phase) + slope * t + level
        x = x + 0.1 * torch.randn(x.shape, generator=generator)
        return x[:, :length], x[:, length:]

    return draw


@network(_history(), loss=F.l1_loss)
def n_beats() -> nn.Module:
    class NBeatsBlock(nn.Module):
        def __init__(self, back=48, ahead=12, units=64, theta=16):
            super().__init__()
            self.fc = nn.Sequential(*[m for i in range(4) for m in (nn.Linear(units if i else back, units), nn.ReLU())])
            self.theta_b, self.theta_f = nn.Linear(units, theta, bias=False), nn.Linear(units, theta, bias=False)
            self.backcast, self.forecast = nn.Linear(theta, back), nn.Linear(theta, ahead)

        def forward(self, x):
            x = self.fc(x)
            return self.backcast(F.relu(self.theta_b(x))), self.forecast(F.relu(self.theta_f(x)))

    class NBeats(nn.Module):
        def __init__(self):
            super().__init__()
            self.stacks = nn.ModuleList(nn.ModuleList(NBeatsBlock() for _ in range(2)) for _ in range(2))

        def forward(self, backcast):
            forecast = torch.zeros(len(backcast), 12)
            for stack in self.stacks:
                for block in stack:
                    b, f = block(backcast)
                    backcast = backcast - b
                    forecast = forecast + f
            return forecast

    return NBeats()


def _pinball(out, targets):
    q = torch.tensor([0.1, 0.5, 0.9])
    error = targets[..., None] - out
    return torch.maximum(q * error, (q - 1) * error).mean()


@network(_history(24, 6), loss=_pinball, rate=3e-3)
def temporal_fusion_like() -> nn.Module:
    class GRN(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.fc1, self.fc2, self.gate, self.norm = (
                nn.Linear(d, d),
                nn.Linear(d, d),
                nn.Linear(d, 2 * d),
                nn.LayerNorm(d),
            )

        def forward(self, x):
            return self.norm(x + F.glu(self.gate(self.fc2(F.elu(self.fc1(x))))))

    class TFT(nn.Module):
        def __init__(self, d=32):
            super().__init__()
            self.value, self.month, self.select = nn.Linear(1, d), nn.Embedding(12, d), nn.Linear(2 * d, 2)
            self.grns = nn.ModuleList(GRN(d) for _ in range(4))
            self.lstm = nn.LSTM(d, d, batch_first=True)
            self.gate, self.norm = nn.Linear(d, 2 * d), nn.LayerNorm(d)
            self.attn, self.out = nn.MultiheadAttention(d, 4, batch_first=True), nn.Linear(d, 18)

        def forward(self, x):
            v = self.value(x[..., None])
            m = self.month(torch.arange(x.shape[1]) % 12).expand_as(v)
            w = self.select(torch.cat([v, m], -1)).softmax(-1)
            z = w[..., :1] * self.grns[0](v) + w[..., 1:] * self.grns[1](m)
            h, _ = self.lstm(z)
            h = self.grns[2](self.norm(z + F.glu(self.gate(h))))
            mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
            a, _ = self.attn(h, h, h, attn_mask=mask)
            return self.out(self.grns[3](h + a)[:, -1]).view(-1, 6, 3)

    return TFT()


def _deepar_data(count, generator):
    past, ahead = _history(32, 1, level=20.0)(count, generator)
    series = torch.cat([past, ahead], 1) * torch.exp(torch.randn(count, 1, generator=generator))
    return series[:, :-1], series[:, 1:]


def _gauss(out, targets):
    mu, sigma = out
    return -torch.distributions.Normal(mu, sigma).log_prob(targets).mean()


@network(_deepar_data, loss=_gauss, rate=3e-3)
def deepar_scaled_by_its_mean() -> nn.Module:
    class DeepAR(nn.Module):
        def __init__(self, h=40):
            super().__init__()
            self.lstm = nn.LSTM(1, h, 2, batch_first=True, dropout=0.1)
            self.mu, self.presigma = nn.Linear(h, 1), nn.Linear(h, 1)
            for name, p in self.lstm.named_parameters():
                if "bias" in name:
                    p.data.zero_()
                    p.data[h : 2 * h].fill_(0.5)

        def forward(self, x):
            scale = x.abs().cumsum(1) / torch.arange(1, x.shape[1] + 1) + 1
            h, _ = self.lstm((x / scale)[..., None])
            return self.mu(h)[..., 0] * scale, (F.softplus(self.presigma(h)[..., 0]) + 1e-3) * scale

    return DeepAR()


@network(_history(48, 12, level=5.0), loss=F.mse_loss)
def patch_tst_with_revin() -> nn.Module:
    class PatchTST(nn.Module):
        def __init__(self, d=64, patch=8):
            super().__init__()
            self.patch, self.gamma, self.beta = patch, nn.Parameter(torch.ones(1)), nn.Parameter(torch.zeros(1))
            self.embed, self.pos = nn.Linear(patch, d), nn.Parameter(0.02 * torch.randn(1, 11, d))
            self.blocks, self.head = nn.Sequential(Block(d, 4), Block(d, 4)), nn.Linear(11 * d, 12)

        def forward(self, x):
            mean, std = (
                x.mean(1, keepdim=True).detach(),
                (x.var(1, keepdim=True, unbiased=False) + 1e-5).sqrt().detach(),
            )
            x = (x - mean) / std * self.gamma + self.beta
            x = self.blocks(self.embed(x.unfold(1, self.patch, self.patch // 2)) + self.pos)
            return (self.head(x.flatten(1)) - self.beta) / (self.gamma + 1e-10) * std + mean

    return PatchTST()


def _speech(count, generator):
    labels = torch.randint(1, 5, (count, 3), generator=generator)
    t = torch.arange(40)
    parts = torch.sin(labels[..., None] * 0.3 * t)
    wave = parts.flatten(1)[:, None]
    return wave + 0.1 * torch.randn(wave.shape, generator=generator), labels


@network(_speech, loss=ctc)
def conformer_with_ctc() -> nn.Module:
    class ConvModule(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.norm, self.pw1, self.pw2 = nn.LayerNorm(d), nn.Conv1d(d, 2 * d, 1), nn.Conv1d(d, d, 1)
            self.dw, self.bn = nn.Conv1d(d, d, 7, padding=3, groups=d), nn.BatchNorm1d(d)

        def forward(self, x):
            x = F.glu(self.pw1(self.norm(x).transpose(1, 2)), dim=1)
            return self.pw2(F.silu(self.bn(self.dw(x)))).transpose(1, 2)

    class Conformer(nn.Module):
        def __init__(self, d):
            super().__init__()

            def ff():
                return nn.Sequential(
                    nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.SiLU(), nn.Dropout(0.1), nn.Linear(4 * d, d)
                )

            self.ff1, self.ff2, self.conv, self.norm = ff(), ff(), ConvModule(d), nn.LayerNorm(d)
            self.norm_a, self.mha = nn.LayerNorm(d), nn.MultiheadAttention(d, 4, batch_first=True)

        def forward(self, x):
            x = x + 0.5 * self.ff1(x)
            h = self.norm_a(x)
            x = x + self.mha(h, h, h, need_weights=False)[0]
            x = x + self.conv(x)
            return self.norm(x + 0.5 * self.ff2(x))

    class Speech(nn.Module):
        def __init__(self, d=48):
            super().__init__()
            self.front = nn.Sequential(nn.Conv1d(1, d, 10, 5), nn.GELU(), nn.Conv1d(d, d, 3, 2), nn.GELU())
            self.norm, self.blocks, self.out = (
                nn.LayerNorm(d),
                nn.Sequential(Conformer(d), Conformer(d)),
                nn.Linear(d, 5),
            )

        def forward(self, x):
            x = self.blocks(self.norm(self.front(x).transpose(1, 2)))
            return self.out(x).log_softmax(-1).transpose(0, 1)

    return Speech()


def _frames(count, generator):
    text = torch.randint(1, 20, (count, 8), generator=generator)
    table = torch.randn(20, 3, 12, generator=torch.Generator().manual_seed(5))
    mel = table[text].flatten(1, 2)
    return (text, F.pad(mel, (0, 0, 1, -1))), mel + 0.1 * torch.randn(mel.shape, generator=generator)


@network(_frames, loss=lambda out, mel: F.mse_loss(out[0], mel) + F.mse_loss(out[1], mel), rate=3e-3)
def tacotron_like() -> nn.Module:
    class Tacotron(nn.Module):
        def __init__(self, d=48, mel=12):
            super().__init__()
            self.embed, self.encoder = nn.Embedding(20, d), nn.GRU(d, d // 2, batch_first=True, bidirectional=True)
            self.convs = nn.Sequential(*[m for _ in range(2) for m in
                                         (nn.Conv1d(d, d, 5, padding=2), nn.BatchNorm1d(d), nn.ReLU())])  # fmt: skip
            self.prenet1, self.prenet2 = nn.Linear(mel, d), nn.Linear(d, d)
            self.rnn, self.query, self.memory = nn.GRUCell(2 * d, d), nn.Linear(d, d), nn.Linear(d, d, bias=False)
            self.v, self.out = nn.Linear(d, 1, bias=False), nn.Linear(2 * d, mel)
            self.postnet = nn.Sequential(nn.Conv1d(mel, d, 5, padding=2), nn.BatchNorm1d(d), nn.Tanh(),
                                         nn.Conv1d(d, mel, 5, padding=2))  # fmt: skip

        def forward(self, text, mels):
            memory, _ = self.encoder(self.convs(self.embed(text).transpose(1, 2)).transpose(1, 2))
            keys = self.memory(memory)
            x = F.dropout(F.relu(self.prenet1(mels)), 0.5, training=True)
            x = F.dropout(F.relu(self.prenet2(x)), 0.5, training=True)
            h = c = torch.zeros(len(text), memory.shape[-1])
            frames = []
            for t in range(mels.shape[1]):
                h = self.rnn(torch.cat([x[:, t], c], -1), h)
                w = self.v(torch.tanh(self.query(h)[:, None] + keys)).softmax(1)
                c = (w * memory).sum(1)
                frames.append(self.out(torch.cat([h, c], -1)))
            y = torch.stack(frames, 1)
            return y, y + self.postnet(y.transpose(1, 2)).transpose(1, 2)

    return Tacotron()


class Spike(torch.autograd.Function):
    @staticmethod
    def forward(ctx, v):
        ctx.save_for_backward(v)
        return (v > 0).float()

    @staticmethod
    def backward(ctx, grad):
        (v,) = ctx.saved_tensors
        return grad / (1 + 10 * v.abs()) ** 2


@network(lambda n, g: (lambda x, y: (x.transpose(1, 2), y))(*waves(32, 4)(n, g)), rate=5e-3)
def spiking_with_surrogate_gradient() -> nn.Module:
    class SNN(nn.Module):
        def __init__(self, h=64):
            super().__init__()
            self.fc1, self.fc2 = nn.Linear(4, h), nn.Linear(h, 4)
            nn.init.normal_(self.fc1.weight, std=1.0)

        def forward(self, x):
            v, out = torch.zeros(len(x), 64), torch.zeros(len(x), 4)
            total = torch.zeros(len(x), 4)
            for t in range(x.shape[1]):
                v = 0.9 * v + self.fc1(x[:, t])
                s = Spike.apply(v - 1.0)
                v = v - s.detach()
                out = 0.9 * out + self.fc2(s)
                total = total + out
            return total / x.shape[1]

    return SNN()


@network(lambda n, g: (lambda x, y: (x.transpose(1, 2), y))(*waves(32, 4)(n, g)), rate=1e-2)
def echo_state_network() -> nn.Module:
    class Reservoir(nn.Module):
        def __init__(self, h=128):
            super().__init__()
            w = torch.randn(h, h)
            self.register_buffer("w", 0.9 * w / torch.linalg.eigvals(w).abs().max())
            self.register_buffer("w_in", torch.rand(4, h) - 0.5)
            self.readout = nn.Linear(h, 4)

        def forward(self, x):
            h, total = torch.zeros(len(x), len(self.w)), 0.0
            for t in range(x.shape[1]):
                h = torch.tanh(x[:, t] @ self.w_in + h @ self.w)
                total = total + h**2
            return self.readout(total / x.shape[1])

    return Reservoir()


def _episodes(count, generator):
    actions = torch.randint(3, (count, 12), generator=generator)
    position = torch.cumsum(actions - 1.0, 1)[..., None]
    obs = torch.cat([position / 3, torch.sin(position), torch.cos(position)], -1)
    obs = obs + 0.05 * torch.randn(obs.shape, generator=generator)
    return (F.pad(obs, (0, 0, 1, -1)), actions), obs


def _world_loss(out, obs):
    recon, kl = out
    return F.mse_loss(recon, obs) + 0.1 * kl


@network(_episodes, loss=_world_loss, rate=3e-3)
def world_model_rssm() -> nn.Module:
    class RSSM(nn.Module):
        def __init__(self, h=48, z=8):
            super().__init__()
            self.encoder, self.action = nn.Sequential(nn.Linear(3, h), nn.ELU(), nn.Linear(h, h)), nn.Embedding(3, 8)
            self.cell = nn.GRUCell(z + 8, h)
            self.prior, self.posterior = nn.Linear(h, 2 * z), nn.Linear(2 * h, 2 * z)
            self.decoder = nn.Sequential(nn.Linear(h + z, h), nn.ELU(), nn.Linear(h, 3))

        def forward(self, obs, actions):
            e, a = self.encoder(obs), self.action(actions)
            h, z = torch.zeros(len(obs), 48), torch.zeros(len(obs), 8)
            recon, kl = [], 0.0
            for t in range(obs.shape[1]):
                h = self.cell(torch.cat([z, a[:, t]], -1), h)
                pm, ps = self.prior(h).chunk(2, -1)
                qm, qs = self.posterior(torch.cat([h, e[:, t]], -1)).chunk(2, -1)
                p = torch.distributions.Normal(pm, F.softplus(ps) + 0.1)
                q = torch.distributions.Normal(qm, F.softplus(qs) + 0.1)
                z = q.rsample()
                kl = kl + torch.distributions.kl_divergence(q, p).sum(-1).mean() / obs.shape[1]
                recon.append(self.decoder(torch.cat([h, z], -1)))
            return torch.stack(recon, 1), kl

    return RSSM()
