"""Bugs of layers, losses and starts, each beside what it should have been."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.nn import functional as F

from evaluation.declared import pair
from evaluation.development_1.bugs_of_models import dense
from evaluation.development_1.data import labelled_table, masks, pictures, table, unit_pictures, waves
from evaluation.development_1.images import conv_bn


@pair(labelled_table(), "linear", where="3")
def one_activation_forgotten(wrong):
    between = [] if wrong else [nn.ReLU()]
    return nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), *between, nn.Linear(64, 64), nn.ReLU(),
                         nn.Linear(64, 4))  # fmt: skip


@pair(pictures(16), "linear")
def convolutions_without_activation(wrong):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.conv2 = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
            self.pool, self.fc = nn.AvgPool2d(2), nn.Linear(32 * 16, 10)

        def forward(self, x):
            act = (lambda h: h) if wrong else F.relu
            x = self.pool(act(self.conv1(x)))
            x = self.pool(act(self.conv2(x)))
            return self.fc(x.flatten(1))

    return Net()


@pair(pictures(16), "double-softmax", "clipped-output")
def sigmoid_before_cross_entropy(wrong):
    return nn.Sequential(conv_bn(3, 16), nn.MaxPool2d(4), nn.Flatten(), nn.Linear(256, 10),
                         *([nn.Sigmoid()] if wrong else []))  # fmt: skip


@pair(pictures(16), "double-softmax", "loss-kind", loss=F.nll_loss)
def probabilities_to_nll(wrong):
    end = nn.Softmax(1) if wrong else nn.LogSoftmax(1)
    return nn.Sequential(conv_bn(3, 16), nn.MaxPool2d(4), nn.Flatten(), nn.Linear(256, 10), end)


@pair(pictures(16), "loss-kind", loss=F.nll_loss)
def logits_to_nll(wrong):
    end = [] if wrong else [nn.LogSoftmax(1)]
    return nn.Sequential(conv_bn(3, 16), nn.MaxPool2d(4), nn.Flatten(), nn.Linear(256, 10), *end)


@pair(masks(16), "softmax-axis", "loss-kind", "double-softmax", "clipped-output", loss=F.nll_loss)
def log_softmax_over_the_width(wrong):
    return nn.Sequential(conv_bn(3, 16), conv_bn(16, 16), nn.Conv2d(16, 3, 1), nn.LogSoftmax(-1 if wrong else 1))


@pair(table(16, 1), "clipped-output", loss=F.mse_loss)
def relu_on_regression_output(wrong):
    return nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1), *([nn.ReLU()] if wrong else []))


@pair(table(16, 1, 4.0), "clipped-output", loss=F.mse_loss)
def tanh_on_wide_targets(wrong):
    return nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1), *([nn.Tanh()] if wrong else []))


@pair(pictures(16), "clipped-output")
def clamp_on_logits(wrong):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.fc = nn.Sequential(conv_bn(3, 16), nn.MaxPool2d(4), nn.Flatten()), nn.Linear(256, 10)

        def forward(self, x):
            x = self.fc(self.body(x))
            return torch.clamp(x, 0, 1) if wrong else x

    return Net()


@pair(pictures(16), "dead-units", "zero-gradient")
def convolution_bias_of_minus_ten(wrong):
    net = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2),
                        nn.Flatten(), nn.Linear(128, 10))  # fmt: skip
    nn.init.constant_(net[2].bias, -10.0 if wrong else 0.0)
    return net


@pair(labelled_table(), "vanishing", "collapse", "rank-loss", "gradient-imbalance", rate=2e-2)
def sigmoids_ten_deep(wrong):
    return dense(16, *[64] * 10, 4, act=nn.Sigmoid) if wrong else dense(16, *[64] * 3, 4, act=nn.Sigmoid)


@pair(labelled_table(), "saturated", "exploding", "loss-at-start")
def normal_of_deviation_one_with_tanh(wrong):
    net = dense(16, 128, 128, 128, 4, act=nn.Tanh)
    for m in net:
        if isinstance(m, nn.Linear):
            nn.init.normal_(m.weight) if wrong else nn.init.xavier_normal_(m.weight)
    return net


@pair(pictures(28, 1), "exploding", "loss-at-start", "precision")
def randn_parameters_with_relu(wrong):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            sizes = [(784, 256), (256, 256), (256, 256), (256, 10)]
            self.ws = nn.ParameterList(
                torch.randn(a, b) if wrong else torch.randn(a, b) * (2 / a) ** 0.5 for a, b in sizes
            )

        def forward(self, x):
            x = x.flatten(1)
            for w in self.ws[:-1]:
                x = F.relu(x @ w)
            return x @ self.ws[-1]

    return Net()


@pair(labelled_table(), "zero-gradient", "no-gradient", "symmetric", where="0.lora_a")
def both_factors_of_lora_zero(wrong):
    class LoRA(nn.Module):
        def __init__(self, i, o, rank=4):
            super().__init__()
            self.base = nn.Linear(i, o)
            self.base.requires_grad_(False)
            self.lora_a, self.lora_b = nn.Parameter(torch.zeros(rank, i)), nn.Parameter(torch.zeros(o, rank))
            if not wrong:
                nn.init.kaiming_uniform_(self.lora_a)

        def forward(self, x):
            return self.base(x) + x @ self.lora_a.t() @ self.lora_b.t()

    return nn.Sequential(LoRA(16, 64), nn.ReLU(), LoRA(64, 64), nn.ReLU(), nn.Linear(64, 4))


@pair(labelled_table(), "clones")
def experts_are_deep_copies(wrong):
    class MoE(nn.Module):
        def __init__(self, d=32):
            super().__init__()
            expert = nn.Sequential(nn.Linear(d, 64), nn.ReLU(), nn.Linear(64, d))
            fresh = [nn.Sequential(nn.Linear(d, 64), nn.ReLU(), nn.Linear(64, d)) for _ in range(4)]
            self.experts = nn.ModuleList([copy.deepcopy(expert) for _ in range(4)] if wrong else fresh)
            self.first, self.gate, self.head = nn.Linear(16, d), nn.Linear(d, 4), nn.Linear(d, 4)

        def forward(self, x):
            x = F.relu(self.first(x))
            w = self.gate(x).softmax(-1)
            return self.head(x + sum(w[:, i : i + 1] * e(x) for i, e in enumerate(self.experts)))

    return MoE()


@pair(pictures(16), "odd-layer", "loss-at-start", "exploding")
def one_layer_drawn_larger(wrong):
    net = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(),
                        *[m for _ in range(4) for m in (nn.Conv2d(32, 32, 3, padding=1), nn.ReLU())],
                        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))  # fmt: skip
    for m in net:
        if isinstance(m, nn.Conv2d):
            nn.init.kaiming_normal_(m.weight)
    if wrong:
        nn.init.normal_(net[6].weight, std=1.0)
    return net


@pair(pictures(16), "vanishing", "collapse")
def deviation_of_a_thousandth_everywhere(wrong):
    net = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(),
                        *[m for _ in range(6) for m in (nn.Conv2d(32, 32, 3, padding=1), nn.ReLU())],
                        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))  # fmt: skip
    for m in net.modules():
        if isinstance(m, nn.Conv2d | nn.Linear):
            nn.init.normal_(m.weight, std=0.001) if wrong else nn.init.kaiming_normal_(m.weight)
            nn.init.zeros_(m.bias)
    return net


@pair(pictures(16), "vanishing", "zero-gradient", "collapse", "dead-units", "symmetric", "no-gradient")
def norm_gains_zeroed_as_biases(wrong):
    net = nn.Sequential(conv_bn(3, 16), conv_bn(16, 32, stride=2), conv_bn(32, 32), nn.AdaptiveAvgPool2d(1),
                        nn.Flatten(), nn.Linear(32, 10))  # fmt: skip
    for name, p in net.named_parameters():
        if p.dim() < 2 and (wrong or name.endswith("bias")):
            nn.init.zeros_(p)
    return net


@pair(lambda n, g: (lambda x, y: (x.transpose(1, 2), y))(*waves(60, 4)(n, g)), "exploding", "not-finite",
      "gradient-imbalance", "loss-at-start", "precision")  # fmt: skip
def recurrent_relu_explodes(wrong):
    class RNN(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.fc = nn.RNN(4, 64, nonlinearity="relu", batch_first=True), nn.Linear(64, 4)
            if wrong:
                nn.init.normal_(self.rnn.weight_hh_l0, std=0.4)
            else:
                nn.init.eye_(self.rnn.weight_hh_l0)
                nn.init.normal_(self.rnn.weight_ih_l0, std=0.01)

        def forward(self, x):
            return self.fc(self.rnn(x)[0][:, -1])

    return RNN()


@pair(labelled_table(), "exploding", "loss-at-start", "precision")
def sixty_residuals_without_norm(wrong):
    class Block(nn.Module):
        def __init__(self, d=64):
            super().__init__()
            self.fc1, self.fc2 = nn.Linear(d, d), nn.Linear(d, d)
            self.scale = 1.0 if wrong else nn.Parameter(torch.zeros(1))
            nn.init.kaiming_normal_(self.fc1.weight)
            nn.init.kaiming_normal_(self.fc2.weight)

        def forward(self, x):
            return x + self.scale * self.fc2(F.relu(self.fc1(x)))

    return nn.Sequential(nn.Linear(16, 64), *[Block() for _ in range(60)], nn.Linear(64, 4))


@pair(lambda n, g: (lambda x, y: (x, (y % 2).float()))(*pictures(28, 1)(n, g)), "saturated", "loss-at-start",
      "exploding", loss=lambda out, y: F.binary_cross_entropy(out.squeeze(1), y))  # fmt: skip
def discriminator_saturated(wrong):
    net = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.LeakyReLU(0.2), nn.Linear(128, 128), nn.LeakyReLU(0.2),
                        nn.Linear(128, 1), nn.Sigmoid())  # fmt: skip
    if wrong:
        for m in net:
            if isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, 0.0, 1.0)
    return net


@pair(labelled_table(), "collapse", "rank-loss", "vanishing", "double-softmax", "gradient-imbalance")
def softmax_as_hidden_activation(wrong):
    return dense(16, 64, 64, 64, 4, act=lambda: nn.Softmax(-1) if wrong else nn.ReLU())


@pair(labelled_table(), "vanishing", "exploding", "collapse", "gradient-imbalance", "precision")
def residual_multiplied_instead_of_added(wrong):
    class Block(nn.Module):
        def __init__(self, d=64):
            super().__init__()
            self.norm, self.fc1, self.fc2 = nn.LayerNorm(d), nn.Linear(d, d), nn.Linear(d, d)

        def forward(self, x):
            h = self.fc2(F.relu(self.fc1(self.norm(x))))
            return x * h if wrong else x + h

    return nn.Sequential(nn.Linear(16, 64), *[Block() for _ in range(8)], nn.Linear(64, 4))


@pair(unit_pictures(28), "bottleneck", loss=lambda out, x: F.mse_loss(out, x.flatten(1)))
def code_of_one_unit_by_typo(wrong):
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 1 if wrong else 16), nn.ReLU(),
                         nn.Linear(1 if wrong else 16, 128), nn.ReLU(), nn.Linear(128, 784))  # fmt: skip
