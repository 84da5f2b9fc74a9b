"""The third set, code as it comes from users' repositories: 66 healthy models and 43 bugs with fixed versions."""

from evaluation.declared import cases_of, healthy_of
from evaluation.development_3 import (  # noqa: F401 (importing declares)
    bugs_of_arguments_and_losses,
    bugs_of_attention_and_axes,
    generation,
    language,
    series,
    tables_and_games,
    vision,
)

CASES = cases_of(__name__)
HEALTHY = healthy_of(__name__)
