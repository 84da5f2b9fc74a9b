"""Distributions and bounds of norms and gradients of dense ReLU networks at finite width.

`bounds`: the lemmas and theorems as printed, and the best Chernoff. `law`: one layer, exactly. `deep`: many layers,
exactly. `paths`: all layers at once. `uniform`: subspaces and point clouds. `fluctuation`: the cosine at finite width.
`gradients`: how a weight gradient factorizes. All weights are He fan-out (variance 2/width), which preserves mean
squared norms.
"""

from initscope.theory.norms.bounds import (
    activation_bound,
    chernoff_bound,
    chernoff_rates,
    chernoff_width,
    gradient_bound,
    inner_product_bound,
    masked_inner_product_bound,
    relu_norm_bound,
    relu_norm_bound_eps,
    relu_norm_rate,
    relu_norm_width,
)
from initscope.theory.norms.deep import (
    Probability,
    backward_norm_failure,
    deep_norm_failure,
    gradient_norm_failure,
    log_norm_moment,
    norm_ratio_mean_sd,
)
from initscope.theory.norms.fluctuation import relu_cosine_sd, relu_stack_cosine_sd
from initscope.theory.norms.gradients import (
    backward_error,
    gradient_norm_equality,
    weight_gradient,
    weight_gradient_norm,
)
from initscope.theory.norms.law import (
    active_units,
    norm_ratio_cdf,
    norm_ratio_tail,
    relu_norm_eps,
    relu_norm_exact_width,
    relu_norm_failure,
    squared_norm_mean,
)
from initscope.theory.norms.paths import path_norm_failure
from initscope.theory.norms.uniform import (
    cone_count_log,
    expected_relu_norm,
    gordon_band,
    gordon_deep_band,
    gordon_width,
    lemma3_width,
    theorem2_width,
)

__all__ = [
    "Probability",
    "activation_bound",
    "active_units",
    "backward_error",
    "backward_norm_failure",
    "chernoff_bound",
    "chernoff_rates",
    "chernoff_width",
    "cone_count_log",
    "deep_norm_failure",
    "expected_relu_norm",
    "gordon_band",
    "gordon_deep_band",
    "gordon_width",
    "gradient_bound",
    "gradient_norm_equality",
    "gradient_norm_failure",
    "inner_product_bound",
    "lemma3_width",
    "log_norm_moment",
    "masked_inner_product_bound",
    "norm_ratio_cdf",
    "norm_ratio_mean_sd",
    "norm_ratio_tail",
    "path_norm_failure",
    "relu_cosine_sd",
    "relu_norm_bound",
    "relu_norm_bound_eps",
    "relu_norm_eps",
    "relu_norm_exact_width",
    "relu_norm_failure",
    "relu_norm_rate",
    "relu_norm_width",
    "relu_stack_cosine_sd",
    "squared_norm_mean",
    "theorem2_width",
    "weight_gradient",
    "weight_gradient_norm",
]
