"""Measure: run it and record. `observe` a model on data, `measure` pairs over drawn weights, `mean_width` of data.

All are tallies of one recording (`initscope.graph`); `record` runs a model over data with a `Tally` of your own.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
