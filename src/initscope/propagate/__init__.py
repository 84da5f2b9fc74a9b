"""Predict: the expected geometry of pairs through a torch model with random weights."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
