"""The rules, by concept. Importing this package registers all of them."""

from initscope.propagate.rules import (
    attention,
    elementwise,
    merging,
    norms,
    pooling,
    routing,
    shapes,
    tied,
    views,
    weights,
)

__all__ = ["attention", "elementwise", "merging", "norms", "pooling", "routing", "shapes", "tied", "views", "weights"]
