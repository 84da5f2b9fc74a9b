"""Figures and tables of the sources, one file each: what was published, what comes out here, and the picture.

Each has a ``run`` with the published sizes as defaults. Only public names of the library are used: this room is its
first user.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=[
        "bound_tightness",
        "hashing_table",
        "independence",
        "initializations",
        "layer_theorem",
        "norm_preservation",
        "set_widths",
        "shift_invariance",
        "sign_exponent",
        "tessellation",
        "width_variation",
    ],
)
