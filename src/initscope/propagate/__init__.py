"""Predict: the expected geometry of pairs through a torch model with random weights.

``README.md`` in this folder has a diagram, what is in each file, and what to read first.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
