"""The fourth set: 51 mistakes that users make, by class of mistake, with fixed versions, and 34 healthy models."""

from evaluation.development_4 import bugs_of_models, bugs_of_training, healthy

CASES = (*bugs_of_models.CASES, *bugs_of_training.CASES)
HEALTHY = healthy.HEALTHY
