"""More bugs: of batches, sequences, numbers and targets."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from evaluation.declared import bug
from evaluation.development_1.bugs_of_models import Encoder, dense
from evaluation.development_1.data import labelled_table, masks, pictures, sentences, table, waves
from evaluation.development_1.images import conv_bn
from evaluation.development_1.sequences import per_token, torch_encoder_classifier


@bug(lambda n, g: (lambda x, y: (x.transpose(1, 2), y))(*waves(32, 4)(n, g)), "samples-mixed")
def lstm_without_batch_first():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.fc = nn.LSTM(4, 32), nn.Linear(32, 4)

        def forward(self, x):
            out, _ = self.lstm(x)
            return self.fc(out[:, -1])

    return Net()


@bug(pictures(16, 4), "samples-mixed")
def reshape_mixes_the_batch():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.fc = nn.Conv2d(4, 16, 3, padding=1), nn.Linear(4096, 10)

        def forward(self, x):
            x = F.relu(self.conv(x))
            return self.fc(x.permute(1, 2, 3, 0).reshape(len(x), -1))

    return Net()


@bug(labelled_table(), "no-gradient", where="2")
def dropout_takes_nearly_all():
    return nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Dropout(0.99), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))


@bug(sentences(), "sees-target", loss=per_token)
def language_model_without_mask():
    return Encoder(outputs=64, pool=False)


@bug(sentences(), "attention-entropy", "not-finite", "sees-target", loss=per_token)
def causal_mask_inverted():
    model = Encoder(outputs=64, pool=False)
    model.bias = lambda tokens: torch.zeros(tokens, tokens).masked_fill(torch.ones(tokens, tokens).tril() == 1, -1e9)
    return model


@bug(sentences(target="class"), "order-unseen")
def positions_forgotten():
    return Encoder(pos=False)


@bug(labelled_table(), "clones")
def one_layer_times_n():
    return nn.Sequential(nn.Linear(16, 64), nn.ReLU(), *[nn.Linear(64, 64), nn.ReLU()] * 4, nn.Linear(64, 4))


@bug(sentences(target="class"), "attention-entropy", where="encoder.layers.0")
def unit_embeddings_times_root_of_width():
    model = torch_encoder_classifier()
    nn.init.normal_(model.embedding.weight)
    return model


@bug(sentences(), "loss-at-start", loss=per_token)
def tied_head_of_unit_embeddings():
    model = Encoder(512, 64, causal=True, pool=False)
    model.head.weight = model.embed.weight
    return model


@bug(lambda n, g: (lambda x, y: (F.relu(x), y))(*labelled_table()(n, g)), "not-finite")
def logarithm_of_zero():
    class Log(nn.Module):
        def forward(self, x):
            return torch.log(x)

    return nn.Sequential(Log(), nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))


def _some_constant(count, generator):
    rows, labels = labelled_table()(count, generator)
    rows[count // 3] = 1.0
    return rows, labels


@bug(_some_constant, "not-finite")
def division_by_zero_in_one_row():
    class Standardise(nn.Module):
        def forward(self, x):
            return (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)

    return nn.Sequential(Standardise(), nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))


def _with_empty(count, generator):
    words, labels = sentences(target="class")(count, generator)
    words = words.clamp(min=1)
    words[count // 3] = 0
    return words, labels


@bug(_with_empty, "not-finite")
def empty_sentence_all_masked():
    class Net(Encoder):
        def forward(self, ids):
            x, mask = self.pos(self.embed(ids)), torch.where(ids == 0, float("-inf"), 0.0)[:, None, None]
            for b in self.blocks:
                x = x + b["attn"](b["n1"](x), mask)
                x = x + b["mlp"](b["n2"](x))
            return self.head(x.mean(1))

    return Net()


def _same_pairs(count, generator):
    one, _ = table()(count, generator)
    two, _ = table()(count, generator)
    two[::4] = one[::4]
    return (one, two), (torch.arange(count) % 4 == 0).float()


@bug(_same_pairs, "not-finite", loss=lambda d, same: (same * d + (1 - same) * F.relu(1 - d)).mean())
def square_root_at_zero():
    class Distance(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = dense(16, 64, 8)

        def forward(self, one, two):
            return torch.sqrt((self.embed(one) - self.embed(two)).pow(2).sum(1))

    return Distance()


@bug(labelled_table(), "precision", "exploding")
def overflows_in_half():
    class Energy(nn.Module):
        def forward(self, x):
            return x * x.pow(2).sum(1, keepdim=True) ** 2

    return nn.Sequential(nn.Linear(16, 512), nn.ReLU(), Energy(), nn.LayerNorm(512), nn.Linear(512, 4))


@bug(labelled_table(), "saturated")
def saturated_tanh():
    model = dense(16, 64, 64, 64, 4, act=nn.Tanh)
    for m in model[:-1]:
        if isinstance(m, nn.Linear):
            nn.init.normal_(m.weight, std=2.0)
    return model


@bug(labelled_table(), "linear")
def no_activations():
    return nn.Sequential(nn.Linear(16, 64), nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 4))


@bug(pictures(), "vanishing", "collapse", "rank-loss", "gradient-imbalance")
def sigmoid_cnn_of_fifteen():
    layers = [m for _ in range(14) for m in (nn.Conv2d(24, 24, 3, padding=1), nn.Sigmoid())]
    return nn.Sequential(
        nn.Conv2d(3, 24, 3), nn.Sigmoid(), *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 10)
    )


@bug(masks(), "no-gradient")
def decoder_reads_a_numpy_array():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.enc, self.dec = conv_bn(3, 16), nn.Conv2d(16, 3, 1)

        def forward(self, x):
            return self.dec(torch.from_numpy(self.enc(x).detach().numpy()))

    return Net()


@bug(table(16, 1), "broadcast", loss=F.mse_loss)
def targets_broadcast():
    class Flat(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = dense(16, 64, 1)

        def forward(self, x):
            return self.net(x).squeeze(1)

    return Flat()


@bug(table(16, 1, 2e5), "target-scale", loss=F.mse_loss)
def targets_in_dollars():
    return dense(16, 64, 64, 1)


@bug(
    lambda n, g: (F.pad(pictures(28, 2, 10)(n, g)[0], (0, 0, 0, 0, 0, 1)), pictures(28, 2, 10)(n, g)[1]), "input-scale"
)
def a_channel_of_zeros():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(1152, 10)
    )


@bug(labelled_table(), "norm-twice")
def batch_norm_twice():
    return nn.Sequential(
        nn.Linear(16, 64),
        nn.BatchNorm1d(64),
        nn.BatchNorm1d(64),
        nn.ReLU(),
        nn.Linear(64, 64),
        nn.ReLU(),
        nn.Linear(64, 4),
    )


@bug(sentences(target="class"), "token-collapse", "collapse", "rank-loss", "attention-entropy", "bottleneck")
def attention_without_skips():
    class Net(Encoder):
        def forward(self, ids):
            x = self.pos(self.embed(ids))
            for b in self.blocks:
                x = b["mlp"](b["n2"](b["attn"](b["n1"](x))))
            return self.head(x.mean(1))

    return Net(depth=6)


@bug(pictures(28, 1), "gradient-imbalance", "vanishing", "collapse", "rank-loss", "dead-units", "exploding")
def plain_relu_stack_of_fifty():
    return nn.Sequential(nn.Flatten(), dense(784, *[64] * 50, 10))
