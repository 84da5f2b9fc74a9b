"""Initializers that suit a network: He's for ReLU and similar ones, Glorot's for bounded activations and attention."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from initscope.geometry import Row

__all__ = ["by_hand", "filled_in", "has_relu", "steers"]


def steers(rows: Sequence[Row]) -> bool:
    """Return whether some weights compute attention scores, or run in a loop over time."""
    return any(
        row.traits.product or row.traits.attention in ("fused", "module") or row.role == "recurrent" for row in rows
    )


def has_relu(rows: Sequence[Row]) -> bool:
    """Return whether an activation is a ReLU or leaky ReLU, which zero-sum and mirrored weights are made for."""
    return any(row.traits.rectifier for row in rows)


def by_hand(check: str, rows: Sequence[Row]) -> str:
    """Return what to change by hand if no initializer fixes a finding of that name; empty if one may fix it.

    Sigmoids between layers pass at most a quarter of a gradient and add the same mean to all samples. After norms the
    scale of the weights changes nothing, and without skips gradients grow from norm to norm (Yang et al. 2019).
    """
    if check in ("collapse", "gradient-imbalance", "rank-loss") and _all_off_center(rows):
        change = "replace them by nn.Tanh() or nn.ReLU(), or add norms or skip connections"
        return f"no initializer helps a stack of sigmoids: {change}"
    roles = Counter([row.role for row in rows])
    if check == "gradient-imbalance" and 2 * roles["norm"] >= roles["weights"] and not roles["merge"]:
        return "put skip connections around every block, or use fewer: after norms other weights change nothing"
    return ""


def filled_in(text: str, rows: Sequence[Row]) -> str:
    """Return advice or code with the names of functions that suit the network.

    ``{initializer}`` preserves the scale: He's for ReLU and similar ones, Glorot's for bounded activations, attention
    and loops over time. ``{fill}`` is its name in PyTorch for one layer. ``{keeping}`` also preserves angles: mirrored
    weights for ReLU.
    """
    plain = not steers(rows)
    he = plain and any(not row.traits.bounded for row in rows if row.role == "activation")
    scale = "he_" if he else "glorot_"
    names = {
        "{initializer}": scale,
        "{fill}": "kaiming_normal_" if he else "xavier_normal_",
        "{keeping}": "looks_linear_" if plain and has_relu(rows) else scale,
    }
    for placeholder, name in names.items():
        text = text.replace(placeholder, name)
    return text


def _all_off_center(rows: Sequence[Row]) -> bool:
    """Return whether all activations are bounded with one sign, such as sigmoids."""
    activations = [row.traits for row in rows if row.role == "activation"]
    return bool(activations) and all(
        traits.saturates and traits.bounds[0] * traits.bounds[1] >= 0 for traits in activations
    )
