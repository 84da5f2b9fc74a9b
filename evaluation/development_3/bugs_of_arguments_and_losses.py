"""Bugs of arguments, activations, starts, losses, numbers and registration, each beside what it should have been."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from evaluation.declared import pair
from evaluation.development_1.data import labelled_table, pictures, sentences, table, unit_pictures
from evaluation.development_1.sequences import per_token
from evaluation.development_3.generation import _noised, timestep_embedding
from evaluation.development_3.language import GPT, GPTConfig
from evaluation.development_3.series import _last
from evaluation.development_3.tables_and_games import _states


def convolutions(*, act=nn.ReLU, norm=nn.BatchNorm2d, end=()):
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        norm(16),
        act(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        norm(32),
        act(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(512, 64),
        act(),
        nn.Linear(64, 10),
        *end,
    )


@pair(pictures(16), "linear", rate=2e-3)
def leaky_relu_of_true(wrong):
    return convolutions(act=lambda: nn.LeakyReLU(True) if wrong else nn.LeakyReLU(inplace=True))


@pair(pictures(16), "linear", rate=2e-3)
def activation_called_and_dropped(wrong):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.bn1, self.conv2, self.bn2 = (
                nn.Conv2d(3, 16, 3),
                nn.BatchNorm2d(16),
                nn.Conv2d(16, 32, 3),
                nn.BatchNorm2d(32),
            )
            self.pool, self.fc = nn.AvgPool2d(4), nn.Linear(288, 10)

        def forward(self, x):
            x = self.bn1(self.conv1(x))
            if wrong:
                F.relu(x)
            else:
                x = F.relu(x)
            x = self.bn2(self.conv2(x))
            if wrong:
                F.relu(x)
            else:
                x = F.relu(x)
            return self.fc(self.pool(x).flatten(1))

    return Net()


@pair(pictures(16), "norm-settings", rate=2e-3)
def batch_norm_with_eps_of_eight_tenths(wrong):
    return convolutions(norm=lambda c: nn.BatchNorm2d(c, 0.8) if wrong else nn.BatchNorm2d(c, momentum=0.2))


@pair(pictures(16), "norm-settings", rate=2e-3)
def batch_norm_with_momentum_of_keras(wrong):
    return convolutions(norm=lambda c: nn.BatchNorm2d(c, momentum=0.99 if wrong else 0.01, eps=1e-3))


@pair(pictures(16), "dropout-output", "clipped-output", rate=2e-3)
def dropout_on_the_logits(wrong):
    return convolutions(end=[nn.Dropout(0.5)] if wrong else [])


@pair(pictures(16), "clipped-output", rate=2e-3)
def tanh_on_the_logits(wrong):
    return convolutions(end=[nn.Tanh()] if wrong else [])


@pair(pictures(16), "clipped-output", "loss-scale", rate=2e-3)
def cosines_without_a_scale(wrong):
    class Cosine(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(3, 32, 3, 2, 1),
                nn.ReLU(),
                nn.Conv2d(32, 32, 3, 2, 1),
                nn.ReLU(),
                nn.Flatten(),
                nn.Linear(512, 48),
            )
            self.proxies = nn.Parameter(torch.randn(10, 48))

        def forward(self, x):
            cosine = F.normalize(self.body(x), dim=1) @ F.normalize(self.proxies, dim=1).t()
            return cosine if wrong else 16 * cosine

    return Cosine()


def _signed(count, generator):
    x, _ = unit_pictures(16)(count, generator)
    return 2 * x - 1, 2 * x - 1


def decoder(end):
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(256, 64),
        nn.ReLU(),
        nn.Linear(64, 16),
        nn.ReLU(),
        nn.Linear(16, 64),
        nn.ReLU(),
        nn.Linear(64, 256),
        end,
        nn.Unflatten(1, (1, 16, 16)),
    )


@pair(_signed, "clipped-output", loss=F.mse_loss, rate=3e-3)
def sigmoid_for_pictures_of_both_signs(wrong):
    return decoder(nn.Sigmoid() if wrong else nn.Tanh())


@pair(unit_pictures(16), "loss-kind", "step-fails", loss=F.binary_cross_entropy, rate=3e-3)
def tanh_before_binary_cross_entropy(wrong):
    return decoder(nn.Tanh() if wrong else nn.Sigmoid())


@pair(
    unit_pictures(16),
    "clipped-output",
    "target-scale",
    loss=F.mse_loss,
    rate=3e-3,
    wrong={"data": lambda n, g: (lambda x, _: (x, 255 * x))(*unit_pictures(16)(n, g))},
)
def targets_in_bytes(wrong):
    return decoder(nn.Sigmoid())


def _actor_critic(flat):
    def loss(out, seen):
        logits, value = out
        logp = torch.distributions.Categorical(logits=logits).log_prob(seen["action"])
        value = value.squeeze(1) if flat else value
        advantage = seen["returns"] - value
        return -(logp * advantage.detach()).mean() + advantage.pow(2).mean()

    return loss


@pair(_states, "broadcast", loss=_actor_critic(True), rate=3e-3, wrong={"loss": _actor_critic(False)})
def advantage_of_all_with_all(wrong):
    class ActorCritic(nn.Module):
        def __init__(self):
            super().__init__()
            self.affine, self.action_head, self.value_head = nn.Linear(8, 64), nn.Linear(64, 4), nn.Linear(64, 1)

        def forward(self, x):
            x = F.relu(self.affine(x))
            return self.action_head(x), self.value_head(x)

    return ActorCritic()


@pair(labelled_table(), "no-gradient", where="scale", rate=3e-3)
def weight_read_by_its_data(wrong):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale, self.fc1, self.fc2 = nn.Parameter(torch.randn(16, 48) / 4), nn.Linear(48, 48), nn.Linear(48, 4)

        def forward(self, x):
            x = torch.tanh(x @ (self.scale.data if wrong else self.scale))
            return self.fc2(F.relu(self.fc1(x)))

    return Net()


@pair(sentences(target="class"), "no-gradient", rate=3e-3)
def token_that_is_no_parameter(wrong):
    class Net(nn.Module):
        def __init__(self, d=48):
            super().__init__()
            self.embed, self.layer = (
                nn.Embedding(64, d),
                nn.TransformerEncoderLayer(d, 4, 96, batch_first=True, norm_first=True),
            )
            self.pos = 0.02 * torch.randn(1, 25, d)
            self.cls = (0.02 * torch.randn(1, 1, d)).requires_grad_()
            if not wrong:
                self.cls, self.pos = nn.Parameter(self.cls.detach()), nn.Parameter(self.pos)
            self.fc = nn.Linear(d, 8)

        def forward(self, x):
            x = torch.cat([self.cls.expand(len(x), -1, -1), self.embed(x)], 1) + self.pos
            return self.fc(self.layer(x)[:, 0])

    return Net()


@pair(
    lambda n, g: (lambda x, y: ((x[:, :8], x[:, 8:]), y))(*labelled_table()(n, g)),
    "no-gradient",
    where="right",
    rate=3e-3,
)
def left_joined_with_itself(wrong):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.left, self.right, self.head = nn.Linear(8, 32), nn.Linear(8, 32), nn.Linear(64, 4)

        def forward(self, a, b):
            a, b = F.relu(self.left(a)), F.relu(self.right(b))
            return self.head(torch.cat([a, a if wrong else b], 1))

    return Net()


@pair(_noised, "no-gradient", where="time", loss=F.mse_loss, rate=2e-3)
def time_embedded_and_not_added(wrong):
    class Denoiser(nn.Module):
        def __init__(self, c=32):
            super().__init__()
            self.time, self.first, self.norm = nn.Linear(32, c), nn.Conv2d(3, c, 3, padding=1), nn.GroupNorm(4, c)
            self.second, self.out = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, 3, 3, padding=1)

        def forward(self, x, t):
            emb = self.time(timestep_embedding(t, 32))[:, :, None, None]
            h = F.silu(self.norm(self.first(x)))
            h = self.second(h if wrong else h + emb)
            return self.out(F.silu(h))

    return Denoiser()


@pair(unit_pictures(16), "cat-twice", "clones", loss=F.mse_loss, rate=2e-3)
def skip_joins_the_decoder_with_itself(wrong):
    class UNet(nn.Module):
        def __init__(self, c=16):
            super().__init__()
            self.e1, self.e2 = nn.Conv2d(1, c, 3, padding=1), nn.Conv2d(c, 2 * c, 3, 2, 1)
            self.up, self.d1, self.out = (
                nn.ConvTranspose2d(2 * c, c, 2, 2),
                nn.Conv2d(2 * c, c, 3, padding=1),
                nn.Conv2d(c, 1, 1),
            )

        def forward(self, x):
            e1 = F.relu(self.e1(x))
            d1 = self.up(F.relu(self.e2(e1)))
            return self.out(F.relu(self.d1(torch.cat([d1, d1 if wrong else e1], 1))))

    return UNet()


@pair(
    sentences(),
    "attention-entropy",
    "exploding",
    "loss-at-start",
    "precision",
    loss=lambda out, y: per_token(out[0], y),
    rate=3e-3,
)
def normal_with_the_deviation_as_mean(wrong):
    model = GPT(GPTConfig(n_layer=3, dropout=0.0))
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, 0.02) if wrong else nn.init.normal_(module.weight, std=0.02)
    return model


@pair(labelled_table(), "collapse", "exploding", "rank-loss", "loss-at-start", rate=3e-3)
def uniform_between_zero_and_one(wrong):
    net = nn.Sequential(
        *[m for i in range(4) for m in (nn.Linear(16 if i == 0 else 64, 64), nn.ReLU())], nn.Linear(64, 4)
    )
    for m in net:
        if isinstance(m, nn.Linear):
            nn.init.uniform_(m.weight) if wrong else nn.init.kaiming_uniform_(m.weight)
    return net


@pair(table(16), "collapse", "exploding", "rank-loss", "loss-at-start", "saturated", loss=F.mse_loss, rate=3e-3)
def parameters_of_rand_for_randn(wrong):
    class Layer(nn.Module):
        def __init__(self, i, o):
            super().__init__()
            self.w, self.b = (
                nn.Parameter(torch.rand(i, o) if wrong else torch.randn(i, o) / i**0.5),
                nn.Parameter(torch.zeros(o)),
            )

        def forward(self, x):
            return x @ self.w + self.b

    return nn.Sequential(Layer(16, 48), nn.Tanh(), Layer(48, 48), nn.Tanh(), Layer(48, 48), nn.Tanh(), Layer(48, 1))


@pair(_last, "saturated", "zero-gradient", "vanishing", "collapse", rate=3e-3)
def all_gates_biased_by_ten(wrong):
    class Net(nn.Module):
        def __init__(self, h=32):
            super().__init__()
            self.lstm, self.fc = nn.LSTM(4, h, batch_first=True), nn.Linear(h, 4)
            if wrong:
                nn.init.constant_(self.lstm.bias_ih_l0, 10.0)
            else:
                self.lstm.bias_ih_l0.data[h : 2 * h] = 1.0

        def forward(self, x):
            return self.fc(self.lstm(x)[0][:, -1])

    return Net()


def _flag(count, generator):
    x, y = labelled_table(8)(count, generator)
    x[:, 5] = 1.0
    return x, y


@pair(_flag, "not-finite", rate=3e-3)
def scaled_by_the_range_of_a_constant(wrong):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))

        def forward(self, x):
            low, high = x.amin(0, keepdim=True), x.amax(0, keepdim=True)
            return self.net((x - low) / (high - low if wrong else (high - low).clamp(min=1e-6)))

    return Net()


@pair(table(16), "not-finite", loss=F.mse_loss, rate=3e-3)
def where_around_a_logarithm(wrong):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1, self.fc2 = nn.Linear(16, 48), nn.Linear(48, 1)

        def forward(self, x):
            h = F.dropout(F.softplus(self.fc1(x)), 0.2, self.training)
            h = torch.where(h > 0, torch.log(h), torch.zeros_like(h)) if wrong else torch.log1p(h)
            return self.fc2(h)

    return Net()


@pair(pictures(16), "not-finite", rate=2e-3)
def weight_norm_of_zeros(wrong):
    net = convolutions(norm=lambda c: nn.Identity())
    if wrong:
        nn.init.zeros_(net[4].weight)
    net[4] = nn.utils.parametrizations.weight_norm(net[4])
    return net


def _soft(count, generator):
    x, y = labelled_table()(count, generator)
    return x, F.softmax(3 * F.one_hot(y, 4).float(), -1)


def _divergence(out, target):
    return F.kl_div(out, target, reduction="batchmean")


@pair(_soft, "loss-kind", "double-softmax", loss=_divergence, rate=3e-3)
def divergence_of_probabilities(wrong):
    return nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 4), nn.Softmax(-1) if wrong else nn.LogSoftmax(-1))


@pair(
    labelled_table(),
    "no-gradient",
    "zero-gradient",
    "step-fails",
    rate=3e-3,
    wrong={"loss": lambda out, y: torch.tensor(F.cross_entropy(out, y).item(), requires_grad=True)},
)
def loss_wrapped_anew(wrong):
    return nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 4))


@pair(
    labelled_table(),
    "no-gradient",
    "zero-gradient",
    "step-fails",
    rate=3e-3,
    wrong={"loss": lambda out, y: F.l1_loss(out.argmax(1).float(), y.float())},
)
def loss_of_the_argmax(wrong):
    return nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 4))
