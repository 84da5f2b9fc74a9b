"""When is a random ReLU layer injective? Thresholds of the expansivity α = m/n by every method, and finite sizes.

Read in this order: `bounds` (rigorous), `cones` and `euler` (integral geometry), `replica` (RS and 1-RSB),
`parisi_functional`, `parisi` and `parisi_grid` (full RSB), `finite_temperature`, `finite_size` (probability at given
m, n), `planning` (widths).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=[
        "bounds",
        "cones",
        "euler",
        "finite_size",
        "finite_temperature",
        "parisi",
        "parisi_functional",
        "parisi_grid",
        "planning",
        "replica",
    ],
    submod_attrs={
        "_estimate": ["Estimate"],
        "bounds": [
            "cover_probability_bound",
            "cover_threshold",
            "deep_expansivity",
            "union_failure_bound",
            "union_threshold",
        ],
        "cones": [
            "circular_volumes",
            "crofton_probability",
            "euler_of_layer",
            "orthant_volumes",
            "product_volumes",
            "statistical_dimension",
            "subspace_volumes",
        ],
        "euler": ["euler_characteristic", "euler_crossing", "euler_threshold"],
        "finite_temperature": ["FreeEntropy", "free_entropy"],
        "finite_size": ["meets_cone", "probability", "simulate_probability"],
        "parisi": ["full_rsb_threshold", "ground_state_energy", "k_rsb_threshold", "order_parameter"],
        "parisi_grid": ["grid_energy", "grid_threshold"],
        "planning": ["expansivity"],
        "replica": ["one_rsb_threshold", "rs_free_entropy", "rs_threshold"],
    },
)
