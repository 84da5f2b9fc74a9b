"""Measure: run it and record. `observe` a model on data, `measure` pairs over drawn weights, `mean_width` of data."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "by_layer": ["LayerWidths", "layer_widths"],
        "jacobian": ["JacobianSpectrum", "jacobian_spectrum"],
        "observation": ["Observation", "observe"],
        "packing": ["Packing", "packing_numbers"],
        "run": ["measure"],
        "width": ["MeanWidth", "mean_width"],
    },
)
