"""Figures and tables of the sources, one file each: what was published, what comes out here, and the picture.

`get` finds one by name, `all_exhibits` lists them; ``get("norms-figure-1").run()`` runs it. Each file has a ``run``
with the published sizes as defaults. Only public names of the library are used: this room is its first user.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=[
        "angle_distortion",
        "backward_norms",
        "barron_rate",
        "binary_images",
        "bound_tightness",
        "boundary_picture",
        "channel_angles",
        "collapse_remedies",
        "collision_search",
        "cosine_scatter",
        "deep_injectivity",
        "energy_curves",
        "euler_surrogate",
        "extremal_images",
        "filter_averages",
        "hashing_table",
        "image_invariances",
        "independence",
        "initializations",
        "injective_share",
        "layer_theorem",
        "norm_failures",
        "norm_preservation",
        "overlap_function",
        "packing_bound",
        "photographs",
        "ranked_pictures",
        "region_counts",
        "resolution",
        "saturation",
        "set_widths",
        "shift_invariance",
        "sign_exponent",
        "sign_isometry",
        "slope_causes",
        "stability_curve",
        "subspace_norms",
        "tessellation",
        "threshold_line",
        "verdict_study",
        "width_variation",
    ],
    submod_attrs={
        "gallery": ["Gallery", "Shown", "reproduce"],
        "protocol": ["Declared", "Exhibit", "Number"],
        "registry": ["all_exhibits", "get"],
    },
)
