# Names of the package for type checkers and editors; lazy_loader reads them from here too.
from .context import Context as Context
from .prediction import predict as predict
from .registry import rule as rule
from .totals import NotCovered as NotCovered
from .values.base import Value as Value
from .values.inputs import InputValues as InputValues
from .values.moment_maps import MomentMaps as MomentMaps
