"""Models and bugs as practitioners write them, the first set: 70 healthy models and 46 bugs."""

from evaluation.declared import cases_of, healthy_of
from evaluation.development_1 import (  # noqa: F401 (importing declares)
    bugs_of_batches_and_numbers,
    bugs_of_models,
    generative,
    image_transformers,
    images,
    sequences,
    sounds,
    structures,
    tables,
)

CASES = cases_of(__name__)
HEALTHY = healthy_of(__name__)
