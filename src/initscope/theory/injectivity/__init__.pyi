# Names of the package for type checkers and editors; lazy_loader reads them from here too.
from . import (
    bounds as bounds,
    cones as cones,
    euler as euler,
    finite_size as finite_size,
    finite_temperature as finite_temperature,
    frames as frames,
    gordon as gordon,
    parisi as parisi,
    parisi_functional as parisi_functional,
    parisi_grid as parisi_grid,
    planning as planning,
    replica as replica,
)
from ._estimate import (
    Estimate as Estimate,
)
from .bounds import (
    cover_probability_bound as cover_probability_bound,
    cover_threshold as cover_threshold,
    deep_expansivity as deep_expansivity,
    union_failure_bound as union_failure_bound,
    union_threshold as union_threshold,
)
from .cones import (
    circular_volumes as circular_volumes,
    crofton_probability as crofton_probability,
    euler_of_layer as euler_of_layer,
    orthant_volumes as orthant_volumes,
    product_volumes as product_volumes,
    statistical_dimension as statistical_dimension,
    subspace_volumes as subspace_volumes,
)
from .euler import (
    euler_characteristic as euler_characteristic,
    euler_crossing as euler_crossing,
    euler_threshold as euler_threshold,
)
from .finite_size import (
    meets_cone as meets_cone,
    probability as probability,
    simulate_probability as simulate_probability,
)
from .finite_temperature import (
    FreeEntropy as FreeEntropy,
    free_entropy as free_entropy,
)
from .frames import (
    frame_failure_bound as frame_failure_bound,
    frame_limit as frame_limit,
    guaranteed_frame as guaranteed_frame,
    small_singular_value_bound as small_singular_value_bound,
)
from .gordon import (
    gordon_bound as gordon_bound,
    gordon_threshold as gordon_threshold,
)
from .parisi import (
    full_rsb_threshold as full_rsb_threshold,
    ground_state_energy as ground_state_energy,
    k_rsb_threshold as k_rsb_threshold,
    order_parameter as order_parameter,
)
from .parisi_grid import (
    grid_energy as grid_energy,
    grid_threshold as grid_threshold,
)
from .planning import (
    expansivity as expansivity,
)
from .replica import (
    one_rsb_threshold as one_rsb_threshold,
    rs_free_entropy as rs_free_entropy,
    rs_threshold as rs_threshold,
)
