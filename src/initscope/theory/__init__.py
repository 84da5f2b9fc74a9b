"""What the theorems say: pure functions of arrays, one per statement, no torch and no I/O."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=[
        "activations",
        "angles",
        "attention",
        "concentration",
        "convolutions",
        "images",
        "injectivity",
        "inversion",
        "linear_layers",
        "mean_width",
        "metric_spaces",
        "norms",
        "regions",
        "separation",
        "tails",
    ],
)
