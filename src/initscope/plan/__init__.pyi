# Names of the package for type checkers and editors; lazy_loader reads them from here too.
from ._base import (
    Plan as Plan,
)
from .bit_counts import (
    BitsPlan as BitsPlan,
)
from .bit_counts import (
    bits as bits,
)
from .checking import (
    Check as Check,
)
from .checking import (
    check as check,
)
from .depths import (
    DepthPlan as DepthPlan,
)
from .depths import (
    depth as depth,
)
from .expansivities import (
    expansivity as expansivity,
)
from .filter_counts import (
    FiltersPlan as FiltersPlan,
)
from .filter_counts import (
    InnerProductPlan as InnerProductPlan,
)
from .filter_counts import (
    filters as filters,
)
from .gradient_norms import (
    NormRatios as NormRatios,
)
from .gradient_norms import (
    norm_ratios as norm_ratios,
)
from .projections import (
    ProjectionPlan as ProjectionPlan,
)
from .projections import (
    projection as projection,
)
from .subspaces import (
    SubspacePlan as SubspacePlan,
)
from .subspaces import (
    subspace as subspace,
)
from .subspaces import (
    subspace_extremes as subspace_extremes,
)
from .widths import (
    WidthPlan as WidthPlan,
)
from .widths import (
    width as width,
)
