"""A frozen set: 40 bugs and 60 healthy models, written before the code of the checks was read; run once."""

from evaluation.development_5 import (
    bugs_of_data_and_training,
    bugs_of_models,
    healthy_images,
    healthy_sequences,
    healthy_structures,
    healthy_tables,
)

CASES = (*bugs_of_models.CASES, *bugs_of_data_and_training.CASES)
HEALTHY = (
    *healthy_tables.HEALTHY,
    *healthy_sequences.HEALTHY,
    *healthy_images.HEALTHY,
    *healthy_structures.HEALTHY,
)
