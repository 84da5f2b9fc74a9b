"""Kernels of plain stacks: the compiled loops and the rules against recursions written out in float64."""

import math

import numpy as np
import pytest
import torch
from kernels_by_hand import by_hand, relu_duals, windows
from torch import nn

from initscope.errors import InputError
from initscope.initializers import He
from initscope.propagate.kernels import _fused, diagonal, kernel, matrix, relu_stack


@pytest.fixture(params=["loops", "rules"])
def way(request, monkeypatch):
    """Both ways to the kernel of a stack."""
    monkeypatch.setattr(matrix, "_WORTH_COMPILING", 0)
    if request.param == "rules":
        monkeypatch.setattr(matrix, "stack_of", lambda *arguments: None)
    else:
        pytest.importorskip("numba")
    return request.param


@pytest.fixture
def images():
    return torch.randn(5, 3, 6, 6, generator=torch.Generator().manual_seed(1)).double()


LAW = He(bias_variance=0.1)


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
def test_convolutions_then_dense_layers(way, images, kind):
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 4, (3, 3), stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16, 5),
        nn.ReLU(),
        nn.Linear(5, 2),
    )
    k, tangent = by_hand(
        images.flatten(2).numpy(),
        [
            (2 / (3 * 9), 0.1, windows(6, 3, padding=1), True),
            (8 * 2 / (8 * 9), 0.1, windows(6, 3, stride=2), True),
            (2 / 4, 0.1, np.eye(4)[None], True),  # 16 features: 4 positions, one weight each
            (2, 0.1, np.ones((1, 1, 1)), False),
        ],
    )
    expected = (k if kind == "nngp" else tangent)[:, :, 0, 0]
    found = kernel(model, images, initializer=LAW, kind=kind, normalize=False)
    # float32 in the loops; the tangent kernel has a kink at cosine 1, which these images are far from
    assert np.abs(found - expected).max() < (3e-6 if way == "loops" else 1e-12) * expected.max()
    own = diagonal(model, images, initializer=LAW, kind=kind)
    assert np.abs(own - expected.diagonal()).max() < 1e-12 * expected.max()
    cosines = kernel(model, images[:2], images, initializer=LAW, kind=kind)
    scale = np.sqrt(np.outer(expected.diagonal()[:2], expected.diagonal()))
    off = ~np.eye(2, 5, dtype=bool)
    assert np.abs(cosines - expected[:2] / scale)[off].max() < 1e-5


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
def test_dense_stacks(way, kind):
    x = torch.randn(7, 5, 2, 2, generator=torch.Generator().manual_seed(2)).double()
    model = nn.Sequential(nn.Flatten(), nn.Linear(20, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 8), nn.ReLU())
    k = x.flatten(1).numpy() @ x.flatten(1).numpy().T
    tangent = np.zeros_like(k)
    for gain in (2 / 20, 2):
        k = gain * k + 0.1
        tangent = gain * tangent + k
        own = k.diagonal()
        k, slope = relu_duals(own[:, None], own[None], k)
        tangent = tangent * slope
    expected = k if kind == "nngp" else tangent
    found = kernel(model, x, initializer=LAW, kind=kind, normalize=False)
    assert np.abs(found - expected).max() < (3e-6 if way == "loops" else 1e-12) * expected.max()


