"""Traits against what torch's functions and modules do when they run."""

from __future__ import annotations

import math
import operator

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from initscope.graph import ACTIVATIONS, ActivationLayer, role_of, trace, traits_of_call, traits_of_module
from initscope.graph.ops import OPS
from initscope.traits import Normalization, Pooling, Traits

GRID = torch.cat([torch.linspace(-30, 30, 120_001), torch.linspace(-1, 1, 4001)]).double()


def _function(name: str):
    for scope in (F, torch, torch.Tensor, operator):
        if callable(getattr(scope, name, None)):
            return getattr(scope, name)
    pytest.skip(f"this torch has no {name}")


def _module(row) -> nn.Module:
    module = nn.Threshold(0.3, -0.2) if row.name == "threshold" else row.build()
    return module.eval().double()


@pytest.mark.parametrize("row", ACTIVATIONS, ids=lambda row: row.name)
def test_bounds_and_value_at_zero_are_those_of_the_function(row):
    """Least and largest value over a dense grid: attained or approached to 1e-3, never exceeded; catches wrong ends."""
    module = _module(row)
    traits = traits_of_module(module)
    with torch.no_grad():
        values = module(GRID)
        at_zero = float(module(torch.zeros(1, dtype=torch.float64)))
        far = module(torch.tensor([-1e6, 1e6], dtype=torch.float64))
    if row.name == "identity":
        assert traits.role == "bookkeeping"
        return
    low, high = traits.bounds
    assert values.min() >= low - 1e-9
    assert values.max() <= high + 1e-9
    assert math.isinf(low) or float(values.min()) < low + 0.04
    assert math.isinf(high) or float(values.max()) > high - 0.04
    # What has no end grows beyond any number that the grid's ends give.
    assert math.isfinite(low) or float(far.min()) < -1e3
    assert math.isfinite(high) or float(far.max()) > 1e3
    if row.name not in ("sign", "step"):  # at whose jump any value is right
        assert traits.value_at_zero == pytest.approx(at_zero, abs=1e-12)


@pytest.mark.parametrize("row", [row for row in ACTIVATIONS if row.name != "identity"], ids=lambda row: row.name)
def test_saturation_zeros_and_kinks_are_those_of_the_derivative(row):
    """By autograd: slopes at far ends, at zero outputs, on both sides of zero. Catches a swapped flag of any row."""
    module, traits = _module(row), traits_of_module(_module(row))
    x = GRID.clone().requires_grad_()
    values = module(x)
    slopes = torch.autograd.grad(values.sum(), x)[0] if values.requires_grad else torch.zeros_like(x)
    if traits.rounds:
        assert not slopes.any()
    elif traits.saturates:
        assert float(slopes[GRID.abs() > 29].abs().max()) < 2e-2
        assert traits.bounded
    off = values == 0
    if traits.zero_is_off:
        assert off.sum() > 1
        assert not slopes[off & (GRID != 0)].any()
    if traits.rectifier:
        below, above = slopes[(GRID < -0.01) & (GRID > -5)].unique(), slopes[(GRID > 0.01) & (GRID < 5)].unique()
        assert len(below) == len(above) == 1
        assert float(below) != float(above)
    if traits.is_relu:
        assert torch.equal(values.detach(), GRID.clamp_min(0))


_KEEPING = [name for name, op in OPS.items() if op.traits.keeps_values and name not in ("identity", "cuda")]


@pytest.mark.parametrize("name", sorted(_KEEPING))
def test_ops_that_keep_values_return_their_input(name):
    x = torch.randn({"dropout2d": (2, 3, 4, 5), "dropout3d": (2, 3, 4, 5, 2)}.get(name, (3, 4, 5)))
    given = {"to": (torch.float64,), "type_as": (x,)}.get(name, ())
    args = (0.5, False) if OPS[name].traits.drops else given  # dropout that is off
    assert torch.equal(_function(name)(x, *args).float(), x)


