"""Bugs of gradients, registration, numbers and data, each beside what it should have been."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from evaluation.declared import pair
from evaluation.development_1.bugs_of_models import dense
from evaluation.development_1.data import labelled_table, masks, pictures, sentences, table
from evaluation.development_1.images import conv_bn


class Parts(nn.Module):
    """Two parts and a head, with what comes between them."""

    def __init__(self, between, i=16, h=48, o=4):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(i, h), nn.ReLU(), nn.Linear(h, h))
        self.decoder, self.between = nn.Sequential(nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, o)), between

    def forward(self, x):
        return self.decoder(self.between(self.encoder(x)))


@pair(labelled_table(), "no-gradient", where="encoder")
def detach_left_from_debugging(wrong):
    return Parts(lambda h: h.detach() if wrong else h)


@pair(labelled_table(), "no-gradient", "zero-gradient", where="encoder")
def rounding_without_straight_through(wrong):
    return Parts(lambda h: torch.round(8 * h) / 8 if wrong else h + (torch.round(8 * h) / 8 - h).detach())


@pair(labelled_table(), "no-gradient", where="encoder")
def encoder_under_no_grad(wrong):
    class Net(Parts):
        def forward(self, x):
            with torch.set_grad_enabled(torch.is_grad_enabled() and not wrong):
                h = self.encoder(x)
            return self.decoder(h)

    return Net(None)


@pair(pictures(16), "no-gradient", where="stem")
def data_of_the_skip(wrong):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.block, self.fc = conv_bn(3, 32, stride=2), conv_bn(32, 32), nn.Linear(32, 10)

        def forward(self, x):
            x = self.stem(x)
            skip = x.data if wrong else x
            x = skip + self.block(skip)
            return self.fc(x.mean((2, 3)))

    return Net()


@pair(labelled_table(), "no-gradient", "zero-gradient", where="score")
def hard_choice_by_argmax(wrong):
    class Net(nn.Module):
        def __init__(self, d=32, k=4):
            super().__init__()
            self.score, self.first = nn.Linear(16, k), nn.Linear(16, d)
            self.ways, self.head = nn.ModuleList(nn.Linear(d, d) for _ in range(k)), nn.Linear(d, 4)

        def forward(self, x):
            s = self.score(x)
            w = F.one_hot(s.argmax(-1), 4).float() if wrong else s.softmax(-1)
            h = F.relu(self.first(x))
            return self.head(sum(w[:, i : i + 1] * F.relu(way(h)) for i, way in enumerate(self.ways)))

    return Net()


@pair(labelled_table(), "no-gradient")
def everything_frozen(wrong):
    return dense(16, 64, 64, 4).requires_grad_(not wrong)


@pair(pictures(16), "no-gradient", where="1.bn2")
def copy_pasted_norm(wrong):
    class Block(nn.Module):
        def __init__(self, c):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(c, c, 3, padding=1, bias=False), nn.BatchNorm2d(c)
            self.conv2, self.bn2 = nn.Conv2d(c, c, 3, padding=1, bias=False), nn.BatchNorm2d(c)

        def forward(self, x):
            out = F.relu(self.bn1(self.conv1(x)))
            out = self.bn1(self.conv2(out)) if wrong else self.bn2(self.conv2(out))
            return F.relu(out + x)

    return nn.Sequential(conv_bn(3, 32, stride=2), Block(32), Block(32), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(32, 10))  # fmt: skip


@pair(labelled_table(), "unregistered", "no-gradient")
def heads_in_a_python_dict(wrong):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(16, 64), nn.ReLU())
            heads = {"mean": nn.Linear(64, 4), "rest": nn.Linear(64, 4)}
            self.heads = heads if wrong else nn.ModuleDict(heads)

        def forward(self, x):
            h = self.body(x)
            return self.heads["mean"](h) + torch.tanh(self.heads["rest"](h))

    return Net()


@pair(labelled_table(), "unregistered", "no-gradient")
def layer_made_in_forward(wrong):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1, self.fc2 = nn.Linear(16, 64), nn.Linear(64, 4)
            if not wrong:
                self.middle = nn.Linear(64, 64)

        def forward(self, x):
            x = F.relu(self.fc1(x))
            middle = nn.Linear(64, 64) if wrong else self.middle
            return self.fc2(F.relu(middle(x)))

    return Net()


@pair(sentences(target="class"), "clones")
def one_encoder_layer_times_four(wrong):
    class Net(nn.Module):
        def __init__(self, d=32):
            super().__init__()
            self.embed, self.pos = nn.Embedding(64, d), nn.Parameter(0.02 * torch.randn(24, d))
            made = [nn.TransformerEncoderLayer(d, 4, 64, batch_first=True, norm_first=True) for _ in range(4)]
            self.layers, self.fc = nn.ModuleList(made[:1] * 4 if wrong else made), nn.Linear(d, 8)

        def forward(self, ids):
            x = self.embed(ids) + self.pos
            for layer in self.layers:
                x = layer(x)
            return self.fc(x.mean(1))

    return Net()


@pair(labelled_table(), "dropout-in-eval", "dropout")
def functional_dropout_also_in_evaluation(wrong):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1, self.fc2, self.fc3 = nn.Linear(16, 64), nn.Linear(64, 64), nn.Linear(64, 4)

        def forward(self, x):
            x = F.relu(self.fc1(x))
            x = F.dropout(x, 0.5) if wrong else F.dropout(x, 0.5, self.training)
            return self.fc3(F.relu(self.fc2(x)))

    return Net()


@pair(labelled_table(), "not-finite")
def temperature_starts_at_zero(wrong):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.Sequential(nn.Linear(16, 64), nn.ReLU()), nn.Linear(64, 4)
            self.temperature = nn.Parameter(torch.zeros(1) if wrong else torch.ones(1))

        def forward(self, x):
            return self.head(self.body(x)) / self.temperature

    return Net()


@pair(labelled_table(), "not-finite", loss=F.nll_loss)
def logarithm_of_a_softmax_underflows(wrong):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = dense(16, 64, 64, 4)
            self.scale = 500.0 if wrong else 1.0

        def forward(self, x):
            z = self.scale * self.net(x)
            return torch.log(torch.softmax(z, -1)) if wrong else F.log_softmax(z, -1)

    return Net()


@pair(sentences(target="class"), "precision", "vanishing", "collapse", "not-finite", "zero-gradient", "dead-units")
def mean_square_overflows_in_half(wrong):
    class Net(nn.Module):
        def __init__(self, d=32):
            super().__init__()
            self.embed, self.fc1, self.fc2 = nn.Embedding(64, d), nn.Linear(d, 64), nn.Linear(64, 8)
            nn.init.normal_(self.embed.weight, std=400.0)

        def norm(self, x):
            square = x.half().pow(2).mean(-1, keepdim=True).float() if wrong else x.pow(2).mean(-1, keepdim=True)
            return x * torch.rsqrt(square + 1e-6)

        def forward(self, ids):
            return self.fc2(F.relu(self.fc1(self.norm(self.embed(ids)).mean(1))))

    return Net()


@pair(labelled_table(), "step-fails", error="inplace")
def written_over_in_place(wrong):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1, self.fc2 = nn.Linear(16, 64), nn.Linear(64, 4)

        def forward(self, x):
            h = torch.sigmoid(self.fc1(x))
            h = h.mul_(2) if wrong else h * 2
            return self.fc2(h)

    return Net()


def _bytes(count, generator):
    x, y = pictures(16)(count, generator)
    return torch.sigmoid(x), y


@pair(lambda n, g: (lambda x, y: ((x - 0.45) / 0.22, y))(*_bytes(n, g)), "input-scale",
      wrong={"data": lambda n, g: (lambda x, y: ((255 * x - 0.45) / 0.22, y))(*_bytes(n, g))})  # fmt: skip
def statistics_of_unit_pictures_on_bytes(wrong):
    return nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(4), nn.Flatten(), nn.Linear(256, 10))


def _stamped(days):
    def draw(count, generator):
        x, y = labelled_table(7)(count, generator)
        time = torch.rand(count, 1, generator=generator)
        time = 1.6e9 + 8.64e4 * 365 * time if days else 2 * time - 1
        return (torch.randint(20, (count,), generator=generator), torch.cat([x, time], 1)), y

    return draw


@pair(_stamped(False), "input-scale", wrong={"data": _stamped(True)})
def time_stamp_beside_embeddings(wrong):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.net = nn.Embedding(20, 16), dense(24, 64, 64, 4)

        def forward(self, user, rows):
            return self.net(torch.cat([self.embed(user), rows], 1))

    return Net()


def _steps(scale):
    def draw(count, generator):
        x, y = masks(16)(count, generator)
        t = torch.rand(count, 1, generator=generator)
        return (x + t[:, :, None, None] * torch.randn(x.shape, generator=generator), scale * t), y

    return draw


@pair(_steps(1.0), "input-scale", wrong={"data": _steps(1000.0)})
def raw_time_step_of_a_thousand(wrong):
    class Net(nn.Module):
        def __init__(self, c=24):
            super().__init__()
            self.conv1, self.conv2 = nn.Conv2d(3, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1)
            self.time, self.out = nn.Sequential(nn.Linear(1, c), nn.SiLU(), nn.Linear(c, c)), nn.Conv2d(c, 3, 1)

        def forward(self, x, t):
            h = F.silu(self.conv1(x)) + self.time(t)[:, :, None, None]
            return self.out(F.silu(self.conv2(h)))

    return Net()


def _repeated(count, generator):
    x, y = pictures(16)(count, generator)
    return x[:1].repeat(count, 1, 1, 1), y


@pair(pictures(16), "constant-data", wrong={"data": _repeated})
def dataset_gives_one_sample_again_and_again(wrong):
    return nn.Sequential(conv_bn(3, 16), nn.MaxPool2d(4), nn.Flatten(), nn.Linear(256, 10))


def _gaps(count, generator):
    x, y = table(16, 1)(count, generator)
    x[torch.rand(x.shape, generator=generator) < 0.02] = float("nan")
    return x, y


@pair(table(16, 1), "not-finite", loss=F.mse_loss, error="finite", wrong={"data": _gaps})
def missing_values_in_the_table(wrong):
    return dense(16, 64, 64, 1)


def _crowd(count, generator):
    x = torch.randn(count, 40, 8, generator=generator)
    links = (torch.rand(count, 40, 40, generator=generator) < 0.7).float()
    return (x, links), (x[:, :, 0].mean(1) > 0).long()


@pair(_crowd, "exploding", "loss-at-start", "collapse", "rank-loss", "precision")
def adjacency_not_normalised(wrong):
    class GCN(nn.Module):
        def __init__(self, d=32):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(d if i else 8, d) for i in range(4))
            self.head = nn.Linear(d, 2)

        def forward(self, x, adj):
            adj = adj if wrong else adj / adj.sum(-1, keepdim=True).clamp(min=1)
            for layer in self.layers:
                x = F.relu(layer(adj @ x + (0 if wrong else x)))
            return self.head(x.mean(1))

    return GCN()
