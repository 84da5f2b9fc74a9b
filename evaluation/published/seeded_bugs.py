"""All seeded bugs, one line of code each, with the findings and layers that are right."""

from __future__ import annotations

import torch
from torch import nn

from evaluation.published.faults import (
    Fault,
    after,
    attentions,
    bytes_of,
    deep_perceptron,
    plain_residual,
    replace_all,
    same_image,
    scale_,
    wide_and_narrow,
    with_constant_channel,
    without_skips,
)
from evaluation.published.initialization import xavier_
from evaluation.published.language import T5, Bert
from evaluation.published.registry import HEALTHY
from evaluation.published.residual import PreActBlock, preact
from evaluation.published.samples import flat_digits
from evaluation.published.vision_transformers import VisionTransformer


class Turned(nn.Module):
    """A norm applied to the transposed tokens."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x):
        return self.norm(x.mT).mT


VANISH = ("vanishing", "odd-layer")
EXPLODE = ("exploding", "odd-layer", "initial-loss")
DEEP = {"build": deep_perceptron, "data": flat_digits}

WEIGHTS = (
    Fault("layers that are copies", "nn.TransformerEncoder",
          lambda m: [layer.load_state_dict(m.encoder.layers[0].state_dict()) for layer in m.encoder.layers],
          ("equal-layers",), ("encoder",)),
    Fault("a layer copied from the one before", "DenseNet-BC",
          lambda m: m[3].conv2.load_state_dict(m[2].conv2.state_dict()), ("equal-layers",), ("2", "3")),
    Fault("a layer of zeros", "tabular MLP", lambda m: [p.zero_() for p in m[3].parameters()],
          ("equal-units", "vanishing", "dead-units", "zero-gradient", "collapse"), ("3", "4")),
    Fault("a layer of equal weights", "VGG-BN", lambda m: m[4].weight.fill_(0.02), ("equal-units",), ("4",)),
    Fault("units drawn once for all", "tabular MLP",
          lambda m: m[3].weight.copy_(m[3].weight[:1].expand_as(m[3].weight)), ("equal-units",), ("3",)),
    Fault("a gain of .1 in one layer", "tabular MLP", lambda m: m[12].weight.mul_(0.1), (*VANISH, "gradient-imbalance"),
          ("12", "13", "14"), DEEP),
    Fault("a gain of 3 in one layer", "tabular MLP", lambda m: m[12].weight.mul_(3), EXPLODE, ("12", "13", "24"), DEEP),
    Fault("a gain of .1 in all layers", "VGG-16", lambda m: scale_(m, 0.1), ("vanishing",)),
    Fault("a gain of 3 in all layers", "VGG-16", lambda m: scale_(m, 3.0), ("exploding",)),
    Fault("all weights × 30", "ViT", lambda m: scale_(m, 30.0),
          ("exploding", "attention-peaked", "initial-loss", "float16-overflow")),
    Fault("recurrent weights × 30", "LSTM", lambda m: scale_(m.recurrence, 30.0), ("saturated",), ("recurrence",)),
    Fault("tanh with weights × 30", "LeNet-5", lambda m: scale_(m, 30.0), ("saturated", "initial-loss")),
    Fault("fan out where widths jump", "tabular MLP",
          lambda m: [nn.init.kaiming_normal_(p, mode="fan_out") for p in m.parameters() if p.dim() > 1],
          ("exploding", "vanishing", "odd-layer", "gradient-imbalance"), (),
          {"build": wide_and_narrow, "data": flat_digits}),
    Fault("tied embeddings of deviation 1", "GPT-2", lambda m: nn.init.normal_(m.words.weight), ("initial-loss",)),
    Fault("a head drawn of deviation 1", "ResNet-20", lambda m: nn.init.normal_(m[-1].weight, std=1.0),
          ("initial-loss", "odd-layer"), ("14", "")),
    Fault("biases that kill", "VGG-BN", lambda m: m[5].bias.fill_(-10.0), ("dead-units",), ("4", "5", "6")),
    Fault("a dead stem", "AlexNet", lambda m: m[0].bias.fill_(-100.0), ("dead-units", "vanishing"), ("0", "1")),
)  # fmt: skip

STRUCTURE = (
    Fault("no activation at all", "tabular MLP", lambda m: replace_all(m, nn.ReLU, nn.Identity), ("no-activation",)),
    Fault("sigmoids in a deep stack", "tabular MLP", lambda m: replace_all(m, nn.ReLU, nn.Sigmoid),
          ("collapse", "gradient-imbalance", "rank-loss", "vanishing"), (), DEEP),
    Fault("no skips at depth 60", "PreAct-ResNet",
          lambda m: [setattr(b, "forward", lambda x, b=b: b.conv2(b.norm2(b.conv1(b.norm1(x).relu())).relu()))
                     for b in m.modules() if isinstance(b, PreActBlock)],
          ("collapse", "gradient-imbalance", "rank-loss", "exploding"), (), {"build": lambda: preact((16,), 30)}),
    Fault("post-norm at depth 64 without scaling", "BERT", xavier_,
          ("token-collapse", "collapse", "gradient-imbalance", "rank-loss"), (), {"build": lambda: Bert(32, 64, 4)}),
    Fault("residual branches too strong", "PreAct-ResNet",
          lambda m: [b.conv2.weight.mul_(12) for b in m.modules() if isinstance(b, PreActBlock)],
          ("exploding", "initial-loss", "gradient-imbalance"), (), {"build": plain_residual}),
    Fault("a bottleneck of 1", "tabular MLP",
          lambda m: [m.__setitem__(3, nn.Linear(128, 1)), m.__setitem__(6, nn.Linear(1, 128))],
          ("rank-loss", "bottleneck", "collapse"), ("3", "4", "5", "6", "7")),
    Fault("groups that cut the information", "VGG-BN", lambda m: after(m[-2], lambda x: x * (torch.arange(512) < 64)),
          ("zero-gradient", "dead-units", "rank-loss", "odd-layer"), ()),
    Fault("batch norm twice", "VGG-BN", lambda m: m.__setitem__(2, nn.BatchNorm2d(32)), ("norm-twice",), ("1", "2")),
    Fault("ReLU on the output", "ResNet-20", lambda m: nn.Sequential(m, nn.ReLU()),
          ("loss-floor", "dead-units"), ("1", "")),
    Fault("a softmax before the loss has its own", "ResNet-20", lambda m: nn.Sequential(m, nn.Softmax(dim=1)),
          ("loss-floor", "probability-output"), ("1", "")),
    Fault("LayerNorm over the tokens", "ViT",
          lambda m: setattr(m.blocks[1], "norm1", Turned(nn.LayerNorm(65))), ("norm-axis",), ("blocks.1",)),
    Fault("dropout of 1", "tabular MLP", lambda m: setattr(m[5], "p", 1.0), ("dropout-all", "zero-gradient"),
          ("5", "0", "3", "6")),
    Fault("log of 0", "tabular MLP", lambda m: after(m[4], torch.log), ("not-finite",), ("4", "5", "6", "log")),
    Fault("a unit divided by its own spread", "autoencoder", lambda m: after(m[1], lambda x: x / x.std(0)),
          ("not-finite",), ("1", "2", "div", "truediv")),
    Fault("a layer behind detach", "BERT", lambda m: after(m.blocks[3], torch.Tensor.detach), ("detached",),
          ("words", "places", "segments", "norm", "blocks.0", "blocks.1", "blocks.2", "blocks.3")),
    Fault("a layer frozen by mistake", "ResNet-20", lambda m: [m[5].requires_grad_(False)], ("frozen-layers",), ("5",)),
    Fault("a layer that nobody calls", "LSTM", lambda m: setattr(m, "extra", nn.Linear(64, 64)), ("unused-layer",),
          ("extra",)),
)  # fmt: skip


ATTENTION = (
    Fault("softmax over the wrong axis", "ViT", lambda m: [setattr(a, "axis", 0) for a in attentions(m)],
          ("softmax-axis",), ("blocks.0",)),
    Fault("attention without its scale", "T5",
          lambda m: [nn.init.normal_(a.query.weight, std=8**-1) for a in attentions(m)], ("attention-peaked",), (),
          {"build": lambda: T5(heads=1)}),
    Fault("attention projections × 100", "ViT",
          lambda m: [p.mul_(100) for a in attentions(m) for p in (a.query.weight, a.key.weight)],
          ("attention-peaked",), ("blocks.0",)),
    Fault("the mask inverted", "GPT-2", lambda m: [setattr(a, "hidden", lambda n, device: torch.ones(n, n).tril() > 0)
                                                   for a in attentions(m)], ("not-finite",), ("blocks.0",)),
    Fault("attention without skips", "ViT", without_skips, ("token-collapse", "collapse", "rank-loss", "vanishing"), (),
          {"build": lambda: xavier_(VisionTransformer(depth=12))}),
)  # fmt: skip

DATA = (
    Fault("inputs of 0…255", "VGG-16", lambda m: None, ("input-scale",), (),
          {"data": bytes_of(HEALTHY["VGG-16"].data)}),
    Fault("a constant channel", "VGG-BN", lambda m: None, ("constant-channels",), (),
          {"data": with_constant_channel(HEALTHY["VGG-BN"].data)}),
    Fault("one image again and again", "VGG-BN", lambda m: None, ("constant-data",), (), {"data": same_image}),
    Fault("float16 that overflows", "ViT", lambda m: m.patches.weight.mul_(3e6), ("float16-overflow", "exploding"),
          ("patches", "")),
)  # fmt: skip

FAULTS: dict[str, Fault] = {fault.name: fault for fault in (*WEIGHTS, *STRUCTURE, *ATTENTION, *DATA)}
"""Every fault by name."""

FEW = (
    *("layers that are copies", "a layer of equal weights", "a gain of .1 in all layers", "recurrent weights × 30"),
    *("tied embeddings of deviation 1", "biases that kill", "no activation at all", "sigmoids in a deep stack"),
    *("ReLU on the output", "a softmax before the loss has its own", "log of 0", "a layer behind detach"),
    *("attention projections × 100", "the mask inverted", "inputs of 0…255"),
)
"""Those for CI."""
