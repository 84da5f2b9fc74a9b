"""`expansivity`: widths at which random ReLU layers are injective; the planner is part of `initscope.theory`."""

from initscope.theory.injectivity.planning import expansivity

__all__ = ["expansivity"]
