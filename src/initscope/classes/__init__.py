"""Classes: what training changes in the geometry of a network, at random points and at class boundaries."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "boundary": ["BoundaryPoints", "boundary_points"],
        "checkpoints": ["Separations", "Shift", "separations"],
        "ratios": ["LayerSeparation", "Separation", "separation"],
        "supervised": ["SMALL_CNN", "Checkpoint", "Evaluation", "Training", "train"],
    },
)
