# Names of the package for type checkers and editors; lazy_loader reads them from here too.
from . import (
    class_geometry as class_geometry,
    data as data,
    distributed as distributed,
    embed as embed,
    errors as errors,
    geometry as geometry,
    initializers as initializers,
    injectivity as injectivity,
    inspection as inspection,
    integrations as integrations,
    invert as invert,
    measurement as measurement,
    models as models,
    plan as plan,
    propagate as propagate,
    rendering as rendering,
    reproductions as reproductions,
    results as results,
    scaling as scaling,
    testing as testing,
    theory as theory,
)
from .inspection import (
    compare as compare,
    inspect as inspect,
)
from .measurement import (
    mean_width as mean_width,
    measure as measure,
)
from .propagate import (
    predict as predict,
    rule as rule,
)
from .propagate.kernels import (
    kernel as kernel,
)
from .results import (
    load as load,
)
from .theory.statements import (
    theorem as theorem,
)

__version__: str
