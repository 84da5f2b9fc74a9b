"""Measure: run it and record. `measure` for pairs through a model, `mean_width` of data; all with standard errors."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={"by_layer": ["LayerWidths", "layer_widths"], "run": ["measure"], "width": ["MeanWidth", "mean_width"]},
)
