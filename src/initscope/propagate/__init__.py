"""Predict: the expected geometry of pairs through a torch model with random weights."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "graph": ["predict"],
        "registry": ["Context", "rule"],
        "state": ["Given", "Maps", "NotCovered"],
    },
)
