"""Results of prediction and measurement, their tables and pictures, and the one-file page."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "geometry": ["Comparison", "Measurement", "Prediction", "Row"],
        "page": ["write_page"],
    },
)
