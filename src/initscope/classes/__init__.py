"""Classes: what training changes in the geometry of a network, at random points and at class boundaries."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "boundary": ["BoundaryPoints", "boundary_points"],
        "checkpoints": ["Separations", "Shift", "separations"],
        "deciles": ["AccuracyByDistance", "accuracy_by_distance", "boundary_distance", "extreme_learning"],
        "distortion": ["AngleDistortion", "LayerDistortion", "angle_distortion", "vgg16"],
        "neural_collapse": ["Collapse", "LayerCollapse", "collapse"],
        "ratios": ["LayerSeparation", "Separation", "separation"],
        "studies": ["Setting", "Study", "label_study", "subset", "subset_study"],
        "supervised": ["SMALL_CNN", "Checkpoint", "Milestone", "Training", "train"],
    },
)
