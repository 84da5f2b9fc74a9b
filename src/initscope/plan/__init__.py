"""Planners: the width, depth, number of filters or number of bits for a given distortion and failure probability.

Each planner is one file with the function, the frozen `Plan` that it returns, and its simulation; `check` runs the
simulation and counts the failures. In every planner ``eps`` is the distortion and ``delta`` the failure probability.
Where the papers give bounds, the planners also give the exact number.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
