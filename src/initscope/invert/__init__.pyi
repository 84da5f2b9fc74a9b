# Names of the package for type checkers and editors; lazy_loader reads them from here too.
from . import (
    priors as priors,
)
from .discrimination import (
    Discrimination as Discrimination,
    discriminate as discriminate,
)
from .images import (
    Inversions as Inversions,
    invert_layers as invert_layers,
    psnr as psnr,
    ssim as ssim,
)
from .layers import (
    LayerRecovery as LayerRecovery,
)
from .linear import (
    linear_estimate as linear_estimate,
)
from .rates import (
    ErrorGrowth as ErrorGrowth,
    ErrorRate as ErrorRate,
    error_growth as error_growth,
    error_rate as error_rate,
)
from .recovery import (
    Recovery as Recovery,
    recover as recover,
)
from .sparse import (
    SparseTransition as SparseTransition,
    restricted_isometry as restricted_isometry,
    sparse_transition as sparse_transition,
)
