"""The study of verdicts: its networks are reproducible, its runs go on where they stopped, its scores are counts."""

import json

import numpy as np
import pytest
import torch

from initscope.exhibits import verdict_study
from initscope.exhibits._statistics import rank_correlation, share
from initscope.exhibits._study_networks import STARTS, Architecture, Network, architectures, networks
from initscope.exhibits._study_training import read_runs, splits, train_all
from initscope.exhibits.verdict_study import Judged


def test_there_are_three_hundred_networks_in_equal_halves():
    names = [network.name for network in networks()]
    assert len(set(names)) == len(names) >= 300
    chosen = [architecture for architecture in architectures() if verdict_study._chosen_on(architecture)]
    assert 2 * len(chosen) == len(architectures())
    assert {architecture.kind for architecture in chosen} == {architecture.kind for architecture in architectures()}
    assert {architecture.data for architecture in chosen} == {"digits", "fashion-mnist"}


@pytest.mark.parametrize("start", STARTS)
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


def judged(reached, *names, chosen_on=False):
    named = {factor: tuple(names) if factor >= 1 else () for factor in verdict_study.FACTORS}
    return Judged("n", "dense", "he", 0.5, reached, 1.0, named, chosen_on)


def test_scores_are_counts():
    """Three failures; "a" is said of two of them and of one that trained; "any" adds the one that "b" finds."""
    rows = [judged(0.1, "a"), judged(0.2, "a"), judged(0.3, "b"), judged(0.9, "a"), judged(1.0)]
    scores = {score.verdict: score for score in verdict_study._scores(rows, {"a": 1.0, "b": 1.0})}
    assert (scores["a"].said, scores["a"].right, scores["a"].failures) == (3, 2, 3)
    assert scores["a"].precision.value == pytest.approx(2 / 3)
    assert scores["any"].recall.value == 1
    assert scores["any"].precision.value == pytest.approx(3 / 4)
    quiet = {score.verdict: score for score in verdict_study._scores(rows, {"a": 0.1, "b": 1.0})}
    assert "a" not in quiet
    assert quiet["any"].said == 1


def test_a_threshold_is_chosen_for_failures_found_at_nine_in_ten():
    failed = Judged("n", "dense", "he", 0.1, 0.0, 1.0, dict.fromkeys(verdict_study.FACTORS, ("a",)), True)
    named = {factor: ("a",) if factor >= 10 else () for factor in verdict_study.FACTORS}
    trained = Judged("n", "dense", "he", 0.9, 1.0, 1.0, named, True)
    assert verdict_study._choose([failed, trained]) == {"a": 1.0}
    late = Judged("n", "dense", "he", 0.1, 0.0, 1.0, {f: ("a",) if f >= 5 else () for f in verdict_study.FACTORS}, True)
    assert verdict_study._choose([failed, late, trained]) == {"a": 5.0}


def test_intervals_of_shares_and_correlations():
    """Clopper and Pearson's ends are where the tails hold 2.5 %; Fisher's interval holds a known correlation."""
    from scipy.stats import binom

    found = share(7, 10)
    assert binom.sf(6, 10, found.low) == pytest.approx(0.025, abs=1e-5)
    assert binom.cdf(7, 10, found.high) == pytest.approx(0.025, abs=1e-5)
    assert np.isnan(share(0, 0).value)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((400, 200))
    y = 0.6 * x + 0.8 * rng.standard_normal(x.shape)
    truth = 6 / np.pi * np.arcsin(0.3)  # Spearman's of a bivariate normal law
    held = np.mean([(each := rank_correlation(a, b)).low < truth < each.high for a, b in zip(x, y)])
    # 400 intervals of 95 %: 4 standard errors are 4.4 points, and sample bias of order 1/n is far below.
    assert abs(held - 0.95) < 0.044
