"""Recurrent and convolutional models of sequences: LSTM, GRU, an RNN started at the identity, TCN, WaveNet."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from evaluation.published.losses import cross_entropy, next_word, squares
from evaluation.published.members import Member
from evaluation.published.samples import BYTES, digits, labelled_text, text, waves


class Recurrent(nn.Module):
    """Embedding, a recurrent network and a head at the last place or at every one; torch's own start."""

    def __init__(self, kind, *, outputs, width=64, layers=2, every=False, both=False):
        super().__init__()
        self.words = nn.Embedding(BYTES, width)
        self.recurrence = kind(width, width, layers, batch_first=True, bidirectional=both)
        self.head, self.every = nn.Linear(width * (2 if both else 1), outputs), every

    def forward(self, words):
        states, _ = self.recurrence(self.words(words))
        return self.head(states if self.every else states[:, -1])


def forgetful():
    """An LSTM whose forget gates begin open: bias 1 (Jozefowicz et al. 2015)."""
    model = Recurrent(nn.LSTM, outputs=2)
    width = model.recurrence.hidden_size
    with torch.no_grad():
        for layer in range(2):
            getattr(model.recurrence, f"bias_ih_l{layer}")[width : 2 * width] = 1.0
    return model


class IdentityRNN(nn.Module):
    """A ReLU RNN over the rows of a digit whose recurrence begins at the identity."""

    def __init__(self, width=64):
        super().__init__()
        self.recurrence = nn.RNN(8, width, nonlinearity="relu", batch_first=True)
        self.head = nn.Linear(width, 10)
        nn.init.normal_(self.recurrence.weight_ih_l0, std=0.1)
        nn.init.eye_(self.recurrence.weight_hh_l0)
        nn.init.zeros_(self.recurrence.bias_ih_l0)
        nn.init.zeros_(self.recurrence.bias_hh_l0)

    def forward(self, x):
        return self.head(self.recurrence(x[:, 0])[0][:, -1])


class Causal(nn.Conv1d):
    """A convolution that sees the past only."""

    def __init__(self, inputs, outputs, size, dilation=1):
        super().__init__(inputs, outputs, size, dilation=dilation)
        self.before = (size - 1) * dilation

    def forward(self, x):
        return super().forward(nn.functional.pad(x, (self.before, 0)))


class TemporalBlock(nn.Module):
    """TCN's block: two dilated causal convolutions with weight norm, and a skip; torch's own start.

    The published code also draws weights of deviation .01, which weight norm undoes.
    """

    def __init__(self, inputs, outputs, dilation):
        super().__init__()
        self.body = nn.Sequential(
            weight_norm(Causal(inputs, outputs, 3, dilation)), nn.ReLU(), nn.Dropout(0.1),
            weight_norm(Causal(outputs, outputs, 3, dilation)), nn.ReLU(), nn.Dropout(0.1),
        )  # fmt: skip
        self.skip = nn.Conv1d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x):
        return torch.relu(self.body(x) + self.skip(x))


def tcn():
    """Four blocks whose reach doubles."""
    blocks = [TemporalBlock(32 if index else 1, 32, 2**index) for index in range(4)]
    return nn.Sequential(*blocks, nn.Conv1d(32, 1, 1))


class WaveNet(nn.Module):
    """Gated dilated convolutions; every layer adds to a stream and to a sum of its own; torch's own start."""

    def __init__(self, width=24, layers=6):
        super().__init__()
        self.stem = nn.Conv1d(1, width, 1)
        self.gated = nn.ModuleList(Causal(width, 2 * width, 2, 2**index) for index in range(layers))
        self.onward, self.aside = (nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(layers)) for _ in range(2))
        self.end = nn.Sequential(nn.ReLU(), nn.Conv1d(width, width, 1), nn.ReLU(), nn.Conv1d(width, 1, 1))

    def forward(self, x):
        x, total = self.stem(x), 0
        for gated, onward, aside in zip(self.gated, self.onward, self.aside):
            value, gate = gated(x).chunk(2, dim=1)
            value = torch.tanh(value) * torch.sigmoid(gate)
            x, total = x + onward(value), total + aside(value)
        return self.end(total)


MEMBERS = (
    Member("LSTM", "Hochreiter, Schmidhuber 1997; torch", lambda: Recurrent(nn.LSTM, outputs=2), labelled_text,
           cross_entropy),
    Member("LSTM forget 1", "Jozefowicz et al. 2015", forgetful, labelled_text, cross_entropy),
    Member("BiLSTM", "Graves, Schmidhuber 2005; torch", lambda: Recurrent(nn.LSTM, outputs=2, both=True),
           labelled_text, cross_entropy),
    Member("GRU", "Cho et al. 2014; torch", lambda: Recurrent(nn.GRU, outputs=BYTES, every=True), text, next_word),
    Member("IRNN", "Le et al. 2015", IdentityRNN, digits, cross_entropy),
    Member("TCN", "Bai et al. 2018", tcn, waves, squares),
    Member("WaveNet", "van den Oord et al. 2016", WaveNet, waves, squares),
)  # fmt: skip
