"""IS5: weights and initialization: equal modules, layers and units, one layer unlike its peers."""

from __future__ import annotations

from collections import Counter

from initscope.inspection._checks.declaration import Hit, check
from initscope.inspection.evidence import Evidence

_STRUCTURAL = {"reads": ("weights",), "learning": "info", "stuck": "error"}


@check(
    "IS501", "repeated-module", "warning", **_STRUCTURAL,
    message="{at} is the same module as {original}: [layer] * n makes no copies, so both share their weights.",
    why="n layers then have the weights of one, and depth adds no parameters",
    advice="create a new layer for each position: [make_layer() for _ in range(n)]",
)  # fmt: skip
def _repeated_module(evidence: Evidence, _: float) -> Hit | None:
    """One module with weights occurs several times in a list or Sequential."""
    repeated = evidence.weights.repeated
    if not repeated:
        return None
    layer, original = next(iter(repeated.items()))
    return Hit(evidence.row_of(original), float(len(repeated)), layer, facts={"original": original})


@check(
    "IS502", "equal-layers", "warning", **_STRUCTURAL, reinitialize=True,
    fix="initscope.initializers.{initializer}(model)",
    message="{at} has the same initial weights as {original} ({count}).",
    why="layers that start equal see similar inputs and get similar updates; nn.TransformerEncoder copies one layer",
    advice="initialize every layer after copying: call reset_parameters or an initializer",
)  # fmt: skip
def _equal_layers(evidence: Evidence, _: float) -> Hit | None:
    """Layers have bitwise equal weights. Tied layers, frozen copies and constants are intended and do not count.

    A single pair of equal blocks trains as well as other networks, so it is information.
    """
    clones = evidence.weights.clones
    if not clones:
        return None
    layer, original = next(iter(clones.items()))
    copies = Counter(clones.values()).most_common(1)[0][1]
    count = "1 layer is a copy" if len(clones) == 1 else f"{len(clones)} layers are copies"
    level = None if copies > 1 or len(clones) == 1 else "info"
    facts = {"original": original, "count": count}
    return Hit(evidence.row_of(layer), float(len(clones)), layer, level, facts=facts)  # type: ignore[arg-type]


@check(
    "IS503", "equal-units", "warning", **_STRUCTURAL, reinitialize=True,
    message="{percent:.0f} % of the units of {at} have the same weights as another unit.",
    why="units that start equal get equal gradients and stay equal",
    advice="initialize the weights of this layer at random", references=("Goodfellow et al. 2016, section 8.4",),
    fix='torch.nn.init.{fill}(model.get_submodule("{layer}").weight)',
)  # fmt: skip
def _equal_units(evidence: Evidence, _: float) -> Hit | None:
    """Units of a layer have equal weights. Zeros are intended, and output units learn different weights."""
    downstream = evidence.signal.before_weights
    shares = {path: share for path, share in evidence.weights.symmetric.items() if evidence.row_of(path) in downstream}
    if not shares:
        return None
    layer, worst = next(iter(shares)), max(shares.values())
    every = f"for name in {list(shares)}: torch.nn.init.{{fill}}(model.get_submodule(name).weight)"
    fix = every if len(shares) > 1 else None
    return Hit(evidence.row_of(layer), worst, layer, fix=fix, facts={"percent": 100 * worst})


@check(
    "IS504", "odd-layer", "warning", **_STRUCTURAL, threshold=2.5, reinitialize=True,
    unit="standard deviation of a layer's weights over that of all layers of its name and shape, or the inverse",
    message="The weights of {at} are {ratio:.2g} times as large as those of all other layers of its name and shape.",
    why="one layer out of many of the same shape was initialized differently, perhaps by mistake",
    advice="initialize it like its peers, or say in the code why it differs",
    fix='torch.nn.init.{fill}(model.get_submodule("{layer}").weight)',
)  # fmt: skip
def _odd_layer(evidence: Evidence, threshold: float) -> Hit | None:
    """One layer's weights have another scale than those of at least three peers, which agree within 20 %."""
    odd = {path: max(ratio, 1 / ratio) for path, ratio in evidence.weights.odd.items()}
    beyond = next((path for path, ratio in odd.items() if ratio > threshold), None)
    if beyond is None:
        return None
    return Hit(evidence.row_of(beyond), odd[beyond], beyond, facts={"ratio": evidence.weights.odd[beyond]})
