# Names of the package for type checkers and editors; lazy_loader reads them from here too.
from .codes import (
    encode_blocks as encode_blocks,
    merge_nearest as merge_nearest,
    nearest_in_blocks as nearest_in_blocks,
)
from .declaration import (
    Sweep as Sweep,
    read_sweep as read_sweep,
)
from .engine import (
    SweepResult as SweepResult,
    run_sweep as run_sweep,
)
from .matrices import (
    kernel_in_blocks as kernel_in_blocks,
)
from .model_names import (
    ModelName as ModelName,
    named_model as named_model,
)
from .sources import (
    Block as Block,
    Blocks as Blocks,
    open_blocks as open_blocks,
)
from .widths import (
    layer_widths_of_blocks as layer_widths_of_blocks,
    mean_width_of_blocks as mean_width_of_blocks,
)
