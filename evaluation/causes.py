"""Which codes and names of findings count as the right name of a cause: data, filled from the list of codes."""

from __future__ import annotations

ACCEPTED: dict[str, tuple[str, ...]] = {
    # head and loss
    "output activation": ("clipped-output", "double-softmax", "loss-kind", "constant-output", "dropout-output"),
    "loss": ("loss-kind", "clipped-output", "double-softmax", "broadcast", "target-scale", "loss-scale"),
    # data
    "input scale": ("input-scale", "saturated", "exploding", "loss-at-start", "dead-units"),
    "target scale": ("target-scale", "clipped-output", "loss-at-start"),
    "labels": ("constant-data", "loss-kind", "target-scale"),
    "samples": ("samples-mixed", "constant-data", "stateful"),
    # training
    "learning rate": ("step-fails",),
    "optimizer": ("step-fails",),
    # initialization and architecture
    "initialization": (
        *("symmetric", "clones", "vanishing", "exploding", "collapse", "saturated", "dead-units", "odd-layer"),
        *("gradient-imbalance", "embedding-scale", "loss-at-start", "attention-entropy", "zero-gradient"),
    ),
    "activation": ("linear", "saturated", "dead-units", "vanishing", "collapse", "rank-loss", "zero-gradient"),
    "architecture": ("bottleneck", "rank-loss", "collapse", "vanishing", "exploding", "linear", "dead-units"),
    "normalization": ("norm-axis", "norm-settings", "norm-twice", "precision"),
    "dropout": ("dropout", "dropout-output", "dropout-in-eval"),
    "frozen": ("no-gradient", "zero-gradient", "unregistered"),
    "unregistered": ("unregistered", "no-gradient"),
    "gradient": ("no-gradient", "zero-gradient", "vanishing"),
    "attention": ("attention-entropy", "attention-axis", "token-collapse", "softmax-axis"),
    "mask": ("sees-target", "attention-entropy", "order-unseen", "not-finite"),
    "order": ("order-unseen",),
    "axis": ("axes-mixed", "softmax-axis", "pool-axis", "norm-axis", "samples-mixed", "attention-axis"),
    "shared layer": ("clones", "no-gradient", "unregistered", "collapse"),
    "ignored input": ("no-gradient", "cat-twice", "order-unseen", "constant-data"),
    "leak": ("sees-target",),
    "not finite": ("not-finite", "step-fails", "precision"),
}
"""Accepted codes and names by cause."""


def accepted(causes: tuple[str, ...], names: tuple[str, ...] = ()) -> frozenset[str]:
    """Return all codes and names that count for these causes."""
    return frozenset(names).union(*(ACCEPTED[cause] for cause in causes))
