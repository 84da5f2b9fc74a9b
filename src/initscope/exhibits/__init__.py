"""Figures and tables of the sources, one file each: what was published, what comes out here, and the picture.

`get` finds one by name, `all_exhibits` lists them; ``get("norms-figure-1").run()`` runs it. Each file has a ``run``
with the published sizes as defaults. Only public names of the library are used: this room is its first user.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=[
        "bound_tightness",
        "collision_search",
        "hashing_table",
        "independence",
        "initializations",
        "layer_theorem",
        "norm_preservation",
        "photographs",
        "resolution",
        "saturation",
        "set_widths",
        "shift_invariance",
        "sign_exponent",
        "stability_curve",
        "tessellation",
        "threshold_line",
        "width_variation",
    ],
    submod_attrs={
        "gallery": ["Gallery", "Shown", "reproduce"],
        "protocol": ["Declared", "Exhibit", "Number"],
        "registry": ["all_exhibits", "get"],
    },
)