@pytest.mark.parametrize("padding_mode", ["zeros", "circular", "reflect"])
def test_filters_of_every_geometry_go_both_ways(images, monkeypatch, padding_mode):
    pytest.importorskip("numba")
    monkeypatch.setattr(matrix, "_WORTH_COMPILING", 0)
    options = {"padding": (2, 1), "padding_mode": padding_mode, "dilation": (1, 2), "stride": (2, 1)}
    model = nn.Sequential(nn.Conv2d(3, 8, (4, 3), **options), nn.ReLU(), nn.Conv2d(8, 8, 2), nn.ReLU())
    loops = kernel(model, images, kind="ntk")
    monkeypatch.setattr(matrix, "stack_of", lambda *arguments: None)
    assert np.abs(loops - kernel(model, images, kind="ntk")).max() < 3e-6


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
def test_pooling_all_positions(way, images, kind):
    """Two positions at every offset, through strides and zeros around the maps; a ReLU reads the pooled units."""
    model = nn.Sequential(
        nn.Conv2d(3, 8, 2),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, padding=1, stride=2),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 5),
        nn.ReLU(),
        nn.Linear(5, 2),
    )
    one = np.ones((1, 1, 1))
    k, tangent = by_hand(
        images.flatten(2).numpy(),
        [
            (2 / (3 * 4), 0.1, windows(6, 2), True),
            (2 / 9, 0.1, windows(5, 3, stride=2, padding=1), True),
            (None, None, None, False),
            (2, 0.1, one, True),
            (2, 0.1, one, False),
        ],
    )
    expected = (k if kind == "nngp" else tangent)[:, :, 0, 0]
    found = kernel(model, images, initializer=LAW, kind=kind, normalize=False)
    assert np.abs(found - expected).max() < (3e-6 if way == "loops" else 1e-12) * expected.max()
    cosines = kernel(model, images[:2], images, initializer=LAW, kind=kind)
    scale = np.sqrt(np.outer(expected.diagonal()[:2], expected.diagonal()))
    assert np.abs(cosines - expected[:2] / scale)[~np.eye(2, 5, dtype=bool)].max() < 1e-5


@pytest.mark.parametrize("convolution", [{"padding_mode": "circular"}, {"dilation": 2}, {}], ids=str)
def test_pooling_both_ways(monkeypatch, convolution):
    """Around the edges, and with more images than a block has lanes: the loops against the rules."""
    pytest.importorskip("numba")
    from initscope.propagate.kernels._offsets import LANES

    monkeypatch.setattr(matrix, "_WORTH_COMPILING", 0)
    x = torch.randn(LANES + 3, 2, 6, 6, generator=torch.Generator().manual_seed(4))
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1, **convolution), nn.ReLU(), nn.Conv2d(4, 4, 1), nn.ReLU(),
        nn.Conv2d(4, 4, 3, padding=1, stride=2, **convolution), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(4, 2),
    )  # fmt: skip
    loops = kernel(model, x, kind="ntk"), kernel(model, x[:3], x)
    monkeypatch.setattr(matrix, "stack_of", lambda *arguments: None)
    assert np.abs(loops[0] - kernel(model, x, kind="ntk")).max() < 3e-6
    assert np.abs(loops[1] - kernel(model, x[:3], x)).max() < 3e-6


def test_blocks_do_not_change_the_matrix(monkeypatch):
    """Fewer and more images than a block has lanes, on both sides, on two threads."""
    pytest.importorskip("numba")
    from initscope.propagate.kernels import stacks

    monkeypatch.setattr(matrix, "_WORTH_COMPILING", 0)
    monkeypatch.setattr(stacks, "_BLOCK", 1)
    monkeypatch.setattr(stacks, "threads", lambda: 2)
    x = torch.randn(37, 1, 4, 4, generator=torch.Generator().manual_seed(3))
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 2), nn.ReLU())
    whole = kernel(model, x)
    assert np.array_equal(whole, whole.T)
    assert np.abs(kernel(model, x[:3], x) - whole[:3])[:, 3:].max() < 1e-6
    monkeypatch.setattr(matrix, "stack_of", lambda *arguments: None)
    assert np.abs(whole - kernel(model, x)).max() < 3e-6


def test_polynomials_of_the_loops():
    """Both duals of the loops on a fine grid of cosines: within float32's rounding of the formulas."""
    pytest.importorskip("numba")
    rho = np.linspace(-1, 1, 20_001)
    expected = relu_duals(1.0, 1.0, rho)
    ones, own = np.ones((1, len(rho)), np.float32), np.ones((2, 1), np.float32)
    k, slope = rho.astype(np.float32)[None].copy(), ones.copy()
    _fused.rectify_tangent(k, slope, own, ones, _fused.coefficients())
    _fused.rectify(k, own, ones, ones, _fused.coefficients())
    assert np.abs(k[0] - expected[0]).max() < 2e-7
    # arccos has an infinite slope at ±1: there float32's cosines, 6e-8 apart, leave √6e-8/2π of it
    assert np.abs(slope[0] - expected[1]).max() < math.sqrt(2 * 6e-8) / (2 * math.pi)
    inside = np.abs(rho) < 0.99
    assert np.abs(slope[0] - expected[1])[inside].max() < 5e-7


