"""`expansivity`: widths at which random ReLU layers are injective; the statement and its plan are one in the theory."""

from initscope.theory.injectivity.planning import expansivity

__all__ = ["expansivity"]
