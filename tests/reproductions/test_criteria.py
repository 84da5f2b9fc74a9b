"""Criteria of reproductions: the stored results at full scale have the status that their numbers give, and each
criterion changes its answer when a number is changed by the stated amount."""

import json
from pathlib import Path

import pytest
from scripts import load_script

from initscope.reproductions import Number, all_reproductions, get
from initscope.reproductions.protocol import full_scale_status

ROOT = Path(__file__).parents[2]
STORED = {
    result["id"]: result for result in json.loads((ROOT / "docs" / "full_scale.json").read_text(encoding="utf-8"))
}


def stored_numbers(id):
    return {name: Number(**number) for name, number in STORED[id]["ours"].items()}


def judged(id, ours, holds=True):
    """Status and reason of a reproduction at full scale whose numbers are these."""
    return get(id).judge(ours, holds=None if get(id).holds is None else holds, scale="full")


def test_stored_statuses_are_those_of_the_stored_numbers():
    """Also in the package, whose file --list shows."""
    script = load_script(ROOT / "docs" / "figures" / "make_full_scale.py")
    assert set(STORED) == set(all_reproductions())
    for id, result in STORED.items():
        assert script.rejudged(result) == result
        assert full_scale_status(id) == {"status": result["status"], "why": result["why"]}


def test_counts_of_the_readme_use_the_right_number_of_the_verb():
    script = load_script(ROOT / "docs" / "figures" / "make_full_scale.py")
    statuses = ["agrees", "agrees", "not confirmed", "not comparable", "not comparable"]
    sentence = script.counted([{"status": status} for status in statuses])
    assert sentence == "5 reproductions at full scale: 2 agree, 2 are not comparable, 1 is not confirmed."


@pytest.mark.parametrize(
    ("id", "supporting"),
    [
        ("talk-training-subsets", {"boundary, 300 samples": Number(0.603, 0.0013)}),
        ("talk-metric-learning", {"cross-entropy+triplet minus cross-entropy, 100 labels": Number(-0.0185, 0.0043)}),
        ("talk-tessellation", {"equal parameters, 8 × 11": Number(12_000.0, 113.0)}),
    ],
)
def test_contrary_outcomes_are_not_confirmed_until_a_number_supports_the_claim(id, supporting):
    ours = stored_numbers(id)
    assert set(supporting) <= set(ours)
    assert judged(id, ours)[0] == "not confirmed"
    assert judged(id, ours | supporting)[0] in ("agrees", "not comparable")
