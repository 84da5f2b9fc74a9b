"""Random architectures from the list of rules, and whether what is predicted of them is what networks do.

A description is a list of steps with no width in it, so that one architecture is built at two widths: what a network of
width n does differs from the prediction by a/n + b/n² + …, and 2·f(2n) - f(n) by the second term only.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

import initscope
from initscope.graph import activation_row
from initscope.initializers import He

WIDTH = 48
DRAWS = 24
SIDE = 6
VOCABULARY = 50
LAW = He(bias_variance=0.05)
# Without exp, whose variance doubles in every layer: a handful of units carries all of it at any width that runs here.
ACTIVATIONS = (
    "abs", "celu", "cos", "elu", "erf", "gaussian", "gelu", "gelu_tanh", "hardshrink", "hardsigmoid", "hardswish",
    "hardtanh", "leaky_relu", "logsigmoid", "mish", "relu", "relu6", "selu", "sigmoid", "sign", "silu", "sin",
    "softplus", "softshrink", "softsign", "step", "tanh", "tanhshrink",
)  # fmt: skip
PADDINGS = ("zeros", "circular", "reflect", "replicate")


def describe(choose):
    """A description; ``choose`` picks one of a list, as hypothesis or a generator does."""
    place = choose(["image", "image", "vector", "tokens"])
    steps, side = [], SIDE
    if place == "vector":
        steps.append(("flatten",))
    if place == "tokens":
        steps.append((choose(["embedding", "patches"]),))
        for _ in range(choose([1, 2])):
            steps += [("linear", choose([True, False])), between_tokens(choose), between_tokens(choose)]
        return [*steps, ("pool tokens",)] if choose([True, False]) else steps
    for _ in range(choose([1, 2, 3])):
        steps.append(weights(choose, place, side))
        side = after(steps[-1], side)
        for _ in range(choose([1, 1, 2])):
            steps.append(between(choose, place, side))
            side = after(steps[-1], side)
        if place == "image" and choose([True, False, False]):
            steps.append((choose(["flatten", "global"]),))
            place = "vector"
    return [*steps, ("linear", choose([True, False]))] if place == "vector" and choose([True, False]) else steps


def weights(choose, place, side, *, same=False):
    if place == "vector":
        return ("linear", choose([True, False]))
    other = choose(["conv"] * 6 + ["depthwise", "grouped", "transposed"]) if not same else "conv"
    if other != "conv":
        return (other, choose([True, False]))
    kernel = choose([1, 3]) if side >= 3 else 1
    stride = 1 if same else choose([1, 1, 2])
    return ("conv", kernel, stride, choose(PADDINGS) if kernel == 3 else "zeros", choose([True, False]))


def between(choose, place, side):
    """Something that is no bare weight layer."""
    kinds = ["activation"] * 5 + ["norm", "skip", "concatenate", "gate", "glu", "dropout", "prelu"]
    if place == "image":
        kinds += ["pad", "upsample"] if side <= 4 else ["pad"]
        kinds += ["average", "largest", "squares"] if side >= 2 else []
    kind = choose(kinds)
    if kind == "activation":
        return ("activation", choose(ACTIVATIONS))
    if kind == "norm":
        return ("norm", choose(["layer", "rms", "batch"] if place == "vector" else ["group", "batch", "instance"]))
    if kind in ("skip", "concatenate", "gate"):
        branch = [("activation", choose(ACTIVATIONS)), weights(choose, place, side, same=True)]
        return (kind, place, branch)
    return (kind,)


def between_tokens(choose):
    """Something between the weights of a transformer."""
    kind = choose(["attention", "attention", "activation", "norm", "skip", "gate", "dropout"])
    if kind == "attention":
        return ("attention", choose([1, 2, 4]), choose([True, False]), choose([True, False]))
    if kind == "activation":
        return ("activation", choose(ACTIVATIONS))
    if kind == "norm":
        return ("norm", choose(["layer", "rms"]))
    if kind in ("skip", "gate"):
        return (kind, "tokens", [("activation", choose(ACTIVATIONS)), ("linear", choose([True, False]))])
    return (kind,)


def after(step, side):
    if step[0] == "conv":
        return -(-side // step[2])
    sizes = {"transposed": 2 * side, "upsample": 2 * side, "pad": side + 2}
    return side // 2 if step[0] in ("average", "largest", "squares") else sizes.get(step[0], side)


class Joined(nn.Module):
    """A layer's input and a branch behind it: added, side by side, or multiplied by the branch's sigmoid."""

    def __init__(self, body, join):
        super().__init__()
        self.body, self.join = body, join

    def forward(self, x):
        if self.join == "gate":
            return x * torch.sigmoid(self.body(x))
        return x + self.body(x) if self.join == "skip" else torch.cat([x, self.body(x)], dim=1)


class Patches(nn.Module):
    """Every position of an image is a token."""

    def forward(self, x):
        return x.flatten(2).transpose(1, 2)


class Pooled(nn.Module):
    def forward(self, x):
        return x.mean(dim=1)


class Attention(nn.Module):
    """Self-attention, with a skip or without."""

    def __init__(self, width, heads, causal, skip):
        super().__init__()
        self.heads, self.causal, self.skip = heads, causal, skip
        self.query, self.key, self.value, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x):
        split = (self.heads, x.shape[2] // self.heads)
        q, k, v = (layer(x).unflatten(2, split).transpose(1, 2) for layer in (self.query, self.key, self.value))
        found = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        found = self.out(found.transpose(1, 2).flatten(2))
        return x + found if self.skip else found


def build(steps, width):
    """The network of a description with ``width`` channels or units everywhere."""
    layers, channels, side, flat = [], 3, SIDE, steps[0][0] in ("embedding", "patches")
    for step in steps:
        if step[0] == "embedding":
            channels = 6
            words = torch.randn(VOCABULARY, channels, generator=torch.Generator().manual_seed(0))
            layers.append(nn.Embedding.from_pretrained(words))  # embeddings are taken as they are
            continue
        if step[0] in ("flatten", "global"):
            layers += [nn.AdaptiveAvgPool2d(1)] if step[0] == "global" else []
            layers.append(nn.Flatten())
            channels, flat = channels * (1 if step[0] == "global" else side * side), True
            continue
        layers.append(layer(step, channels, width, flat))
        if step[0] in ("conv", "linear", "transposed", "grouped", "depthwise"):
            channels = width
        elif step[0] == "concatenate":
            channels += width
        side = after(step, side)
    return nn.Sequential(*layers).eval()


def layer(step, channels, width, flat):
    kind = step[0]
    if kind == "conv":
        _, kernel, stride, padding, bias = step
        return nn.Conv2d(channels, width, kernel, stride, kernel // 2, padding_mode=padding, bias=bias)
    if kind == "linear":
        return nn.Linear(channels, width, bias=step[1])
    if kind == "depthwise":
        apart = nn.Conv2d(width, width, 3, padding=1, groups=width, bias=step[1])
        return nn.Sequential(nn.Conv2d(channels, width, 1, bias=False), apart)
    if kind == "grouped":
        return nn.Conv2d(channels, width, 3, padding=1, groups=2 if channels % 2 == 0 else 1, bias=step[1])
    if kind == "transposed":
        return nn.ConvTranspose2d(channels, width, 2, stride=2, bias=step[1])
    if kind == "glu":
        double = nn.Linear(channels, 2 * channels) if flat else nn.Conv2d(channels, 2 * channels, 1)
        return nn.Sequential(double, nn.GLU(dim=1))
    if kind == "attention":
        return Attention(channels, *step[1:])
    if kind == "activation":
        return activation_row(step[1]).build()
    if kind == "norm":
        norms = {"layer": nn.LayerNorm, "rms": nn.RMSNorm, "batch": nn.BatchNorm1d if flat else nn.BatchNorm2d}
        norms["instance"] = nn.InstanceNorm2d
        return nn.GroupNorm(1, channels) if step[1] == "group" else norms[step[1]](channels)
    if kind in ("skip", "concatenate", "gate"):
        out = width if kind == "concatenate" else channels
        return Joined(
            nn.Sequential(layer(step[2][0], channels, out, flat), layer(step[2][1], channels, out, flat)), kind
        )
    return {
        "dropout": nn.Dropout(0.3), "prelu": nn.PReLU(),
        "pad": nn.ZeroPad2d(1), "upsample": nn.Upsample(scale_factor=2),
        "average": nn.AvgPool2d(2), "largest": nn.MaxPool2d(2), "squares": nn.LPPool2d(2, 2),
        "patches": Patches(), "pool tokens": Pooled(),
    }[kind]  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """Statuses of the prediction's rows, and the largest deviation in standard errors among rows that claim truth."""

    statuses: tuple[str, ...]
    deviation: float
    where: str

    @property
    def status(self):
        """The weakest of them."""
        from initscope.geometry import weakest

        return weakest(*self.statuses)


