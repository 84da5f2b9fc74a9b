"""Which codes and names of findings count as the right name of a cause: data, filled from the list of codes."""

from __future__ import annotations

ACCEPTED: dict[str, tuple[str, ...]] = {
    # head and loss
    "output activation": ("IS201", "IS203", "IS207", "IS208", "IS209", "IS210", "IS811"),
    "loss": ("IS201", "IS202", "IS203", "IS204", "IS207", "IS209", "IS210", "IS211", "IS212", "IS213", "IS811"),
    # data
    "input scale": ("IS601", "IS602", "IS608", "IS106", "IS110", "IS206"),
    "target scale": ("IS606", "IS201", "IS206", "IS213"),
    "labels": ("IS211", "IS212", "IS605", "IS607"),
    "samples": ("IS301", "IS604"),
    "ignored input": ("IS307", "IS320", "IS402", "IS305", "IS603", "IS604"),
    # training
    "learning rate": ("IS403", "IS404", "IS408"),
    "optimizer": ("IS403", "IS404", "IS407", "IS408", "IS409", "IS410"),
    # initialization, activations, architecture
    "initialization": (
        *("IS103", "IS105", "IS106", "IS107", "IS108", "IS109", "IS110", "IS111", "IS113", "IS206", "IS318"),
        *("IS502", "IS503", "IS504"),
    ),
    "activation": ("IS103", "IS105", "IS107", "IS108", "IS109", "IS110", "IS111", "IS801", "IS802", "IS803"),
    "architecture": ("IS103", "IS105", "IS106", "IS108", "IS109", "IS111", "IS112", "IS801", "IS802", "IS804"),
    "normalization": ("IS307", "IS412", "IS805", "IS806", "IS807", "IS808"),
    "dropout": ("IS306", "IS412", "IS809", "IS810"),
    "shared layer": ("IS501", "IS502"),
    # dependence
    "frozen": ("IS308", "IS309", "IS407", "IS409"),
    "unregistered": ("IS310", "IS311", "IS313", "IS407", "IS409"),
    "gradient": ("IS107", "IS210", "IS312", "IS313", "IS315", "IS318", "IS812"),
    "attention": ("IS112", "IS113", "IS316", "IS317"),
    "mask": ("IS101", "IS303", "IS304", "IS316"),
    "leak": ("IS303", "IS304"),
    "axis": ("IS207", "IS212", "IS301", "IS317", "IS806", "IS813"),
    "not finite": ("IS101", "IS102", "IS408", "IS701"),
}
"""Accepted codes by cause."""

FORMER_NAMES: dict[str, tuple[str, ...]] = {
    "attention-axis": ("IS317",),
    "attention-entropy": ("IS113", "IS316", "IS317"),
    "axes-mixed": ("IS813",),
    "bottleneck": ("IS804",),
    "broadcast": ("IS204",),
    "cat-twice": ("IS313", "IS402"),
    "clipped-output": ("IS201", "IS210"),
    "clones": ("IS501", "IS502"),
    "collapse": ("IS103",),
    "constant-data": ("IS604", "IS605"),
    "dead-units": ("IS109",),
    "double-softmax": ("IS201", "IS209"),
    "dropout": ("IS809", "IS810"),
    "dropout-in-eval": ("IS306",),
    "dropout-output": ("IS201",),
    "embedding-scale": ("IS113", "IS206"),
    "exploding": ("IS106",),
    "gradient-imbalance": ("IS108",),
    "input-scale": ("IS601", "IS602", "IS603"),
    "linear": ("IS801", "IS802", "IS803"),
    "loss-at-start": ("IS206",),
    "loss-kind": ("IS201", "IS202", "IS203", "IS207"),
    "loss-scale": ("IS206", "IS404"),
    "no-gradient": ("IS308", "IS309", "IS312", "IS313", "IS315", "IS318", "IS407"),
    "norm-axis": ("IS806",),
    "norm-settings": ("IS807", "IS808"),
    "norm-twice": ("IS805",),
    "not-finite": ("IS101", "IS102", "IS408"),
    "odd-layer": ("IS504",),
    "order-unseen": ("IS305",),
    "pool-axis": ("IS813", "IS402"),
    "precision": ("IS701", "IS702"),
    "rank-loss": ("IS111",),
    "samples-mixed": ("IS301", "IS302"),
    "saturated": ("IS110",),
    "sees-target": ("IS303", "IS304"),
    "softmax-axis": ("IS317",),
    "stateful": ("IS301",),
    "step-fails": ("IS205",),
    "symmetric": ("IS503",),
    "target-scale": ("IS606",),
    "token-collapse": ("IS112",),
    "unregistered": ("IS310", "IS311"),
    "vanishing": ("IS105",),
    "zero-gradient": ("IS107", "IS318"),
}
"""Codes by the names that findings had before there were codes; the development sets use these names."""


def accepted(causes: tuple[str, ...], names: tuple[str, ...] = ()) -> frozenset[str]:
    """Return all codes and names that count for these causes and names."""
    codes = {code for cause in causes for code in ACCEPTED[cause]}
    codes |= {code for name in names for code in FORMER_NAMES.get(name, ())}
    return frozenset({*names, *codes})
