"""The table of `./run bench`: what is claimed held or did not, in words, made from the report of the tests alone."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

REPORT = """<testsuite>
<testcase classname="benchmarks.test_a" name="test_one_is_fast[2-threads]" time="1.5">
<system-out>----- Captured -----

ours 1.00 s | bare 0.50 s</system-out></testcase>
<testcase classname="benchmarks.test_b" name="test_two" time="0.2">
<failure message="assert 3 &lt; 2&#10;more"/></testcase>
<testcase classname="benchmarks.test_b" name="test_three" time="0"><skipped/></testcase>
<testcase classname="benchmarks.test_b" name="test_four" time="0"><error message="a warning"/></testcase>
</testsuite>"""


@pytest.fixture
def bench(monkeypatch):
    folder = Path(__file__).parents[1] / "benchmarks"
    if not folder.exists():
        pytest.skip("benchmarks are not part of the package")
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    import bench

    return bench


def test_claims_hold_or_do_not(bench):
    cases = ElementTree.fromstring(REPORT).iter("testcase")
    rows = [bench.cases.claim(case).to_dict() for case in cases if case.find("skipped") is None]
    part = {"date": "today", "machine": "one", "rows": rows}
    text = bench.markdown({"claims": part})
    assert "1 of 3 claims held. Did not hold: b: two. Did not hold: b: four." in text
    assert "| a: one is fast[2-threads] | held | ours 1.00 s / bare 0.50 s |" in text
    assert "| b: two | **did not hold** | assert 3 < 2 |" in text
    assert "| b: four | **did not hold** | a warning |" in text


def test_comparisons_have_their_ratio(bench):
    row = bench.Row("case", 0.5, 0.6, "peer", 2.0, 2.5, "≥ 3").to_dict()
    text = bench.markdown({"hashing": {"date": "today", "machine": "one", "rows": [row], "before": {"case": 3.0}}})
    assert "| case | 0.5 | 0.6 | peer | 2 | 2.5 | **4** | 3 | ≥ 3 | – | – |" in text


def test_calls_take_turns_after_one_run_of_each(bench):
    seen = []
    times = sys.modules["measuring"].in_turns(lambda: seen.append("a"), lambda: seen.append("b"), repeats=2)
    assert seen == ["a", "b"] * 3
    assert len(times) == 2
    assert all(time >= 0 for time in times)


@pytest.mark.parametrize(
    ("seconds", "runs", "apart"), [((2.0, 1.0, 1.04, 9.0), 3, 0.04), ((1.0, 2.0, 3.0, 4.0, 5.0), 4, 1 / 3)]
)
def test_runs_repeat_until_two_agree(bench, seconds, runs, apart):
    """The last of them counts, after at most four."""
    times = iter(seconds)
    rows, spread = bench.agreed(lambda: [bench.Row("case", 1.0, peer_cpu=next(times))])
    assert rows[0]["ratio"] == seconds[runs - 1]
    assert spread == pytest.approx(apart)
