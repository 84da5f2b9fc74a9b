"""initscope: what a neural network does to the geometry of data before it has learned anything, and after.

Predict it (`predict`), measure it (`measure`), plan for it, use it. The formulas are in `initscope.theory`.
"""

import lazy_loader

from initscope.results import drawn_by

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=[
        "classes",
        "configurations",
        "coordinates",
        "data",
        "embed",
        "errors",
        "exhibits",
        "geometry",
        "initializers",
        "injectivity",
        "inspection",
        "invert",
        "kernels",
        "measurement",
        "models",
        "plan",
        "pages",
        "results",
        "testing",
        "theory",
    ],
    submod_attrs={
        "inspection": ["inspect"],
        "kernels": ["kernel"],
        "measurement": ["mean_width", "measure"],
        "propagate": ["predict", "rule"],
    },
)

drawn_by("initscope.pages")
