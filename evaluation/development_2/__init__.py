"""The second set: 67 healthy models and 65 bugs with their fixed versions."""

from evaluation.declared import cases_of, healthy_of
from evaluation.development_2 import (  # noqa: F401 (importing declares)
    bugs_of_axes_and_masks,
    bugs_of_gradients_and_data,
    bugs_of_layers_and_losses,
    generation,
    science,
    series,
    tables_and_sets,
    text,
    vision,
    vision_transformers,
)

CASES = cases_of(__name__)
HEALTHY = healthy_of(__name__)
