"""Random architectures from the list of rules, and whether what is predicted of them is what networks do.

A description is a list of steps with no width in it, so that one architecture is built at two widths: what a network of
width n does differs from the prediction by a/n + b/n² + …, and 2·f(2n) - f(n) by the second term only.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

import initscope
from initscope.initializers import He
from initscope.layers import activation_row

WIDTH = 48
DRAWS = 24
SIDE = 6
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
    steps, place = [], "image" if choose([True, True, False]) else "vector"
    side = SIDE
    if place == "vector":
        steps.append(("flatten",))
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
    kernel = choose([1, 3]) if side >= 3 else 1
    stride = 1 if same else choose([1, 1, 2])
    return ("conv", kernel, stride, choose(PADDINGS) if kernel == 3 else "zeros", choose([True, False]))


def between(choose, place, side):
    """Something that is no bare weight layer."""
    kinds = ["activation"] * 4 + ["norm", "skip", "concatenate", "dropout"]
    if place == "image" and side >= 2:
        kinds += ["average", "largest"]
    kind = choose(kinds)
    if kind == "activation":
        return ("activation", choose(ACTIVATIONS))
    if kind == "norm":
        return ("norm", choose(["layer", "rms", "batch"] if place == "vector" else ["group", "batch"]))
    if kind in ("skip", "concatenate"):
        branch = [("activation", choose(ACTIVATIONS)), weights(choose, place, side, same=True)]
        return (kind, place, branch)
    return (kind,)


def after(step, side):
    if step[0] == "conv":
        return -(-side // step[2])
    return side // 2 if step[0] in ("average", "largest") else side


class Skip(nn.Module):
    def __init__(self, body, join):
        super().__init__()
        self.body, self.join = body, join

    def forward(self, x):
        return x + self.body(x) if self.join == "skip" else torch.cat([x, self.body(x)], dim=1)


def build(steps, width):
    """The network of a description with ``width`` channels or units everywhere."""
    layers, channels, side, flat = [], 3, SIDE, False
    for step in steps:
        if step[0] in ("flatten", "global"):
            layers += [nn.AdaptiveAvgPool2d(1)] if step[0] == "global" else []
            layers.append(nn.Flatten())
            channels, flat = channels * (1 if step[0] == "global" else side * side), True
            continue
        layers.append(layer(step, channels, width, flat))
        if step[0] in ("conv", "linear"):
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
    if kind == "activation":
        return activation_row(step[1]).build()
    if kind == "norm":
        norms = {"layer": nn.LayerNorm, "rms": nn.RMSNorm, "batch": nn.BatchNorm1d if flat else nn.BatchNorm2d}
        return nn.GroupNorm(1, channels) if step[1] == "group" else norms[step[1]](channels)
    if kind in ("skip", "concatenate"):
        out = channels if kind == "skip" else width
        return Skip(nn.Sequential(layer(step[2][0], channels, out, flat), layer(step[2][1], channels, out, flat)), kind)
    return {"dropout": nn.Dropout(0.3), "average": nn.AvgPool2d(2), "largest": nn.MaxPool2d(2)}[kind]


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
    generator = torch.Generator().manual_seed(seed)
    x, noise = torch.randn(2, 3, 3, SIDE, SIDE, generator=generator)
    y = 0.6 * x + 0.8 * noise
    predicted = initscope.predict(build(steps, width), x, y, LAW, seed=seed)
    statuses = tuple(row.status for row in predicted.rows)
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


def report(verdicts):
    """How many architectures were built, how each was predicted, and how many of them wrongly."""
    counts = Counter(verdict.status for verdict in verdicts)
    wrong = sum(verdict.deviation > 5 for verdict in verdicts)
    return {"built": len(verdicts), **counts, "wrong": wrong, "largest deviation": max(v.deviation for v in verdicts)}
