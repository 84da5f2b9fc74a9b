"""initscope: the effect of a neural network on the geometry of data, before training and after.

Predict it (`predict`), measure it (`measure`), plan for it, use it. The formulas are in `initscope.theory`.
"""

import lazy_loader

from initscope.results import set_rendering_module

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

set_rendering_module("initscope.rendering")