def judge(steps, *, seed=0, draws=DRAWS, width=WIDTH, breaking=0.0):
    """Prediction against simulation: mean cosine of three pairs and root mean square after every layer.

    Where 5 standard errors are passed, ten times the draws at twice the width decide. ``breaking`` is added to
    predicted cosines, to see that the check would see it.
    """
    x, y = pairs(steps, torch.Generator().manual_seed(seed))
    predicted = initscope.predict(build(steps, width), x, y, LAW, seed=seed)
    statuses = tuple(row.status for row in predicted.rows[1:])
    runs = [
        initscope.measure(build(steps, times * width), x, y, initializer=LAW, draws=draws, seed=seed + times)
        for times in (1, 2)
    ]
    largest, where = 0.0, ""
    for number, row in enumerate(predicted.rows):
        if number == 0 or row.status in ("approximate", "not covered"):
            continue
        for name, deviation in deviations(predicted, runs, number, breaking).items():
            if deviation > largest:
                largest, where = deviation, f"{name} after {row.layer} ({row.kind})"
    if largest > 5 and draws == DRAWS:
        return judge(steps, seed=seed + 100, draws=4 * draws, width=2 * width, breaking=breaking)
    return Verdict(statuses, largest, where)


def pairs(steps, generator):
    """Three pairs: images, or sentences of which half of the words are the same."""
    if steps[0] == ("embedding",):
        x, y = torch.randint(VOCABULARY, (2, 3, 8), generator=generator)
        return x, torch.where(torch.arange(8) < 4, x, y)
    x, noise = torch.randn(2, 3, 3, SIDE, SIDE, generator=generator)
    return x, 0.6 * x + 0.8 * noise


