# Names of the package for type checkers and editors; lazy_loader reads them from here too.
from .declaration import (
    Sweep as Sweep,
    read_sweep as read_sweep,
)
from .engine import (
    SweepResult as SweepResult,
    run_sweep as run_sweep,
)
