"""The planners: the figures of the contract, agreement with the theory, clear errors, results that travel."""

import json
import math

import numpy as np
import pytest

from initscope import plan
from initscope.errors import InputError
from initscope.theory import norms


def images(seed=0, shape=(3, 12, 12)):
    generator = np.random.default_rng(seed)
    x = generator.random(shape)
    return x, np.clip(x + 0.5 * generator.standard_normal(shape), 0, 1)


def test_width_of_the_contract():
    found = plan.width(eps=0.1, delta=0.05)
    assert (found.paper, found.chernoff, found.exact) == (4152, 3698, 1919)
    assert norms.relu_norm_failure(1919, 0.1) == found.failure <= 0.05
    small = plan.width(eps=0.05, delta=1e-6)
    assert (small.paper, small.exact) == (63615, 48043)


@pytest.mark.parametrize("event", ["last-layer", "all-layers"])
@pytest.mark.parametrize("per_layer", [True, False])
def test_deep_width_is_the_smallest(event, per_layer):
    found = plan.width(eps=0.3, delta=0.1, depth=3, samples=5, event=event, per_layer=per_layer)
    powers = np.arange(1, 4) if per_layer else np.ones(3)
    lows, highs = (0.7**powers).tolist(), (1.3**powers).tolist()

    def failure(width):
        if event == "all-layers":
            return 5 * norms.path_norm_failure([width] * 3, lows, highs).value
        return 5 * norms.deep_norm_failure([width] * 3, lows[-1], highs[-1]).value

    assert failure(found.exact) <= 0.1 < failure(found.exact - 1)
    assert found.failure == pytest.approx(failure(found.exact), rel=1e-9)
    assert found.exact < found.chernoff <= found.paper


def test_all_layers_cost_more_than_the_last():
    last, every = (
        plan.width(eps=0.2, delta=0.05, depth=4, event=event).exact for event in ("last-layer", "all-layers")
    )
    assert every > last


def test_gradients():
    found = plan.width(eps=0.2, delta=0.05, depth=4, quantity="gradients", per_layer=True)
    assert norms.gradient_norm_failure([found.exact] * 4, 2, 0.8**4, 1.2**4).value <= 0.05
    assert norms.gradient_norm_failure([found.exact - 1] * 4, 2, 0.8**4, 1.2**4).value > 0.05
    assert norms.gradient_bound(found.paper, 4, 0.2) <= 0.05
    assert any("independent" in line for line in found.assumptions)


def test_depth_is_the_largest():
    found = plan.depth(width=400, eps=0.5, delta=0.1)
    assert norms.deep_norm_failure([400] * found.exact, 0.5, 1.5).value <= 0.1
    assert norms.deep_norm_failure([400] * (found.exact + 1), 0.5, 1.5).value > 0.1
    assert found.paper <= found.chernoff <= found.exact
    assert plan.depth(width=2, eps=0.1, delta=0.05).exact == 0
    every = plan.depth(width=400, eps=0.5, delta=0.1, event="all-layers")
    assert 0 < every.exact <= found.exact


@pytest.mark.parametrize("squared", [True, False])
def test_subspace(squared):
    found = plan.subspace(dim=10, eps=0.1, delta=0.05, squared=squared)
    low, high = norms.gordon_band(found.gordon, math.sqrt(10), 0.05)
    power = 2 if squared else 1
    assert low**power >= 0.9
    assert high**power <= 1.1
    assert found.paper == found.repaired == norms.lemma3_width(10, 0.1, 0.05, squared=squared)
    deep = plan.subspace(dim=3, eps=0.2, delta=0.05, depth=3, squared=squared)
    assert deep.repaired > deep.paper
    for layer, (low, high) in enumerate(norms.gordon_deep_band(deep.gordon, math.sqrt(3), 3, 0.05), start=1):
        assert 0.8**layer <= low**power
        assert high**power <= 1.2**layer


