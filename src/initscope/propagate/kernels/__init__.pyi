# Names of the package for type checkers and editors; lazy_loader reads them from here too.
from .matrix import diagonal as diagonal, kernel as kernel
from .paired import PairKernel as PairKernel
