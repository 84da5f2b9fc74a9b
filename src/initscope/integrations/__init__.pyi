# Names of the package for type checkers and editors; lazy_loader reads them from here too.
from .assistants import (
    mcp_server as mcp_server,
)
from .hugging_face import (
    hugging_face_callback as hugging_face_callback,
)
from .lightning import (
    lightning_callback as lightning_callback,
)
from .loggers import (
    Logger as Logger,
    aim_logger as aim_logger,
    mlflow_logger as mlflow_logger,
    scalars as scalars,
    tensorboard_logger as tensorboard_logger,
    wandb_logger as wandb_logger,
)
from .watching import (
    TrainingStopped as TrainingStopped,
    Watch as Watch,
)
