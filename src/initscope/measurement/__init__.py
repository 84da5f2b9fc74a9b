"""Measure: run it and record. `observe` a model on data, `measure` pairs over drawn weights, `mean_width` of data.

All are observers of one run (`initscope.graph`); `record` runs a model over data with an `Observer` of your own.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
