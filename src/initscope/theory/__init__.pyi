# Names of the package for type checkers and editors; lazy_loader reads them from here too.
from . import (
    activations as activations,
    angles as angles,
    attention as attention,
    concentration as concentration,
    convolutions as convolutions,
    images as images,
    injectivity as injectivity,
    inversion as inversion,
    jacobians as jacobians,
    linear_layers as linear_layers,
    mean_width as mean_width,
    metric_spaces as metric_spaces,
    norms as norms,
    regions as regions,
    separation as separation,
    tails as tails,
)