def test_filters():
    x, y = images()
    found = plan.filters(x, y, kernel_size=3, eps=0.1, delta=0.05, pilot=2000)
    assert found.sharp_low <= found.sharp <= found.sharp_high < found.no_union < found.paper
    again = plan.filters(x, y, kernel_size=3, eps=0.1, delta=0.05, pilot=2000)
    assert again == found
    batch = plan.filters(np.stack([x, x]), np.stack([y, x]), kernel_size=3, eps=0.1, delta=0.05, pilot=2000)
    assert batch.pairs == 2
    assert batch.sharp > found.sharp
    grey = plan.filters(x[0], y[0], kernel_size=1, eps=0.2, delta=0.05, pilot=500)
    assert grey.pairs == 1


def test_bits_and_projection():
    found = plan.bits(eps=0.1, delta=0.05, pairs=100)
    assert found.failure <= 0.05
    assert found.exact < found.hoeffding < found.paper
    assert plan.bits(eps=0.1, delta=0.05, angle=0.3).exact < plan.bits(eps=0.1, delta=0.05).exact
    flat = plan.projection(eps=0.2, delta=0.05, samples=50)
    assert flat.failure <= 0.05
    with pytest.raises(InputError, match="samples = 1"):
        plan.projection(eps=0.2, delta=0.05, samples=1)


@pytest.mark.parametrize("name", ["width", "subspace", "bits", "depth", "projection"])
@pytest.mark.parametrize(
    ("bad", "message"),
    [({"eps": 1.0}, "eps = 1"), ({"eps": 0}, "eps = 0"), ({"eps": math.nan}, "eps"), ({"delta": 0}, "delta = 0")],
)
def test_bad_aims(name, bad, message):
    needed = {"subspace": {"dim": 3}, "depth": {"width": 10}, "projection": {"samples": 5}}.get(name, {})
    with pytest.raises(InputError, match=message):
        getattr(plan, name)(**({"eps": 0.1, "delta": 0.05} | needed | bad))


def test_other_bad_input():
    with pytest.raises(InputError, match="width = 0"):
        plan.depth(width=0, eps=0.1, delta=0.05)
    with pytest.raises(InputError, match="dim = 10 must be at most ambient = 5"):
        plan.subspace(dim=10, eps=0.1, delta=0.05, ambient=5)
    with pytest.raises(InputError, match="event"):
        plan.width(eps=0.1, delta=0.05, event="some-layers")
    with pytest.raises(InputError, match="quantity"):
        plan.width(eps=0.1, delta=0.05, quantity="weights")
    x, y = images()
    for bad, message in ((np.zeros_like(x), "zero"), (np.full_like(x, np.nan), "NaN"), (x[:, :5], "shape")):
        with pytest.raises(InputError, match=message):
            plan.filters(bad, y, kernel_size=3, eps=0.1, delta=0.05)
    with pytest.raises(InputError, match="kernel_size = 13"):
        plan.filters(x, y, kernel_size=13, eps=0.1, delta=0.05)


def test_results_travel():
    found = plan.width(eps=0.3, delta=0.05)
    data = json.loads(json.dumps(found.to_dict()))
    assert data["planner"] == "width"
    assert data["exact"] == found.exact
    assert set(data["statements"]) == {"paper", "chernoff", "exact"}
    assert [row["answer"] for row in found.table()] == ["paper", "chernoff", "exact"]
    assert "theorem 1" in found.to_html()
    assert found.plot().get_xscale() == "log"


def test_a_band_wider_than_any_number_is_open():
    """1.9^1200 is beyond the largest float."""
    found = plan.width(eps=0.9, delta=0.05, depth=1200, per_layer=True)
    assert 1 < found.exact < found.chernoff < found.paper
    assert plan.check(found, trials=10).holds


def test_the_order_of_the_arguments_is_that_of_the_question():
    assert plan.subspace(10, 0.2, 0.05) == plan.subspace(dim=10, eps=0.2, delta=0.05)
    assert plan.bits(0.2, 0.05) == plan.bits(eps=0.2, delta=0.05)
