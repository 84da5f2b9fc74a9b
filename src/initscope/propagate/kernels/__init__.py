"""The kernel of a network: expected inner products of all pairs of a data set, for infinitely many units.

`kernel` returns the matrix, by compiled loops for plain stacks, and by the rules of `predict` for other models. Read
``matrix`` first: it chooses between ``by_rules``, the general method, and the fast one in ``relu_stack``, ``sides``,
``stacks`` and ``pooled``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
