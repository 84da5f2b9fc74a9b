"""Small programs with a fault and their fixed twins, and healthy ones, on the digits of scikit-learn."""

from functools import cache, partial

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

import initscope.inspection.instruments
from initscope.inspection.instruments import Budget

UNTIMED = Budget(seconds=1e9, more_passes=200, long_passes=3000)
"""A budget with which a trial does not depend on how busy the machine is."""
run_trial = partial(initscope.inspection.instruments.run_trial, budget=UNTIMED)
compare_trials = partial(initscope.inspection.instruments.compare_trials, seconds=1e9)

ADAM = partial(torch.optim.Adam, lr=1e-3)
SGD = partial(torch.optim.SGD, lr=0.1, momentum=0.9)


@cache
def digits():
    data = load_digits()
    return torch.tensor(data.data / 16, dtype=torch.float32), torch.tensor(data.target)


def images():
    x, labels = digits()
    return x.reshape(-1, 1, 8, 8), labels


def parity():
    x, labels = digits()
    return x, (labels % 2).float()[:, None]


def shuffled():
    x, labels = digits()
    return x, labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))]


@cache
def regression():
    x = digits()[0][:, 10:30]
    generator = torch.Generator().manual_seed(1)
    return x, x @ torch.randn(20, 1, generator=generator) + torch.sin(3 * x[:, :1])


@cache
def text():
    """A Markov chain of twenty words, as inputs and next words."""
    generator = torch.Generator().manual_seed(2)
    chances = torch.softmax(3 * torch.randn(20, 20, generator=generator), dim=1)
    ids = torch.randint(0, 20, (256, 13), generator=generator)
    for step in range(1, 13):
        ids[:, step] = torch.multinomial(chances[ids[:, step - 1]], 1, generator=generator)[:, 0]
    return ids[:, :-1], ids[:, 1:]


def mlp(*after, inputs=64, outputs=10, activation=nn.ReLU):
    layers = nn.Linear(inputs, 64), activation(), nn.Linear(64, 64), activation(), nn.Linear(64, outputs)
    return nn.Sequential(*layers, *after)


def cnn():
    return nn.Sequential(
        *(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(64, 10)),
    )


def small_weights():
    model = nn.Sequential(
        *(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU()),
        *(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10), nn.ReLU(), nn.Softmax(1)),
    )
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.01) if parameter.dim() > 1 else nn.init.zeros_(parameter)
    return model


def deep(activation, depth, frozen=False):
    layers = [layer for _ in range(depth) for layer in (nn.Linear(64, 64), activation())]
    model = nn.Sequential(*layers, nn.Linear(64, 10))
    if frozen:
        model[:-1].requires_grad_(False)
    return model


def dropped(p):
    return nn.Sequential(
        *(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(p), nn.Linear(64, 64), nn.ReLU(), nn.Dropout(p), nn.Linear(64, 10)),
    )


class Detached(nn.Module):
    def __init__(self, detached):
        super().__init__()
        self.features, self.last, self.detached = mlp(outputs=32), nn.Linear(32, 10), detached

    def forward(self, x):
        hidden = self.features(x)
        return self.last((hidden.detach() if self.detached else hidden).relu())


def encoder(width, dropout):
    layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=dropout, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


class Gpt(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.words, self.places = nn.Embedding(20, width), nn.Parameter(0.02 * torch.randn(1, 12, width))
        self.blocks, self.norm, self.last = encoder(width, 0.1), nn.LayerNorm(width), nn.Linear(width, 20)

    def forward(self, ids):
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        hidden = self.blocks(self.words(ids) + self.places, mask=mask, is_causal=True)
        return self.last(self.norm(hidden))


class Vit(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.patches, self.places = nn.Conv2d(1, width, 2, 2), nn.Parameter(0.02 * torch.randn(1, 16, width))
        self.blocks, self.norm, self.last = encoder(width, 0.0), nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x):
        return self.last(self.norm(self.blocks(self.patches(x).flatten(2).mT + self.places)).mean(dim=1))


class Rows(nn.Module):
    """Reads images row by row."""

    def __init__(self):
        super().__init__()
        self.loop, self.last = nn.LSTM(8, 32, batch_first=True), nn.Linear(32, 10)

    def forward(self, x):
        return self.last(self.loop(x.squeeze(1))[0][:, -1])


def next_word(output, targets):
    return F.cross_entropy(output.transpose(1, 2), targets)


HEALTHY = {
    "mlp": (mlp, digits, F.cross_entropy, ADAM),
    "mlp by gradient descent": (mlp, digits, F.cross_entropy, SGD),
    "cnn with batch norm": (cnn, images, F.cross_entropy, ADAM),
    "gpt": (Gpt, text, next_word, partial(torch.optim.AdamW, lr=3e-3)),
    "vit": (Vit, images, F.cross_entropy, ADAM),
    "lstm": (Rows, images, F.cross_entropy, partial(torch.optim.Adam, lr=3e-3)),
    "regression": (partial(mlp, inputs=20, outputs=1), regression, F.mse_loss, ADAM),
    "parity": (partial(mlp, outputs=1), parity, F.binary_cross_entropy_with_logits, ADAM),
    "attached": (partial(Detached, False), digits, F.cross_entropy, ADAM),
    "little dropout": (partial(dropped, 0.1), digits, F.cross_entropy, ADAM),
}
"""Name: model, data, loss, optimizer. The twins of the faults are among them."""


def scaled(factor):
    x, y = regression()
    return factor * x, y


FAULTS = {
    "rate too small": (mlp, digits, F.cross_entropy, partial(torch.optim.Adam, lr=1e-6)),
    "rate too large": (mlp, digits, F.cross_entropy, partial(torch.optim.Adam, lr=1.0)),
    "rate of gradient descent too small": (mlp, digits, F.cross_entropy, partial(torch.optim.SGD, lr=1e-5)),
    "softmax over one unit": (partial(mlp, nn.Softmax(1), outputs=1), parity, F.binary_cross_entropy, ADAM),
    "inputs of thousands": (
        partial(mlp, inputs=20, outputs=1, activation=nn.Sigmoid),
        partial(scaled, 1e3),
        F.mse_loss,
        partial(torch.optim.SGD, lr=0.01),
    ),
    "frozen layers": (partial(deep, nn.ReLU, 5, True), digits, F.cross_entropy, ADAM),
    "dropout .99": (partial(dropped, 0.99), digits, F.cross_entropy, ADAM),
    "two softmaxes": (partial(mlp, nn.Softmax(1)), digits, F.cross_entropy, ADAM),
    "small weights": (small_weights, images, F.cross_entropy, ADAM),
    "detached features": (partial(Detached, True), digits, F.cross_entropy, ADAM),
    "ten sigmoids": (partial(deep, nn.Sigmoid, 10), digits, F.cross_entropy, ADAM),
}
