# Names of the package for type checkers and editors; lazy_loader reads them from here too.
from .boundary import (
    BoundaryPoints as BoundaryPoints,
    boundary_points as boundary_points,
)
from .checkpoints import (
    Separations as Separations,
    Shift as Shift,
    separations as separations,
)
from .deciles import (
    AccuracyByDistance as AccuracyByDistance,
    accuracy_by_distance as accuracy_by_distance,
    boundary_distance as boundary_distance,
    extreme_learning as extreme_learning,
)
from .distortion import (
    AngleDistortion as AngleDistortion,
    LayerDistortion as LayerDistortion,
    angle_distortion as angle_distortion,
    vgg16 as vgg16,
)
from .neural_collapse import (
    Collapse as Collapse,
    LayerCollapse as LayerCollapse,
    collapse as collapse,
)
from .ratios import (
    LayerSeparation as LayerSeparation,
    Separation as Separation,
    separation as separation,
)
from .studies import (
    Setting as Setting,
    Study as Study,
    label_study as label_study,
    subset as subset,
    subset_study as subset_study,
)
from .supervised import (
    SMALL_CNN as SMALL_CNN,
    Checkpoint as Checkpoint,
    Milestone as Milestone,
    Training as Training,
    train as train,
)
