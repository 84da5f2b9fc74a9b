"""The kernel of a network: expected inner products of all pairs of a data set, for infinitely many units.

`kernel` gives the matrix: by compiled loops for plain stacks, by the rules of `predict` for everything else. Read
``matrix`` first, which chooses; ``by_rules`` is the general way, ``relu_stack``, ``sides`` and ``stacks`` (pooled at
the end: ``pooled``) the fast one.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
