# Names of the package for type checkers and editors; lazy_loader reads them from here too.
from .by_layer import (
    LayerWidths as LayerWidths,
    layer_widths as layer_widths,
)
from .jacobian import (
    JacobianSpectrum as JacobianSpectrum,
    jacobian_spectrum as jacobian_spectrum,
)
from .observation import (
    Observation as Observation,
    observe as observe,
)
from .observers import (
    GradientObserver as GradientObserver,
    PairObserver as PairObserver,
)
from .packing import (
    Packing as Packing,
    packing_numbers as packing_numbers,
)
from .recording_run import (
    Recorded as Recorded,
    record as record,
)
from .redraws import (
    measure as measure,
)
from .units import (
    ActivityObserver as ActivityObserver,
    SpreadObserver as SpreadObserver,
)
from .width import (
    MeanWidth as MeanWidth,
    mean_width as mean_width,
)
