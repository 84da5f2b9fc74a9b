"""Inspect a model: prediction, measurement, findings and fixes in one `Report`; `checks` lists what is checked."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
