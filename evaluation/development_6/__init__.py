"""A frozen set: bugs and healthy models, written before the code of the checks was read; run once."""

from evaluation.development_6 import (
    bugs_of_models,
    bugs_of_training,
    healthy_sequences,
    healthy_structures,
    healthy_tables,
    healthy_vision,
)

CASES = (*bugs_of_models.CASES, *bugs_of_training.CASES)
HEALTHY = (
    *healthy_tables.HEALTHY,
    *healthy_sequences.HEALTHY,
    *healthy_vision.HEALTHY,
    *healthy_structures.HEALTHY,
)
