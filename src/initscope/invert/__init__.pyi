# Names of the package for type checkers and editors; lazy_loader reads them from here too.
from . import (
    priors as priors,
)
from .discrimination import (
    Discrimination as Discrimination,
)
from .discrimination import (
    discriminate as discriminate,
)
from .layers import (
    LayerRecovery as LayerRecovery,
)
from .linear import (
    linear_estimate as linear_estimate,
)
from .pictures import (
    Inversions as Inversions,
)
from .pictures import (
    invert_layers as invert_layers,
)
from .pictures import (
    psnr as psnr,
)
from .pictures import (
    ssim as ssim,
)
from .rates import (
    ErrorGrowth as ErrorGrowth,
)
from .rates import (
    ErrorRate as ErrorRate,
)
from .rates import (
    error_growth as error_growth,
)
from .rates import (
    error_rate as error_rate,
)
from .recovery import (
    Recovery as Recovery,
)
from .recovery import (
    recover as recover,
)
from .sparse import (
    SparseTransition as SparseTransition,
)
from .sparse import (
    restricted_isometry as restricted_isometry,
)
from .sparse import (
    sparse_transition as sparse_transition,
)
