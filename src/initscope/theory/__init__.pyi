# Names of the package for type checkers and editors; lazy_loader reads them from here too.
from . import (
    activations as activations,
)
from . import (
    angles as angles,
)
from . import (
    attention as attention,
)
from . import (
    concentration as concentration,
)
from . import (
    convolutions as convolutions,
)
from . import (
    images as images,
)
from . import (
    injectivity as injectivity,
)
from . import (
    inversion as inversion,
)
from . import (
    linear_layers as linear_layers,
)
from . import (
    mean_width as mean_width,
)
from . import (
    metric_spaces as metric_spaces,
)
from . import (
    norms as norms,
)
from . import (
    regions as regions,
)
from . import (
    separation as separation,
)
from . import (
    tails as tails,
)
