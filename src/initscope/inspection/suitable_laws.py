"""Which weight laws suit a network: He's for ReLU and its kin, Glorot's for bounded activations and attention."""

from __future__ import annotations

from collections.abc import Sequence

from initscope.geometry import Row
from initscope.graph import call_name

__all__ = ["by_hand", "filled_in", "has_relu", "steers"]

_KINKED = frozenset({"relu", "relu6", "leaky_relu", "leakyrelu", "prelu", "rrelu"})
_BOUNDED = frozenset({"tanh", "sigmoid", "hardtanh", "hardsigmoid", "softsign", "logsigmoid", "erf"})
_OFF_CENTRE = frozenset({"sigmoid", "hardsigmoid", "logsigmoid"})
_AT_THE_END = frozenset({"softmax", "log_softmax", "logsoftmax", "softmin"})
""""Attention" by role, but also the last step of a classifier."""


def steers(rows: Sequence[Row]) -> bool:
    """Whether some weights make scores of an attention, or run in a loop over time."""
    return any(row.role in ("attention", "recurrent") and row.kind.lower() not in _AT_THE_END for row in rows)


def has_relu(rows: Sequence[Row]) -> bool:
    """Whether an activation is a ReLU or a leaky one, which zero sums and mirrored halves are made for."""
    return any(kind in _KINKED for kind in _activations(rows))


def by_hand(verdict: str, rows: Sequence[Row]) -> str:
    """What to change by hand where no weight law mends a verdict of that name; empty where one may.

    Sigmoids between layers pass at most a quarter of a gradient and add a mean to all samples alike. Behind norms the
    size of the weights changes nothing, and without skips gradients grow from norm to norm (Yang et al. 2019).
    """
    if verdict in ("collapse", "gradient-imbalance", "rank-loss") and set() < _activations(rows) <= _OFF_CENTRE:
        return "no initializer helps a stack of sigmoids: replace them by nn.Tanh() or nn.ReLU(), or add norms or skip connections"
    weights, norms = (sum(row.role == role for row in rows) for role in ("weights", "norm"))
    if verdict == "gradient-imbalance" and 2 * norms >= weights and not any(row.role == "merge" for row in rows):
        return "put skip connections around every block, or use fewer: after norms the scale of the weights changes nothing"
    return ""


def filled_in(text: str, rows: Sequence[Row]) -> str:
    """Advice or code with names of functions that suit the network.

    ``{law}`` keeps sizes: He's for ReLU and its kin, Glorot's for bounded activations, attention and loops over time;
    ``{fill}`` is torch's name of the same for one layer; ``{keeping}`` keeps angles too: mirrored weights of ReLUs.
    """
    plain = not steers(rows)
    he = plain and any(kind not in _BOUNDED for kind in _activations(rows))
    law = "he_" if he else "glorot_"
    names = {
        "{law}": law,
        "{fill}": "kaiming_normal_" if he else "xavier_normal_",
        "{keeping}": "looks_linear_" if plain and has_relu(rows) else law,
    }
    for place, name in names.items():
        text = text.replace(place, name)
    return text


def _activations(rows: Sequence[Row]) -> set[str]:
    return {call_name(row.kind.lower()) for row in rows if row.role == "activation"}
