# Names of the package for type checkers and editors; lazy_loader reads them from here too.
from . import (
    bounds as bounds,
)
from . import (
    cones as cones,
)
from . import (
    euler as euler,
)
from . import (
    finite_size as finite_size,
)
from . import (
    finite_temperature as finite_temperature,
)
from . import (
    parisi as parisi,
)
from . import (
    parisi_functional as parisi_functional,
)
from . import (
    parisi_grid as parisi_grid,
)
from . import (
    planning as planning,
)
from . import (
    replica as replica,
)
from ._estimate import (
    Estimate as Estimate,
)
from .bounds import (
    cover_probability_bound as cover_probability_bound,
)
from .bounds import (
    cover_threshold as cover_threshold,
)
from .bounds import (
    deep_expansivity as deep_expansivity,
)
from .bounds import (
    union_failure_bound as union_failure_bound,
)
from .bounds import (
    union_threshold as union_threshold,
)
from .cones import (
    circular_volumes as circular_volumes,
)
from .cones import (
    crofton_probability as crofton_probability,
)
from .cones import (
    euler_of_layer as euler_of_layer,
)
from .cones import (
    orthant_volumes as orthant_volumes,
)
from .cones import (
    product_volumes as product_volumes,
)
from .cones import (
    statistical_dimension as statistical_dimension,
)
from .cones import (
    subspace_volumes as subspace_volumes,
)
from .euler import (
    euler_characteristic as euler_characteristic,
)
from .euler import (
    euler_crossing as euler_crossing,
)
from .euler import (
    euler_threshold as euler_threshold,
)
from .finite_size import (
    meets_cone as meets_cone,
)
from .finite_size import (
    probability as probability,
)
from .finite_size import (
    simulate_probability as simulate_probability,
)
from .finite_temperature import (
    FreeEntropy as FreeEntropy,
)
from .finite_temperature import (
    free_entropy as free_entropy,
)
from .parisi import (
    full_rsb_threshold as full_rsb_threshold,
)
from .parisi import (
    ground_state_energy as ground_state_energy,
)
from .parisi import (
    k_rsb_threshold as k_rsb_threshold,
)
from .parisi import (
    order_parameter as order_parameter,
)
from .parisi_grid import (
    grid_energy as grid_energy,
)
from .parisi_grid import (
    grid_threshold as grid_threshold,
)
from .planning import (
    expansivity as expansivity,
)
from .replica import (
    one_rsb_threshold as one_rsb_threshold,
)
from .replica import (
    rs_free_entropy as rs_free_entropy,
)
from .replica import (
    rs_threshold as rs_threshold,
)
