"""Test error after training on random samples, an ε-net, samples at class boundaries or deep inside, or all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from initscope.class_geometry import Study, subset_study
from initscope.reproductions.protocol import Declared, Number
from initscope.reproductions.trained_networks import study_setting

__all__ = ["REPRODUCTIONS", "run"]


def run(
    *,
    spec: str = "cifar10",
    images: int = 6000,
    tested: int = 4000,
    sizes: Sequence[int] = (300, 1000),
    seeds: Sequence[int] = (0, 1, 2),
    steps: int = 200,
) -> Study:
    """Train on ``sizes`` of the ``images``, chosen in each way, and on all of them, for the same number of steps."""
    return subset_study(**study_setting(spec, images, tested), sizes=sizes, seeds=seeds, steps=steps)


def _contrary(ours: Mapping[str, Number]) -> str:
    """Compare the errors of boundary samples with those of random samples of the same number."""
    pairs = {
        name.removeprefix("boundary, "): (number, ours[name.replace("boundary", "random", 1)])
        for name, number in ours.items()
        if name.startswith("boundary, ")
    }
    if not all(boundary.exceeds(random) for boundary, random in pairs.values()):
        return ""
    errors = "; ".join(f"{size}: {boundary} against {random}" for size, (boundary, random) in pairs.items())
    return f"the test error after training on samples at class boundaries is higher than on random ones ({errors})"


REPRODUCTIONS = (
    Declared(
        id="talk-training-subsets",
        source="Bronstein 2016, 'Training set size', 'Role of training'",
        statement="A network that performs well on an ε-net performs well everywhere, and only a small subset of it, "
        "at the class boundaries, is required for training.",
        produce=run,
        numbers=lambda study: {
            f"{setting.name}, {setting.size} samples": Number(setting.mean, setting.standard_error)
            for setting in study.settings
        },
        contrary=_contrary,
        small={"spec": "digits", "images": 1200, "tested": 597, "sizes": (50, 200), "seeds": (0, 1), "steps": 40},
        incomparable="the talk gives neither a size nor an error; test errors by selection method are shown",
    ),
)
