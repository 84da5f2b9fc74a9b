"""Bugs of axes, batches, masks and order, each beside what it should have been."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from evaluation.declared import network, pair
from evaluation.development_1.bugs_of_models import Encoder
from evaluation.development_1.data import labelled_table, pictures, sentences, table, waves
from evaluation.development_1.images import conv_bn
from evaluation.development_1.sequences import per_token


@network(pictures(16))
def log_softmax_before_cross_entropy() -> nn.Module:
    """Twice is once: the second log-softmax changes nothing."""
    return nn.Sequential(conv_bn(3, 16), nn.MaxPool2d(4), nn.Flatten(), nn.Linear(256, 10), nn.LogSoftmax(1))


def _series(length=24, channels=8):
    def draw(count, generator):
        x, y = waves(length, channels)(count, generator)
        return (x + (y[:, None, None] - 1.5) / 2).transpose(1, 2), y

    return draw


@pair(_series(), "samples-mixed")
def encoder_without_batch_first(wrong):
    class Net(nn.Module):
        def __init__(self, d=32):
            super().__init__()
            self.embed, self.pos = nn.Linear(8, d), nn.Parameter(0.02 * torch.randn(24, d))
            layer = nn.TransformerEncoderLayer(d, 4, 64, batch_first=not wrong)
            self.encoder, self.fc = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(d, 4)

        def forward(self, x):
            return self.fc(self.encoder(self.embed(x) + self.pos).mean(1))

    return Net()


@pair(_series(), "samples-mixed")
def attention_pooling_over_the_batch(wrong):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1, self.score, self.fc2 = nn.Linear(8, 32), nn.Linear(32, 1), nn.Linear(32, 4)

        def forward(self, x):
            h = torch.tanh(self.fc1(x))
            w = torch.softmax(self.score(h), dim=0 if wrong else 1)
            return self.fc2((w * h).sum(1))

    return Net()


@pair(pictures(16), "samples-mixed")
def squeeze_over_the_batch(wrong):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.fc1, self.fc2 = conv_bn(3, 32), nn.Linear(32, 8), nn.Linear(8, 32)
            self.head = nn.Linear(32 * 16, 10)

        def forward(self, x):
            x = self.conv(x)
            s = x.mean((0, 2, 3), keepdim=True) if wrong else x.mean((2, 3), keepdim=True)
            s = torch.sigmoid(self.fc2(F.relu(self.fc1(s.flatten(1)))))
            return self.head(F.avg_pool2d(x * s[:, :, None, None], 4).flatten(1))

    return Net()


@pair(lambda n, g: (lambda x, y: ((x[:, :8], x[:, 8:]), y))(*labelled_table()(n, g)), "samples-mixed")
def branches_joined_along_the_batch(wrong):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.head = nn.Linear(8, 32), nn.Linear(8, 32), nn.Linear(64, 4)

        def forward(self, left, right):
            a, b = F.relu(self.a(left)), F.relu(self.b(right))
            both = torch.cat([a, b], 0).view(len(a), -1) if wrong else torch.cat([a, b], 1)
            return self.head(both)

    return Net()


@pair(_series(), "samples-mixed")
def recurrent_output_viewed_by_batch(wrong):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.gru, self.fc = nn.GRU(8, 16), nn.Linear(16 * 24, 4)

        def forward(self, x):
            out, _ = self.gru(x.transpose(0, 1))
            out = out.contiguous() if wrong else out.transpose(0, 1).contiguous()
            return self.fc(out.view(len(x), -1))

    return Net()


@pair(_series(), "axes-mixed")
def view_instead_of_transpose(wrong):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.conv2, self.fc = nn.Conv1d(8, 32, 3), nn.Conv1d(32, 32, 3), nn.Linear(32, 4)

        def forward(self, x):
            x = x.reshape(len(x), 8, 24) if wrong else x.transpose(1, 2)
            return self.fc(F.relu(self.conv2(F.relu(self.conv1(x)))).mean(2))

    return Net()


@pair(_series(), "norm-axis")
def batch_norm_of_time_steps(wrong):
    class Net(nn.Module):
        def __init__(self, d=32):
            super().__init__()
            self.fc1, self.fc2, self.fc3 = nn.Linear(8, d), nn.Linear(d, d), nn.Linear(d, 4)
            self.bn1, self.bn2 = (nn.BatchNorm1d(24 if wrong else d) for _ in range(2))

        def norm(self, bn, x):
            return bn(x) if wrong else bn(x.transpose(1, 2)).transpose(1, 2)

        def forward(self, x):
            x = F.relu(self.norm(self.bn1, self.fc1(x)))
            x = F.relu(self.norm(self.bn2, self.fc2(x)))
            return self.fc3(x.mean(1))

    return Net()


@pair(_series(32, 1), "vanishing", "collapse", "zero-gradient",
      "dead-units", "constant-data", "norm-axis", "rank-loss", "no-gradient")  # fmt: skip
def layer_norm_of_one_feature(wrong):
    class Net(nn.Module):
        def __init__(self, d=32):
            super().__init__()
            self.norm = nn.LayerNorm(1) if wrong else nn.Identity()
            self.gru, self.fc = nn.GRU(1, d, batch_first=True), nn.Linear(d, 4)

        def forward(self, x):
            return self.fc(self.gru(self.norm(x))[0][:, -1])

    return Net()


def _padded(count, generator):
    text, labels = sentences(target="class")(count, generator)
    lengths = torch.randint(8, 25, (count,), generator=generator)
    lengths[0] = 24
    return {"ids": text, "padding": torch.arange(24)[None] >= lengths[:, None]}, labels


@pair(_padded, "not-finite")
def padding_mask_inverted(wrong):
    class Net(nn.Module):
        def __init__(self, d=32):
            super().__init__()
            self.embed, self.pos = nn.Embedding(64, d), nn.Parameter(0.02 * torch.randn(24, d))
            self.attn, self.norm = nn.MultiheadAttention(d, 4, batch_first=True), nn.LayerNorm(d)
            self.fc = nn.Linear(d, 8)

        def forward(self, ids, padding):
            x = self.embed(ids) + self.pos
            h = self.norm(x)
            h, _ = self.attn(h, h, h, key_padding_mask=~padding if wrong else padding)
            keep = (~padding)[..., None].float()
            return self.fc(((x + h) * keep).sum(1) / keep.sum(1))

    return Net()


@pair(sentences(), "sees-target", loss=per_token)
def causal_mask_off_by_one(wrong):
    model = Encoder(outputs=64, pool=False)
    model.bias = lambda n: torch.full((n, n), float("-inf")).triu(2 if wrong else 1)
    return model


@pair(sentences(), "sees-target", loss=per_token, rate=3e-3)
def language_model_with_centred_convolutions(wrong):
    class Net(nn.Module):
        def __init__(self, d=48):
            super().__init__()
            self.embed = nn.Embedding(64, d)
            self.convs, self.head = nn.ModuleList(nn.Conv1d(d, 2 * d, 3) for _ in range(3)), nn.Linear(d, 64)

        def forward(self, ids):
            x = self.embed(ids).transpose(1, 2)
            for conv in self.convs:
                x = x + F.glu(conv(F.pad(x, (1, 1) if wrong else (2, 0))), dim=1)
            return self.head(x.transpose(1, 2))

    return Net()


@pair(sentences(), "sees-target", loss=per_token, rate=5e-3)
def language_model_that_reads_backwards_too(wrong):
    class Net(nn.Module):
        def __init__(self, d=48):
            super().__init__()
            self.embed, self.rnn = nn.Embedding(64, d), nn.LSTM(d, d, batch_first=True, bidirectional=wrong)
            self.head = nn.Linear(2 * d if wrong else d, 64)

        def forward(self, ids):
            return self.head(self.rnn(self.embed(ids))[0])

    return Net()


@pair(sentences(target="class"), "attention-entropy")
def attention_of_one_wide_head_unscaled(wrong):
    class Net(nn.Module):
        def __init__(self, d=256):
            super().__init__()
            self.embed, self.pos, self.norm = (
                nn.Embedding(64, d),
                nn.Parameter(0.02 * torch.randn(24, d)),
                nn.LayerNorm(d),
            )
            self.q, self.k, self.v, self.fc = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, 8)
            for m in (self.q, self.k, self.v):
                nn.init.xavier_uniform_(m.weight)

        def forward(self, ids):
            x = self.embed(ids) + self.pos
            h = self.norm(x)
            scores = self.q(h) @ self.k(h).transpose(-2, -1)
            if not wrong:
                scores = scores / 16
            return self.fc((x + scores.softmax(-1) @ self.v(h)).mean(1))

    return Net()


@pair(sentences(target="class"), "order-unseen", "no-gradient")
def positions_made_but_not_added(wrong):
    class Net(nn.Module):
        def __init__(self, d=32):
            super().__init__()
            self.embed, self.pos = nn.Embedding(64, d), nn.Embedding(24, d)
            layer = nn.TransformerEncoderLayer(d, 4, 64, batch_first=True)
            self.encoder, self.fc = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(d, 8)

        def forward(self, ids):
            x, where = self.embed(ids), self.pos(torch.arange(ids.shape[1]))
            if not wrong:
                x = x + where
            return self.fc(self.encoder(x).mean(1))

    return Net()


@pair(sentences(target="class"), "collapse", "rank-loss", "embedding-scale", "token-collapse")
def positions_drown_the_words(wrong):
    class Net(nn.Module):
        def __init__(self, d=32):
            super().__init__()
            self.embed, self.pos, self.norm = nn.Embedding(64, d), nn.Embedding(24, d), nn.LayerNorm(d)
            nn.init.normal_(self.embed.weight, std=1e-3 if wrong else 0.02)
            nn.init.normal_(self.pos.weight, std=1.0 if wrong else 0.02)
            layer = nn.TransformerEncoderLayer(d, 4, 64, batch_first=True)
            self.encoder, self.fc = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(d, 8)

        def forward(self, ids):
            return self.fc(self.encoder(self.norm(self.embed(ids) + self.pos(torch.arange(ids.shape[1])))).mean(1))

    return Net()


@pair(sentences(24, 24), "loss-kind", loss=lambda out, t: F.cross_entropy(out.transpose(1, 2), t),
      wrong={"loss": F.cross_entropy})  # fmt: skip
def classes_on_the_axis_of_time(wrong):
    class Net(nn.Module):
        def __init__(self, d=48):
            super().__init__()
            self.embed, self.rnn, self.head = nn.Embedding(24, d), nn.GRU(d, d, batch_first=True), nn.Linear(d, 24)

        def forward(self, ids):
            return self.head(self.rnn(self.embed(ids))[0])

    return Net()


def _flat_target(count, generator):
    x, y = table(16, 1)(count, generator)
    return x, y.squeeze(1)


@pair(_flat_target, "broadcast", loss=F.smooth_l1_loss)
def huber_of_a_column_and_a_row(wrong):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))

        def forward(self, x):
            return self.net(x) if wrong else self.net(x).squeeze(-1)

    return Net()


@pair(
    pictures(16),
    "step-fails",
    error="target",
    wrong={"data": lambda n, g: (lambda x, y: (x, y + 1))(*pictures(16)(n, g))},
)
def labels_that_begin_with_one(wrong):
    return nn.Sequential(conv_bn(3, 16), nn.MaxPool2d(4), nn.Flatten(), nn.Linear(256, 10))


@pair(pictures(16), "step-fails", error="sample")
def view_gives_twice_the_samples(wrong):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.fc = conv_bn(3, 32), nn.Linear(256 if wrong else 512, 10)

        def forward(self, x):
            x = F.max_pool2d(self.conv(x), 4)
            return self.fc(x.view(-1, 256) if wrong else x.view(len(x), -1))

    return Net()
