# Names of the package for type checkers and editors; lazy_loader reads them from here too.
from . import (
    blocks as blocks,
    classes as classes,
    configurations as configurations,
    coordinates as coordinates,
    data as data,
    embed as embed,
    errors as errors,
    exhibits as exhibits,
    geometry as geometry,
    initializers as initializers,
    injectivity as injectivity,
    inspection as inspection,
    integrations as integrations,
    invert as invert,
    kernels as kernels,
    measurement as measurement,
    models as models,
    pages as pages,
    plan as plan,
    results as results,
    sweep as sweep,
    testing as testing,
    theory as theory,
)
from .inspection import (
    inspect as inspect,
)
from .kernels import (
    kernel as kernel,
)
from .measurement import (
    mean_width as mean_width,
    measure as measure,
)
from .propagate import (
    predict as predict,
    rule as rule,
)

__version__: str
