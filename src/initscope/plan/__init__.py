"""Plan: how wide, how deep, how many filters, how many bits: exact where the sources have bounds.

Each planner is one file: the function, the frozen `Plan` that it returns, and how what it planned is drawn; `check`
draws it and counts the failures. In every planner ``eps`` is the distortion and ``delta`` the probability of failure.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
