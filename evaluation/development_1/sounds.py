"""Networks that read sounds and other sequences without attention."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from evaluation.declared import network
from evaluation.development_1.data import pictures, sentences, waves


@network(sentences(target="class"), rate=3e-3)
def text_cnn() -> nn.Module:
    class TextCNN(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(64, 50)
            self.convs = nn.ModuleList(nn.Conv2d(1, 40, (k, 50)) for k in (3, 4, 5))
            self.dropout, self.fc = nn.Dropout(0.5), nn.Linear(120, 8)

        def forward(self, x):
            x = self.embed(x).unsqueeze(1)
            x = [F.relu(conv(x)).squeeze(3) for conv in self.convs]
            return self.fc(self.dropout(torch.cat([F.max_pool1d(i, i.size(2)).squeeze(2) for i in x], 1)))

    return TextCNN()


@network(waves(2048), rate=2e-3)
def spectrogram_cnn() -> nn.Module:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("window", torch.hann_window(128))
            self.bn0 = nn.BatchNorm2d(1)
            self.convs = nn.Sequential(
                nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.AvgPool2d(2),
                nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AvgPool2d(2),
            )  # fmt: skip
            self.fc1, self.fc2 = nn.Linear(32, 32), nn.Linear(32, 4)

        def forward(self, wave):
            spec = torch.stft(wave[:, 0], 128, 64, window=self.window, return_complex=True).abs().pow(2)
            x = self.convs(self.bn0(torch.log(spec + 1e-6)[:, None])).mean(3)
            x = x.amax(2) + x.mean(2)
            return self.fc2(F.dropout(F.relu(self.fc1(x)), 0.2, self.training))

    return Net()


@network(waves(256, 4), rate=3e-3)
def raw_audio_m5() -> nn.Module:
    return nn.Sequential(
        nn.Conv1d(4, 32, 16, 4), nn.BatchNorm1d(32), nn.ReLU(), nn.MaxPool1d(2),
        nn.Conv1d(32, 64, 3), nn.BatchNorm1d(64), nn.ReLU(), nn.MaxPool1d(2),
        nn.Conv1d(64, 64, 3), nn.BatchNorm1d(64), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(64, 4),
        nn.LogSoftmax(dim=1),
    )  # fmt: skip


@network(lambda n, g: (lambda x, y: (x.transpose(2, 3).flatten(2).transpose(1, 2), y))(*pictures(16)(n, g)))
def linear_state_space() -> nn.Module:
    class Layer(nn.Module):
        def __init__(self, d, states=16):
            super().__init__()
            self.log_a = nn.Parameter(torch.log(torch.linspace(0.5, states, states)).repeat(d, 1))
            self.log_dt = nn.Parameter(torch.rand(d) * 3 - 6)
            self.c, self.d = nn.Parameter(torch.randn(d, states) / states**0.5), nn.Parameter(torch.ones(d))
            self.norm, self.out = nn.LayerNorm(d), nn.Linear(d, 2 * d)

        def forward(self, x):
            y = self.norm(x)
            T = x.shape[1]
            dt = self.log_dt.exp()[:, None]
            decay = -self.log_a.exp() * dt
            kernel = torch.einsum("ds,dst->td", self.c * dt, torch.exp(decay[..., None] * torch.arange(T)))
            spectrum = torch.fft.rfft(y, 2 * T, dim=1) * torch.fft.rfft(kernel, 2 * T, dim=0)
            y = F.gelu(torch.fft.irfft(spectrum, 2 * T, dim=1)[:, :T] + self.d * y)
            return x + F.glu(self.out(y), dim=-1)

    class S4(nn.Module):
        def __init__(self, d=48):
            super().__init__()
            self.encoder, self.layers = nn.Linear(3, d), nn.Sequential(*[Layer(d) for _ in range(4)])
            self.decoder = nn.Linear(d, 10)

        def forward(self, x):
            return self.decoder(self.layers(self.encoder(x)).mean(1))

    return S4()
