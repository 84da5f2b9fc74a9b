"""Inputs back from outputs, and deciding without reconstructing.

`recover` inverts a layer or a model, `invert_layers` shows it in pictures, `linear_estimate` guesses without solving,
`priors` say what inputs look like; `error_rate`, `error_growth`, `sparse_transition` set recovery beside theory
(`initscope.theory.inversion`); `discriminate` classifies from measurements that are too few to reconstruct from.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["priors"],
    submod_attrs={
        "discrimination": ["Discrimination", "discriminate"],
        "layers": ["LayerRecovery"],
        "linear": ["linear_estimate"],
        "pictures": ["Inversions", "invert_layers", "psnr", "ssim"],
        "rates": ["ErrorGrowth", "ErrorRate", "error_growth", "error_rate"],
        "recovery": ["Recovery", "recover"],
        "sparse": ["SparseTransition", "restricted_isometry", "sparse_transition"],
    },
)