def test_what_is_a_stack():
    """Branches, other activations, groups and zero-sum filters are none."""
    from initscope.graph import bind
    from initscope.initializers import ZeroSum
    from initscope.propagate.prediction import networks_of

    def found(model, shape, law=None):
        networks = networks_of(model, bind(model, torch.ones(2, *shape)), law, size=2)
        return relu_stack.stack_of(networks.traced, networks.context, shape)

    image = (4, 6, 6)
    assert found(nn.Sequential(nn.Conv2d(4, 4, 3), nn.ReLU()), image) is not None
    assert found(nn.Sequential(nn.Conv2d(4, 4, 3), nn.ReLU()), image, ZeroSum()) is None
    assert found(nn.Sequential(nn.Conv2d(4, 4, 3), nn.Tanh()), image) is None
    assert found(nn.Sequential(nn.Conv2d(4, 4, 3, groups=2), nn.ReLU()), image) is None
    assert found(nn.Sequential(nn.ReLU(), nn.Conv2d(4, 4, 3)), image) is None
    assert found(nn.Sequential(nn.Conv2d(4, 4, 3), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(16, 2)), image) is None
    # What averages all positions is one, but not what averages them otherwise, or reads reflected edges.
    pooled = (nn.Conv2d(4, 4, 3), nn.ReLU(), nn.AvgPool2d(4), nn.Flatten(), nn.Linear(4, 2))
    assert found(nn.Sequential(*pooled), image).mean.pooled
    assert found(nn.Sequential(*pooled[:2], nn.AvgPool2d(2), nn.AvgPool2d(2), *pooled[3:]), image) is None
    reflected = nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect")
    assert found(nn.Sequential(reflected, nn.ReLU(), nn.AdaptiveAvgPool2d(1)), image) is None
    circular = nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular", stride=4)  # 6 positions are no whole strides
    assert found(nn.Sequential(circular, nn.ReLU(), nn.AdaptiveAvgPool2d(1)), image) is None
    assert found(nn.Sequential(nn.Flatten(), nn.Linear(144, 2)), image).image_steps == ()
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
    assert len(found(nn.Sequential(nn.Conv2d(4, 4, 3), nn.ReLU(), *head), image).dense_steps) == 3
    # A ReLU of a ReLU is that ReLU, and one behind Flatten still acts position by position.
    assert found(nn.Sequential(nn.Conv2d(4, 4, 3), nn.ReLU(), nn.ReLU()), image) is None
    assert found(nn.Sequential(nn.Conv2d(4, 4, 3), nn.Flatten(), nn.ReLU(), nn.Linear(64, 2)), image) is None


def test_images_that_do_not_fit_are_refused(way):
    """Those that a filter could read, and the layer behind it could not."""
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 2))
    assert kernel(model, torch.ones(2, 1, 8, 8)).shape == (2, 2)
    with pytest.raises(InputError):
        kernel(model, torch.ones(2, 1, 6, 8))


def test_few_pairs_of_large_pooled_maps_go_through_the_loops(monkeypatch):
    """The rules meet every two positions of both images: at 32 × 32 pixels that is seconds a pair."""
    pytest.importorskip("numba")
    monkeypatch.setattr(matrix, "pair_kernel", lambda *arguments, **options: pytest.fail("went by the rules"))
    x = torch.randn(4, 3, 24, 24, generator=torch.Generator().manual_seed(5))
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)
    )
    whole = kernel(model, x, kind="ntk", normalize=False)
    assert np.abs(diagonal(model, x, kind="ntk") - whole.diagonal()).max() < 1e-7 * whole.max()  # it is float32 inside
