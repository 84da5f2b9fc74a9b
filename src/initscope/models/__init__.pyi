# Names of the package for type checkers and editors; lazy_loader reads them from here too.
from . import (
    architectures as architectures,
)
from .loading import (
    load_model as load_model,
    load_weights as load_weights,
)
