"""Inputs back from outputs, and deciding without reconstructing.

`recover` inverts a layer or a model, `linear_estimate` guesses without solving, `priors` say what inputs look like.
The theory is in `initscope.theory.inversion`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["priors"],
    submod_attrs={
        "layers": ["LayerRecovery"],
        "recovery": ["Recovery", "recover"],
    },
)
