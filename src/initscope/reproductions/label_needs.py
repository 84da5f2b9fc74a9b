"""Metric learning in addition to cross-entropy: test error against the number of labels, with both objectives.

The talk proposes it without an experiment. The simplest criterion is used: two views of an image should be similar.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from initscope.class_geometry import Study, label_study
from initscope.reproductions.protocol import Declared, Number
from initscope.reproductions.trained_networks import study_setting

__all__ = ["REPRODUCTIONS", "run"]

_PLAIN = "cross-entropy"


def run(
    *,
    spec: str = "cifar10",
    images: int = 20_000,
    tested: int = 4000,
    per_class: Sequence[int] = (10, 100, 1000),
    objectives: Sequence[str] = (_PLAIN, "cross-entropy+triplet"),
    seeds: Sequence[int] = (0, 1, 2),
    steps: int = 314,
) -> Study:
    """Train on ``images`` with only ``per_class`` labels of each class."""
    setting = study_setting(spec, images, tested)
    return label_study(**setting, per_class=per_class, objectives=objectives, seeds=seeds, steps=steps)


def _numbers(study: Study) -> dict[str, Number]:
    errors = {
        f"{setting.name}, {setting.size} labels": Number(setting.mean, setting.standard_error)
        for setting in study.settings
    }
    gained = {
        f"{setting.name} minus {_PLAIN}, {setting.size} labels": Number(setting.mean, setting.standard_error)
        for setting in study.against(_PLAIN)
    }
    return errors | gained


def _contrary(ours: Mapping[str, Number]) -> str:
    """Ask for a smaller error with the triplet term at one number of labels at least."""
    changes = {name.rpartition(", ")[2]: number for name, number in ours.items() if f"minus {_PLAIN}" in name}
    if any(Number(0.0).exceeds(change) for change in changes.values()):
        return ""
    listed = "; ".join(f"{Number(100 * c.value, 100 * (c.error or 0.0))} at {size}" for size, c in changes.items())
    return f"triplets reduce the test error at no number of labels; they change it by {listed} (percentage points)"


REPRODUCTIONS = (
    Declared(
        id="talk-metric-learning",
        source="Bronstein 2016, 'DNNs as metric learners'",
        statement="A metric learning criterion in the training objective reduces the amount of labeled data.",
        produce=run,
        numbers=_numbers,
        contrary=_contrary,
        small={"spec": "digits", "images": 1200, "tested": 597, "per_class": (3, 10), "seeds": (0, 1), "steps": 40},
        incomparable="the talk proposes it and shows no experiment; test errors with both objectives are given",
    ),
)
