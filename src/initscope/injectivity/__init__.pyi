# Names of the package for type checkers and editors; lazy_loader reads them from here too.
from . import (
    bounding as bounding,
)
from . import (
    compositions as compositions,
)
from . import (
    decision as decision,
)
from . import (
    frames as frames,
)
from . import (
    milp as milp,
)
from . import (
    proofs as proofs,
)
from . import (
    search as search,
)
from . import (
    summary as summary,
)
from . import (
    verification as verification,
)
from .compositions import (
    Sector as Sector,
)
from .compositions import (
    deep_collision as deep_collision,
)
from .compositions import (
    deep_sectors as deep_sectors,
)
from .decision import (
    decide as decide,
)
from .frames import (
    Stability as Stability,
)
from .frames import (
    stability as stability,
)
from .proofs import (
    Proof as Proof,
)
from .proofs import (
    read_proof as read_proof,
)
from .proofs import (
    write_proof as write_proof,
)
from .records import (
    Certificate as Certificate,
)
from .records import (
    Decision as Decision,
)
from .search import (
    Search as Search,
)
from .search import (
    find_collision as find_collision,
)
from .search import (
    least_active as least_active,
)
from .summary import (
    ThresholdLine as ThresholdLine,
)
from .summary import (
    thresholds as thresholds,
)
from .verification import (
    collision_residual as collision_residual,
)
from .verification import (
    verify as verify,
)
