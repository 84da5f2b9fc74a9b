"""Measure: run it and record. `mean_width` of data is here; every estimate carries its standard error."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={"width": ["MeanWidth", "mean_width"]},
)
