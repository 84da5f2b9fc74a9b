"""The study of verdicts: its networks are reproducible, its runs go on where they stopped, its scores are counts."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from initscope.reproductions import verdict_study
from initscope.reproductions._statistics import jackknife, rank_correlation, share
from initscope.reproductions._study_networks import (
    INITIALIZATIONS,
    Architecture,
    Network,
    architectures,
    frozen_architectures,
    networks,
)
from initscope.reproductions._study_training import RATES, read_runs, splits, train_all, train_best
from initscope.reproductions.verdict_study import Judged

ROOT = Path(__file__).parents[2]


def test_there_are_three_hundred_networks_and_others_that_are_held_out():
    names = [network.name for network in networks()]
    assert len(set(names)) == len(names) == 520
    assert len(architectures()) * len(INITIALIZATIONS) >= 300
    assert not set(architectures()) & set(frozen_architectures())
    for part in (architectures(), frozen_architectures()):
        assert {architecture.kind for architecture in part} == {"dense", "convolutional", "residual", "transformer"}
        assert {architecture.data for architecture in part} == {"digits", "fashion-mnist"}
    assert [verdict_study._chosen_on(network.architecture) for network in networks()] == [True] * 320 + [False] * 200


def test_the_kept_runs_are_whole_and_the_page_counts_their_failures():
    """Failures counted from the file alone: below half of the gain over chance of the architecture's best start."""
    runs = read_runs(ROOT / "benchmarks" / "verdict_study.jsonl")
    gain = {n: max(runs[n.name, rate]["accuracy"] for rate in RATES) - 0.1 for n in networks()}
    best = {n.architecture: max(gain[m] for m in gain if m.architecture == n.architecture) for n in gain}
    failed = [2 * gain[n] < best[n.architecture] for n in networks()]
    page = (ROOT / "docs" / "accuracy_of_checks.rst").read_text(encoding="utf-8")
    assert f"Of these 200 networks, {sum(failed[320:])} fail" in page
    assert sum(failed[:320]) == 104


@pytest.mark.parametrize("start", INITIALIZATIONS)
def test_a_network_is_the_same_every_time(start):
    network = Network(Architecture("transformer", 1, 16, "gelu", "post"), start)
    state = torch.get_rng_state()
    first, again = network.build().state_dict(), network.build().state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert torch.equal(state, torch.get_rng_state())


def test_every_kind_runs_on_its_data():
    kinds = {architecture.kind: architecture for architecture in architectures()}
    images = splits("digits")[0][:4]
    assert images.shape == (4, 1, 8, 8)
    for architecture in kinds.values():
        assert architecture.build()(images).shape == (4, 10)


def test_runs_go_on_where_they_stopped(tmp_path):
    path = tmp_path / "runs.jsonl"
    these = [Network(Architecture("dense", 3, 16), start) for start in ("he", "low-bias")]
    first = train_all(these[:1], path, rates=(1e-3,), steps=3)
    path.write_text(path.read_text() + '{"network": "cut off', encoding="utf-8")
    assert read_runs(path) == first
    lines = path.read_text().splitlines()
    path.write_text(lines[0] + "\n", encoding="utf-8")
    both = train_all(these, path, rates=(1e-3,), steps=3)
    assert len(both) == 2
    assert both[these[0].name, 1e-3] == first[these[0].name, 1e-3]
    assert len([json.loads(line) for line in path.read_text().splitlines()]) == 2
    assert len(train_all(these, path, rates=(1e-3, 3e-3), steps=3, seconds=-1)) == 2
    assert not train_all(these, path, rates=(1e-3,), steps=4, seconds=-1)  # runs of three steps are other runs


def test_processes_train_the_same(tmp_path):
    """Two of them, what the file holds left out; on one thread every number but the seconds is the same."""
    path = tmp_path / "runs.jsonl"
    these = [Network(Architecture("dense", 3, 16), start) for start in ("he", "low-bias", "half")]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        here = train_all(these, rates=(1e-3,), steps=3)
    finally:
        torch.set_num_threads(threads)
    train_all(these[:1], path, rates=(1e-3,), steps=3)
    apart = train_all(these, path, rates=(1e-3,), steps=3, workers=2)
    assert apart.keys() == here.keys() == read_runs(path).keys()
    for name, run in here.items():
        assert {**run, "seconds": 0} == {**apart[name], "seconds": 0}


def test_a_cure_is_trained_in_the_place_of_its_network_and_kept_beside_it(tmp_path):
    """The same weights under another name end where the network does; a second call reads what the first wrote."""
    path, network = tmp_path / "runs.jsonl", Network(Architecture("dense", 3, 16), "he")
    runs = train_all([network], path, rates=(1e-3, 3e-3), steps=3)
    options = {"rates": (1e-3, 3e-3), "steps": 3, "path": path}
    found = train_best("cured", network.build, network, runs=runs, **options)
    assert found == max(runs[network.name, rate]["accuracy"] for rate in (1e-3, 3e-3))

    def fail():
        raise AssertionError("trained again")

    assert train_best("cured", fail, network, runs=read_runs(path), **options) == found


