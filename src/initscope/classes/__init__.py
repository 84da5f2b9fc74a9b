"""Classes: what training changes in the geometry of a network, at random points and at class boundaries."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
