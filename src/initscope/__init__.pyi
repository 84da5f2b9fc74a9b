# Names of the package for type checkers and editors; lazy_loader reads them from here too.
from . import (
    blocks as blocks,
)
from . import (
    classes as classes,
)
from . import (
    configurations as configurations,
)
from . import (
    coordinates as coordinates,
)
from . import (
    data as data,
)
from . import (
    embed as embed,
)
from . import (
    errors as errors,
)
from . import (
    exhibits as exhibits,
)
from . import (
    geometry as geometry,
)
from . import (
    initializers as initializers,
)
from . import (
    injectivity as injectivity,
)
from . import (
    inspection as inspection,
)
from . import (
    integrations as integrations,
)
from . import (
    invert as invert,
)
from . import (
    kernels as kernels,
)
from . import (
    measurement as measurement,
)
from . import (
    models as models,
)
from . import (
    pages as pages,
)
from . import (
    plan as plan,
)
from . import (
    results as results,
)
from . import (
    sweep as sweep,
)
from . import (
    testing as testing,
)
from . import (
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
)
from .measurement import (
    measure as measure,
)
from .propagate import (
    predict as predict,
)
from .propagate import (
    rule as rule,
)

__version__: str
