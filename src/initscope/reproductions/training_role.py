"""Random weights classify average points, training helps at boundaries: test accuracy by distance to the boundary.

Extreme learning (random weights, a linear classifier on the last activation) beside the trained networks.
"""

from __future__ import annotations

from initscope.class_geometry import AccuracyByDistance, accuracy_by_distance, boundary_distance, extreme_learning
from initscope.reproductions.protocol import Declared, Number
from initscope.reproductions.trained_networks import CHECKPOINTS, guessed_classes, networks_at_errors, split_sets

__all__ = ["REPRODUCTIONS", "gains", "run"]

_NEIGHBOURS = 20_000
"""Training images that the distance to the boundary is measured among."""


def run(
    *,
    spec: str = "cifar10",
    checkpoints: str = CHECKPOINTS,
    fitted: int = 4000,
    tested: int = 5000,
    groups: int = 10,
) -> AccuracyByDistance:
    """Accuracy on ``tested`` test images by groups of their distance to the boundary, among 20,000 training images.

    The linear classifier on random weights has ``fitted`` labelled images.
    """
    networks = networks_at_errors(spec, checkpoints)
    train_set, test_set = split_sets(spec)
    test_set = test_set.spread(tested)
    random = networks.pop("random weights")
    guesses = {"random weights": extreme_learning(random, train_set.spread(fitted), test_set)}
    guesses |= {name: guessed_classes(model, test_set) for name, model in networks.items()}
    correct = {name: guess == test_set.labels for name, guess in guesses.items()}
    return accuracy_by_distance(boundary_distance(train_set.spread(_NEIGHBOURS), test_set), correct, groups=groups)


def gains(result: AccuracyByDistance) -> tuple[float, float]:
    """What training to the last checkpoint gains over random weights: nearest to the boundary, and deepest inside."""
    start, *_, end = result.accuracy.values()
    return end[0] - start[0], end[-1] - start[-1]


def _numbers(result: AccuracyByDistance) -> dict[str, Number]:
    positions = {"at the boundary": 0, "deep inside": -1}
    return {
        f"{name}, {where}": Number(values[position], result.standard_error[name][position])
        for name, values in result.accuracy.items()
        for where, position in positions.items()
    }


REPRODUCTIONS = (
    Declared(
        id="talk-role-of-training",
        source="Bronstein 2016, 'Role of training', conclusions",
        statement="Random weights are good for classifying average points; training improves performance at class "
        "boundaries. Shown: random weights are worst there, and training gains most there.",
        produce=run,
        numbers=_numbers,
        holds=lambda result: gains(result)[0] > max(gains(result)[1], 0.0),
        small={"spec": "digits", "fitted": 1200, "tested": 597, "groups": 5},
    ),
)
