"""Random weights classify average points, training helps at boundaries: test accuracy by distance to the boundary.

Trained networks are compared with extreme learning (a linear classifier on the last activation of random weights).
"""

from __future__ import annotations

from initscope.class_geometry import AccuracyByDistance, accuracy_by_distance, boundary_distance, extreme_learning
from initscope.reproductions.protocol import Declared, Number
from initscope.reproductions.trained_networks import CHECKPOINTS, guessed_classes, networks_at_errors, split_sets

__all__ = ["REPRODUCTIONS", "gains", "run"]

_NEIGHBORS = 20_000
"""Number of training images for the distance to the boundary."""


def run(
    *,
    spec: str = "cifar10",
    checkpoints: str = CHECKPOINTS,
    fitted: int = 4000,
    tested: int = 5000,
    groups: int = 10,
) -> AccuracyByDistance:
    """Compute the accuracy on ``tested`` test images by groups of distance to the boundary of 20,000 training images.

    The linear classifier on random weights is fitted to ``fitted`` labeled images.
    """
    networks = networks_at_errors(spec, checkpoints)
    train_set, test_set = split_sets(spec)
    test_set = test_set.spread(tested)
    random = networks.pop("random weights")
    guesses = {"random weights": extreme_learning(random, train_set.spread(fitted), test_set)}
    guesses |= {name: guessed_classes(model, test_set) for name, model in networks.items()}
    correct = {name: guess == test_set.labels for name, guess in guesses.items()}
    return accuracy_by_distance(boundary_distance(train_set.spread(_NEIGHBORS), test_set), correct, groups=groups)


def gains(result: AccuracyByDistance) -> tuple[float, float]:
    """Return the gain of the last checkpoint over random weights, nearest to the boundary and deepest inside."""
    random, *_, trained = result.accuracy.values()
    return trained[0] - random[0], trained[-1] - random[-1]


def _numbers(result: AccuracyByDistance) -> dict[str, Number]:
    groups = {"at the boundary": 0, "deep inside": -1}
    return {
        f"{name}, {where}": Number(values[group], result.standard_error[name][group])
        for name, values in result.accuracy.items()
        for where, group in groups.items()
    }


REPRODUCTIONS = (
    Declared(
        id="talk-role-of-training",
        source="Bronstein 2016, 'Role of training', conclusions",
        statement="Random weights classify average points well; training improves performance at class boundaries. "
        "Random weights are worst there, and training gains most there.",
        produce=run,
        numbers=_numbers,
        holds=lambda result: gains(result)[0] > max(gains(result)[1], 0.0),
        small={"spec": "digits", "fitted": 1200, "tested": 597, "groups": 5},
    ),
)
