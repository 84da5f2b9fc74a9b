"""The rules, by concept. Importing this package registers all of them."""

from initscope.propagate.registry import Context, NotCovered, find_rule, rule
from initscope.propagate.rules import attention, elementwise, merging, norms, pooling, shapes, weights

__all__ = [
    "Context",
    "NotCovered",
    "attention",
    "elementwise",
    "find_rule",
    "merging",
    "norms",
    "pooling",
    "rule",
    "shapes",
    "weights",
]
