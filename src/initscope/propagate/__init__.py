"""Predict: the expected geometry of pairs through a torch model with random weights."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "prediction": ["predict"],
        "registry": ["Context", "rule"],
        "moments": ["Given", "Maps", "NotCovered"],
    },
)
