# Names of the package for type checkers and editors; lazy_loader reads them from here too.
from .hugging_face import (
    hugging_face_callback as hugging_face_callback,
)
from .lightning import (
    lightning_callback as lightning_callback,
)
from .loggers import (
    scalars as scalars,
    tensorboard_logger as tensorboard_logger,
    wandb_logger as wandb_logger,
)
from .watching import (
    TrainingStopped as TrainingStopped,
    Watch as Watch,
)
