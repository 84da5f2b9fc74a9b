# Names of the package for type checkers and editors; lazy_loader reads them from here too.
from .by_layer import (
    LayerWidths as LayerWidths,
)
from .by_layer import (
    layer_widths as layer_widths,
)
from .jacobian import (
    JacobianSpectrum as JacobianSpectrum,
)
from .jacobian import (
    jacobian_spectrum as jacobian_spectrum,
)
from .observation import (
    Observation as Observation,
)
from .observation import (
    observe as observe,
)
from .packing import (
    Packing as Packing,
)
from .packing import (
    packing_numbers as packing_numbers,
)
from .redraws import (
    measure as measure,
)
from .runs import (
    Recorded as Recorded,
)
from .runs import (
    record as record,
)
from .tallies import (
    GradientTally as GradientTally,
)
from .tallies import (
    PairTally as PairTally,
)
from .tallies import (
    Tally as Tally,
)
from .units import (
    ActivityTally as ActivityTally,
)
from .units import (
    SpreadTally as SpreadTally,
)
from .width import (
    MeanWidth as MeanWidth,
)
from .width import (
    mean_width as mean_width,
)
