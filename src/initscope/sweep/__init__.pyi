# Names of the package for type checkers and editors; lazy_loader reads them from here too.
from .declaration import (
    Sweep as Sweep,
)
from .declaration import (
    read_sweep as read_sweep,
)
from .engine import (
    SweepResult as SweepResult,
)
from .engine import (
    run_sweep as run_sweep,
)
