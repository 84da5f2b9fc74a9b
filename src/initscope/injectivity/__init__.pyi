# Names of the package for type checkers and editors; lazy_loader reads them from here too.
from . import (
    bounding as bounding,
    compositions as compositions,
    decision as decision,
    frames as frames,
    milp as milp,
    proofs as proofs,
    search as search,
    summary as summary,
    verification as verification,
)
from .compositions import (
    Cone as Cone,
    deep_collision as deep_collision,
    deep_cones as deep_cones,
)
from .decision import (
    decide as decide,
)
from .frames import (
    Stability as Stability,
    stability as stability,
)
from .proofs import (
    Proof as Proof,
    read_proof as read_proof,
    write_proof as write_proof,
)
from .records import (
    Certificate as Certificate,
    Decision as Decision,
)
from .search import (
    Search as Search,
    find_collision as find_collision,
    least_active as least_active,
)
from .summary import (
    ThresholdLine as ThresholdLine,
    thresholds as thresholds,
)
from .verification import (
    collision_residual as collision_residual,
    verify as verify,
)