_MOVING = {
    "view": (2, 12), "reshape": ((2, 12),), "flatten": (), "unflatten": (0, (1, 2)), "ravel": (), "permute": (2, 0, 1),
    "transpose": (0, 1), "swapaxes": (0, 1), "swapdims": (0, 1), "movedim": (0, 1), "moveaxis": (0, 1), "mT": None,
    "unsqueeze": (0,), "squeeze": (), "roll": (1, 0), "flip": ((0,),), "rot90": (), "pad": ((1, 1),),
    "repeat": (2, 1, 1), "narrow": (0, 0, 1), "select": (0, 1), "getitem": (0,), "index_select": (0, torch.tensor([1])),
    "tile": ((2,),), "repeat_interleave": (2,), "diagonal": (), "tril": (), "triu": (), "expand": (3, 2, 3, 4),
    "broadcast_to": ((3, 2, 3, 4),),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(_MOVING))
def test_ops_that_move_values_make_no_new_ones(name):
    """Every output value is one of the input's, or zero; reshaping keeps their order; a view shares the memory."""
    x = torch.arange(1.0, 25.0).reshape(2, 3, 4)
    function = (lambda values: values.mT) if name == "mT" else _function(name)
    given = _MOVING[name] or ()
    if name == "permute":
        output = x.permute(*given)
    elif name in ("view", "repeat", "expand"):
        output = getattr(x, name)(*given)
    else:
        output = function(x, *given)
    traits = OPS[name].traits
    assert traits.moves_values
    assert set(output.flatten().tolist()) <= {0.0, *x.flatten().tolist()}
    if traits.reshapes:
        assert torch.equal(output.flatten(), x.flatten())
    if traits.permutes_axes:
        assert sorted(output.shape) == sorted(x.shape)
        assert not torch.equal(output.flatten(), x.flatten())
    if traits.is_view:
        assert output.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


@pytest.mark.parametrize("name", ["round", "floor", "ceil", "trunc", "fix", "sgn"])
def test_ops_that_round_have_no_gradient(name):
    x = torch.randn(100, requires_grad=True)
    _function(name)(x).sum().backward()
    assert OPS[name].traits.rounds
    assert not x.grad.any()


def test_the_largest_values_have_a_gradient_and_their_indices_have_none():
    x = torch.randn(100, requires_grad=True)
    values, indices = x.topk(3)
    values.sum().backward()
    assert x.grad.sum() == 3
    assert not indices.requires_grad
    assert not OPS["topk"].traits.rounds
    assert OPS["argsort"].traits.rounds


def test_random_ops_differ_from_run_to_run():
    x = torch.rand(200)
    for name in ("rand_like", "randn_like", "bernoulli", "poisson"):
        assert OPS[name].traits.random
        assert not torch.equal(_function(name)(x), _function(name)(x))
    assert traits_of_module(nn.Dropout(0.25)).drop_rate == 0.25
    assert traits_of_call("dropout", (x, 0.1), {}, 1).drop_rate == 0.1
    assert traits_of_call("dropout", (x,), {}, 1).drop_rate == 0.5


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_sums_to_one_along_its_axis(axis):
    x = torch.randn(3, 4, 5)
    module = nn.Softmax(axis)
    traits = traits_of_module(module)
    assert torch.allclose(module(x).sum(traits.softmax_axis), torch.ones(()))
    assert traits.probabilities == "probability"
    assert traits_of_call("log_softmax", (x, axis), {}, 1).softmax_axis == axis
    assert traits_of_call("softmax", (x,), {"dim": axis}, 1).softmax_axis == axis
    assert traits_of_module(nn.LogSoftmax(axis)).probabilities == "log-probability"


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (nn.BatchNorm1d(6), (8, 6)),
        (nn.BatchNorm2d(6), (8, 6, 4, 5)),
        (nn.LayerNorm(5), (8, 6, 4, 5)),
        (nn.LayerNorm((4, 5)), (8, 6, 4, 5)),
        (nn.InstanceNorm2d(6), (8, 6, 4, 5)),
    ],
)
def test_norms_have_unit_variance_over_their_axes(module, shape):
    x = 3 + 2 * torch.randn(shape)
    found = traits_of_module(module).normalizes
    axes = [axis for axis in found.axes if axis < len(shape)]
    output = module(x).detach()
    assert torch.allclose(output.var(axes, unbiased=False), torch.ones(()), atol=1e-3)
    assert found.over_samples == (0 in axes)
    assert traits_of_module(module).couples_samples == found.over_samples