def deviations(predicted, runs, number, breaking):
    """In standard errors, of the value extrapolated from two widths; rounding and sampling of the prediction added."""
    result = {}
    sampled = 0.0 if predicted.cosine_se is None else np.nan_to_num(predicted.cosine_se[number]).max()
    for name, ours in (("cosine", predicted.cosine + breaking), ("rms_ratio", predicted.rms_ratio)):
        expected = float(np.nanmean(ours[number]))
        values = [float(np.nanmean(getattr(run, name)[number])) for run in runs]
        errors = [_error(run, name, number, value) for run, value in zip(runs, values, strict=True)]
        extrapolated, error = 2 * values[1] - values[0], np.hypot(2 * errors[1], errors[0])
        error = np.hypot(error, 2 * sampled) + 1e-5 * max(1.0, abs(expected))
        result[name] = float(abs(extrapolated - expected) / error)
    return result


def _error(run, name, number, value):
    """Standard error of a mean over pairs."""
    if name == "cosine":
        return np.nan_to_num(run.mean_cosine_se[number])
    return value * np.nan_to_num(run.mean_norm_ratio_se[number] / np.nanmean(run.norm_ratio[number]))


def kinds(steps):
    """What a description is made of, branches included: names of steps, activations apart from each other."""
    found = set()
    for name, *more in steps:
        found.add(f"{more[0]} norm" if name == "norm" else name)
        for branch in more:
            found |= kinds(branch) if isinstance(branch, list) else set()
    return found
