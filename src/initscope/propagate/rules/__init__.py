"""The rules, by concept. Importing this package registers all of them."""

from initscope.propagate.registry import Context, NotCovered, find_rule, rule
from initscope.propagate.rules import elementwise, shapes, weights

__all__ = ["Context", "NotCovered", "elementwise", "find_rule", "rule", "shapes", "weights"]
