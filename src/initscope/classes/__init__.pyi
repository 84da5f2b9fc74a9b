# Names of the package for type checkers and editors; lazy_loader reads them from here too.
from .boundary import (
    BoundaryPoints as BoundaryPoints,
)
from .boundary import (
    boundary_points as boundary_points,
)
from .checkpoints import (
    Separations as Separations,
)
from .checkpoints import (
    Shift as Shift,
)
from .checkpoints import (
    separations as separations,
)
from .deciles import (
    AccuracyByDistance as AccuracyByDistance,
)
from .deciles import (
    accuracy_by_distance as accuracy_by_distance,
)
from .deciles import (
    boundary_distance as boundary_distance,
)
from .deciles import (
    extreme_learning as extreme_learning,
)
from .distortion import (
    AngleDistortion as AngleDistortion,
)
from .distortion import (
    LayerDistortion as LayerDistortion,
)
from .distortion import (
    angle_distortion as angle_distortion,
)
from .distortion import (
    vgg16 as vgg16,
)
from .neural_collapse import (
    Collapse as Collapse,
)
from .neural_collapse import (
    LayerCollapse as LayerCollapse,
)
from .neural_collapse import (
    collapse as collapse,
)
from .ratios import (
    LayerSeparation as LayerSeparation,
)
from .ratios import (
    Separation as Separation,
)
from .ratios import (
    separation as separation,
)
from .studies import (
    Setting as Setting,
)
from .studies import (
    Study as Study,
)
from .studies import (
    label_study as label_study,
)
from .studies import (
    subset as subset,
)
from .studies import (
    subset_study as subset_study,
)
from .supervised import (
    SMALL_CNN as SMALL_CNN,
)
from .supervised import (
    Checkpoint as Checkpoint,
)
from .supervised import (
    Milestone as Milestone,
)
from .supervised import (
    Training as Training,
)
from .supervised import (
    train as train,
)
