"""What the theorems say: pure functions of arrays, one per statement, no torch and no I/O."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