def test_batch_norm_couples_samples_in_training_only():
    assert traits_of_module(nn.BatchNorm2d(3)).couples_samples
    assert not traits_of_module(nn.BatchNorm2d(3).eval()).couples_samples
    assert traits_of_module(nn.BatchNorm2d(3, track_running_stats=False).eval()).couples_samples
    given = (None, None, None, None, None)
    assert traits_of_call("batch_norm", (*given, True), {}, 1).couples_samples
    assert not traits_of_call("batch_norm", given, {}, 1).couples_samples


def test_pooling_says_what_it_takes_and_over_which_axes():
    x = torch.randn(2, 3, 4, 5)
    assert traits_of_module(nn.MaxPool2d(2)).pools == Pooling("max", (-2, -1), windows=True)
    assert traits_of_call("avg_pool1d", (x, 2), {}, 1).pools == Pooling("mean", (-1,), windows=True)
    assert traits_of_call("mean", (x, (2, 3)), {}, 1).pools == Pooling("mean", (2, 3))
    assert traits_of_call("amax", (x,), {"dim": 1}, 1).pools == Pooling("max", (1,))
    assert traits_of_call("mean", (x,), {}, 1).pools == Pooling("mean")


def test_clamps_have_the_bounds_of_their_arguments():
    x = torch.linspace(-9, 9, 100)
    for args, kwargs in (((x, -1, 2), {}), ((x,), {"min": 0.5}), ((x,), {"max": 3.0})):
        low, high = traits_of_call("clamp", args, kwargs, 1).bounds
        values = torch.clamp(*args, **kwargs)
        assert float(values.min()) == max(-9, low)
        assert float(values.max()) == min(9, high)


class _Everything(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight, self.table = nn.Parameter(torch.randn(6, 6)), nn.Embedding(9, 6)
        self.lstm = nn.LSTM(6, 6, batch_first=True)

    def forward(self, ids):
        x = self.table(ids)
        y, _ = self.lstm(x)
        scores = torch.einsum("bqd,bkd->bqk", x, y)
        mixed = scores.softmax(-1) @ F.linear(y, self.weight)
        gated = torch.sigmoid(mixed) * x
        return torch.cat([gated - y.detach(), F.hardtanh(x, -2.0, 3.0)], dim=-1)


def test_traits_of_a_traced_model():
    traced = trace(_Everything(), torch.randint(9, (4, 3)))
    traits = {node.kind: node.traits for node in traced.nodes}
    assert traits["Embedding"].embedding
    assert traits["LSTM"].recurrent
    assert traits["einsum"].product
    assert traits["einsum"].equation == "bqd,bkd->bqk"
    assert traits["softmax"].attention == "weights"
    assert traits["matmul"].product
    assert traits["linear"].weight_names == ("weight",)
    assert traits["LSTM"].weight_names == ("lstm.weight_ih_l0", "lstm.weight_hh_l0")
    assert traits["mul"].gate
    assert traits["sub"].summand_signs == (1, -1)
    assert traits["detach"].detaches
    assert traits["cat"].concatenates
    assert traits["hardtanh"].bounds == (-2.0, 3.0)
    assert traits["sigmoid"].probabilities == "probability"


def test_convolutions_of_one_tap_read_one_position():
    assert traits_of_module(nn.Conv2d(3, 4, 3)).reads_positions
    assert not traits_of_module(nn.Conv2d(3, 4, 1)).reads_positions
    assert traits_of_module(nn.Conv1d(3, 4, 1)).unit_axis == 0
    assert traits_of_module(nn.Linear(3, 4)).unit_axis == -1


def test_unknown_modules_and_calls_have_no_traits():
    class Own(nn.Module):
        pass

    assert traits_of_module(Own()) == Traits()
    assert traits_of_call("no such function", (), {}, 1) == Traits()
    assert role_of(ActivationLayer("erf")) == "activation"
    assert traits_of_module(nn.GroupNorm(2, 4)).normalizes == Normalization("group")
    assert repr(Traits(role="gate", gate=True)) == "Traits(role='gate', gate=True)"
