# Names of the package for type checkers and editors; lazy_loader reads them from here too.
from ._base import (
    Plan as Plan,
)
from .bit_counts import (
    BitsPlan as BitsPlan,
    bits as bits,
)
from .channel_counts import (
    ChannelsPlan as ChannelsPlan,
    channels as channels,
)
from .checking import (
    Check as Check,
    check as check,
)
from .depths import (
    DepthPlan as DepthPlan,
    depth as depth,
)
from .expansivities import (
    expansivity as expansivity,
)
from .filter_counts import (
    FiltersPlan as FiltersPlan,
    InnerProductPlan as InnerProductPlan,
    filters as filters,
)
from .gradient_norms import (
    NormRatios as NormRatios,
    norm_ratios as norm_ratios,
)
from .projections import (
    ProjectionPlan as ProjectionPlan,
    projection as projection,
)
from .subspaces import (
    SubspacePlan as SubspacePlan,
    subspace as subspace,
    subspace_extremes as subspace_extremes,
)
from .widths import (
    WidthPlan as WidthPlan,
    width as width,
)