def judged(reached, *names, architecture="a", score=0.5, kept=1.0, chosen_on=False, named=None):
    named = dict.fromkeys(verdict_study.FACTORS, tuple(names)) if named is None else named
    return Judged("n", architecture, "he", 0.5, reached, kept, score, named, chosen_on)


def test_scores_are_counts():
    """Three failures; "a" is said of two of them and of one that trained; "any" adds the one that "b" finds."""
    rows = [judged(0.1, "a"), judged(0.2, "a"), judged(0.7, "b"), judged(0.9, "a"), judged(1.0), judged(0.3)]
    scores = {score.check: score for score in verdict_study._scores(rows)}
    assert (scores["a"].said, scores["a"].right, scores["a"].harmed, scores["a"].failures) == (3, 2, 2, 3)
    assert scores["a"].precision.value == pytest.approx(2 / 3)
    assert scores["any"].recall.value == pytest.approx(2 / 3)
    assert scores["any"].precision.value == pytest.approx(2 / 4)
    assert scores["any"].harmed == 3


def test_the_ranking_puts_faults_last_and_is_counted_within_architectures():
    """In "a" the order is right, in "b" it is the reverse, in "c" the one with a fault has the higher score."""
    right = [judged(reached, architecture="a", score=reached) for reached in (0.1, 0.5, 0.9)]
    wrong = [judged(reached, architecture="b", score=1 - reached) for reached in (0.1, 0.5, 0.9)]
    faulty = [judged(0.1, "x", architecture="c", score=0.9), judged(0.9, architecture="c", score=0.1)]
    groups = verdict_study._by_architecture([*right, *wrong, *faulty])
    assert [verdict_study._of_ranking([group]) for group in groups] == [1.0, -1.0, 1.0]
    assert verdict_study._of_ranking(groups) == pytest.approx(1 / 3)


def test_the_angle_is_ranked_over_all_networks_that_have_one():
    groups = [[judged(0.1, kept=0.0), judged(0.4, kept=float("nan"))], [judged(0.2, kept=0.5), judged(0.9, kept=0.7)]]
    assert verdict_study._of_angles(groups) == 1.0


def test_failed_with_errors_are_failed_and_called_sick_and_of_both_parts():
    rows = {index: judged(0.1, "x", chosen_on=index < 10) for index in range(20)}
    rows |= {20: judged(0.1), 21: judged(0.9, "x")}
    assert verdict_study._failed_with_errors(rows, 3) == [0, 4, 9, 10, 14, 19]
    assert len(verdict_study._failed_with_errors(rows, 100)) == 20


def test_a_threshold_is_chosen_for_failures_found_at_nine_in_ten():
    failed = judged(0.0, "a")
    trained = judged(1.0, named={factor: ("a",) if factor >= 10 else () for factor in verdict_study.FACTORS})
    assert verdict_study._choose([failed, trained]) == {"a": 1.0}
    late = judged(0.0, named={factor: ("a",) if factor >= 5 else () for factor in verdict_study.FACTORS})
    assert verdict_study._choose([failed, late, trained]) == {"a": 5.0}


def test_intervals_of_shares():
    """Clopper and Pearson's ends are where the tails hold 2.5 %."""
    from scipy.stats import binom

    found = share(7, 10)
    assert binom.sf(6, 10, found.low) == pytest.approx(0.025, abs=1e-5)
    assert binom.cdf(7, 10, found.high) == pytest.approx(0.025, abs=1e-5)
    assert np.isnan(share(0, 0).value)


def test_rank_correlation_is_spearmans():
    from scipy.stats import spearmanr

    x, y = np.random.default_rng(0).integers(0, 6, (2, 40))
    assert rank_correlation(x, y) == pytest.approx(spearmanr(x, y).statistic, abs=1e-9)
    assert rank_correlation([1, 1, 1], [1, 2, 3]) == 0


def test_the_interval_of_the_jackknife_holds_a_known_correlation_of_clustered_pairs():
    """40 groups of 5 pairs that share their group's value: 300 intervals of 95 % hold the truth within 4 standard
    errors, 5 points, and two for the bias of few groups; intervals of 200 independent pairs would hold it in 80 %."""
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(300):
        x, y = (rng.standard_normal((40, 1)) + 0.5 * rng.standard_normal((40, 5)) for _ in range(2))
        y = y + x
        groups = list(zip(x, y))
        found = jackknife(lambda these: rank_correlation(*(np.concatenate(side) for side in zip(*these))), groups)
        held += found.low < 6 / np.pi * np.arcsin(np.sqrt(0.5) / 2) < found.high
    assert abs(held / 300 - 0.95) < 0.07
