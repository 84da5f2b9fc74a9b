# Names of the package for type checkers and editors; lazy_loader reads them from here too.
from .moments import (
    InputValues as InputValues,
    MomentMaps as MomentMaps,
    NotCovered as NotCovered,
)
from .prediction import (
    predict as predict,
)
from .registry import (
    Context as Context,
    rule as rule,
)
