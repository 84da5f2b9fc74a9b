"""The steps of models of every shape: what has a row, how it is called, and that running it changes nothing."""

import random
from contextlib import nullcontext

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from initscope.errors import InputError
from initscope.graph import Inputs, bind, hidden_sides, trace
from initscope.graph.borrowing import borrowed


class Everything(nn.Module):
    """Functions, methods, in-place writes, a shared layer, a parameter, a constant, sizes, a dict of outputs."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.act = nn.ReLU(inplace=True)
        self.block = nn.Sequential(nn.Linear(4, 4))
        self.shift = nn.Parameter(torch.zeros(4))

    def forward(self, x, mask=None):
        if mask is not None:
            x = x * mask
        y = self.fc(F.relu(self.fc(x)))
        z = torch.relu(y) + y
        z.relu_()
        z = self.act(z + self.shift + torch.tensor(1.0))
        return {"mean": torch.cat([z, x], 1).view(x.shape[0], -1).mean(-1), "z": self.block(z)[:, :2]}


class Branching(Everything):
    """Asks for a value, which symbolic tracing cannot answer."""

    def forward(self, x, mask=None):
        return super().forward(x if x.sum() > -1e9 else -x, mask)


NAMES = ["input", "fc", "relu", "fc (2)", "relu (2)", "add", "relu (3)", "add (2)", "add (3)", "act", "cat", "view"]
NAMES += ["mean", "block.0", "getitem"]


def names(traced):
    return [step.name for step in traced.nodes]


def test_symbolic_and_recorded_traces_have_the_same_rows_and_the_same_wiring():
    x = torch.randn(5, 4)
    symbolic, recorded = trace(Everything(), x), trace(Branching(), x)
    assert symbolic.fallback == ""
    assert "TraceError" in recorded.fallback
    assert names(symbolic) == NAMES
    assert [name for name in names(recorded) if name != "sum"] == NAMES
    for traced in (symbolic, recorded):
        parents = {step.name: [parent.name for parent in step.inputs if parent.row] for step in traced.nodes}
        assert parents["fc (2)"] == ["relu"]
        assert parents["add"] == ["relu (2)", "fc (2)"]
        assert parents["add (2)"] == ["relu (3)"], "what was written in place is read from the step that wrote it"
        assert parents["cat"] == ["act", "input"]
        assert [step.kind for step in traced.nodes if step.name in ("relu (3)", "act", "fc")] == [
            "Linear",
            "relu_",
            "ReLU",
        ]


@pytest.mark.parametrize("build", [Everything, Branching])
def test_running_a_trace_gives_the_models_output_and_shows_values_before_they_are_overwritten(build):
    model, x = build(), torch.randn(5, 4)
    traced, seen = trace(model, x), {}
    output = traced.execute(bind(model, x), lambda step, args, kwargs, value: seen.update({step.name: value + 0}))
    torch.testing.assert_close(output["z"], model(x)["z"], rtol=0, atol=0)
    assert list(seen) == names(traced)
    assert (seen["add"] < 0).any(), "the sum before relu_ writes into it"
    assert (seen["relu (3)"] >= 0).all()


def test_watch_may_replace_an_output():
    for build in (Everything, Branching):
        model, x = build(), torch.randn(5, 4)
        traced = trace(model, x)

        def silence(step, args, kwargs, value, traced=traced):
            return torch.zeros_like(value) if step.name == "act" else None

        torch.testing.assert_close(
            traced.execute(bind(model, x), silence)["z"], model.block[0].bias[:2].expand(5, 2), rtol=0, atol=0
        )


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(3, 2), nn.Linear(4, 2)

    def forward(self, a, b, scale=2.0):
        return self.left(a) + scale * self.right(b)


class Bag(Pair):
    def forward(self, batch):
        return super().forward(batch["a"], batch["more"][0])


def test_arguments_come_from_tuples_and_dicts():
    a, b = torch.randn(6, 3), torch.randn(6, 4)
    model = Pair()
    assert names(trace(model, (a, b)))[:2] == ["input (a)", "input (b)"]
    assert len(bind(model, (a, b, "labels")).args) == 2
    assert set(bind(model, {"a": a, "b": b, "labels": 0}).kwargs) == {"a", "b"}
    with pytest.raises(InputError, match="needs 2 inputs"):
        bind(model, (a,))
    bag = {"a": a, "more": [b]}
    assert names(trace(Bag(), bag))[:2] == ["input (batch[a])", "input (batch[more][0])"]
    assert len(bind(nn.Linear(3, 2), (a, torch.arange(6))).args) == 1
    assert Inputs((a, [b])).tensors()[1] is b


def test_a_layer_a_leaf_and_a_function_only_model():
    assert names(trace(nn.Linear(3, 2), torch.ones(1, 3))) == ["input", "Linear"]
    assert names(trace(nn.Bilinear(3, 4, 2), (torch.ones(1, 3), torch.ones(1, 4))))[2:] == ["Bilinear"]
    leaf = trace(nn.Sequential(Everything(), nn.Linear(2, 2)), is_leaf=lambda module: isinstance(module, Everything))
    assert names(leaf) == ["input", "0", "1"]
    nested = trace(nn.Sequential(nn.Sequential(Everything())), torch.ones(2, 4))
    assert names(nested)[1:4] == ["0.0.fc", "0.0.relu", "0.0.fc (2)"]


def test_assignment_into_a_slice_is_a_step_of_the_recorded_run():
    class Writes(nn.Module):
        def forward(self, x):
            x = x * 2
            x[:, 0] = 0
            return x + 1

    traced = trace(Writes(), torch.ones(3, 2))
    assert names(traced) == ["input", "mul", "setitem", "add"]
    assert traced.nodes[3].inputs == (traced.nodes[2],)


def rewrites_columns(self, x):
    h = self.fc(x)
    h[:, :2].mul_(0.0)
    return h + 1


def rewrites_by_function(self, x):
    h = self.fc(x)
    F.relu(h[:, :2], True)
    return h + 1


def rewrites_a_chunk(self, x):
    h = self.fc(x)
    first, second = h.chunk(2, dim=1)
    first.mul_(3.0)
    return torch.cat([h, second], dim=1)


def rewrites_all(self, x):
    h = self.fc(x)
    h.view(-1).mul_(3.0)
    return h + 1


def rewrites_out(self, x):
    h = self.fc(x)
    torch.mul(h, 3.0, out=h)
    return h + 1


def adds_in_place(self, x):
    h = skip = self.fc(x)
    h += torch.relu(h)
    return h - 2 * skip


def writes_behind_a_view(self, x):
    h = self.fc(x)
    view = h[:, :2]
    h *= 2
    return view + 1


def writes_twice(self, x):
    h = self.fc(x)
    h[:, :2].mul_(3.0)
    h[:, 1:].add_(1.0)
    return h + h.t().t()


def writes_into_its_input(self, x):
    x[:, :2] *= 3.0
    return self.fc(x)


def counts(self, x):
    columns = width = x.shape[1]
    columns += 1
    return self.fc(x) * columns + width


WRITERS = [rewrites_columns, rewrites_by_function, rewrites_a_chunk, rewrites_all, rewrites_out, adds_in_place]
WRITERS += [writes_behind_a_view, writes_twice, writes_into_its_input, counts]


class Writer(nn.Module):
    def __init__(self, function, branching):
        super().__init__()
        self.fc, self.function, self.branching = nn.Linear(4, 6), function, branching

    def forward(self, x):
        if self.branching and x.sum() > 1e9:
            x = -x
        return self.function(self, x)


@pytest.mark.parametrize("branching", [False, True])
@pytest.mark.parametrize("function", WRITERS)
def test_what_is_written_through_any_view_is_read_from_the_step_that_wrote_it(function, branching):
    """The trace runs as the model does, and no step reads a value that was overwritten since."""
    model, x = Writer(function, branching), torch.randn(5, 4)
    kept, seen = x.clone(), {}
    traced = trace(model, x)

    def watch(step, args, kwargs, value):
        if not isinstance(value, torch.Tensor):
            return
        for parent, read in zip(step.args, args, strict=True):
            if isinstance(read, torch.Tensor) and parent in seen and read.data_ptr() != value.data_ptr():
                torch.testing.assert_close(read, seen[parent], rtol=0, atol=0)
        seen[step] = value.clone()

    with torch.no_grad():
        output = traced.execute(bind(model, x), watch)
        torch.testing.assert_close(output, model(x.clone()), rtol=0, atol=0)
    assert torch.equal(x, kept)


def test_masks_and_computed_weights_of_a_recorded_run_are_no_rows_but_their_own_values():
    class Masks(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x):
            if x.sum() > 1e9:
                x = -x
            return F.linear(x * (x > 0), self.fc.weight * 2)

    model = Masks()
    traced = trace(model, torch.ones(3, 4))
    assert names(traced)[-2:] == ["mul", "linear"]
    product, linear = traced.nodes[-2:]
    assert product.inputs == (traced.nodes[0],)
    assert (product.args[1].name, product.args[1].row) == ("gt", False)
    assert linear.constants == [model.fc.weight]


class Careless(nn.Module):
    """Leaves marks wherever it can, and fails on negative sums."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        self.last = x
        random.random(), np.random.rand(), torch.rand(1)  # noqa: NPY002
        constant = torch.tensor([1.0, 2.0, 3.0, 4.0])
        y = F.dropout(self.norm(x) + constant)
        if x.sum() < 0:
            raise RuntimeError("refused")
        return self.fc(y)


def state_of(model):
    return (
        {name: value.clone() for name, value in model.state_dict().items()},
        [(list(vars(module)), module.training, len(module._forward_hooks)) for module in model.modules()],
        [(parameter.requires_grad, parameter.grad) for parameter in model.parameters()],
        torch.get_rng_state(),
        random.getstate(),
        np.random.get_state()[1].copy(),  # noqa: NPY002
    )


@pytest.mark.parametrize("sign", [1, -1])
def test_tracing_and_running_leave_no_trace(sign):
    model, x = Careless(), sign * torch.rand(5, 4)
    model.fc.weight.requires_grad_(False)
    before = state_of(model)
    with nullcontext() if sign > 0 else pytest.raises(InputError, match="refused"):
        traced = trace(model, x)
        with borrowed(model):
            model.eval()
            model.fc.weight.requires_grad_(True)
            traced.execute(bind(model, x), lambda *call: None)
    after = state_of(model)
    assert all(torch.equal(before[0][name], after[0][name]) for name in before[0])
    assert before[1] == after[1]
    assert before[2] == after[2]
    assert torch.equal(before[3], after[3])
    assert before[4] == after[4]
    assert np.array_equal(before[5], after[5])


def test_what_cannot_be_traced_says_why():
    with pytest.raises(InputError, match="the model is of type str; load it first"):
        trace("resnet")
    with pytest.raises(InputError, match="cannot be traced without an input"):
        trace(Branching())
    with pytest.raises(InputError, match=r"fails on inputs of shape \(7, 3\)"):
        trace(Branching(), torch.ones(7, 3))


class Streams(nn.Module):
    """A skip from the input, a hidden stream with a skip of its own, a layer called twice, a returned middle."""

    def __init__(self):
        super().__init__()
        self.onto_input, self.start = nn.Linear(4, 4), nn.Linear(4, 6)
        self.twice, self.up = nn.Linear(6, 6), nn.Conv1d(6, 8, 1)
        self.shown, self.end = nn.Linear(8, 8), nn.Linear(8, 2)

    def forward(self, x):
        x = x + self.onto_input(x)
        h = F.relu(self.start(x))
        h = self.twice(h + self.twice(h))
        shown = self.shown(self.up(h[..., None]).flatten(1).relu_())
        return self.end(shown), shown


@pytest.mark.parametrize("data", [None, torch.randn(3, 4)])
def test_hidden_units_are_told_from_those_that_the_input_or_output_shares(data):
    model = Streams()
    sides = hidden_sides(trace(model, data))
    assert {name: sides[module] for name, module in model.named_children()} == {
        "onto_input": (False, False),
        "start": (False, True),
        "twice": (True, True),
        "up": (True, True),
        "shown": (True, False),
        "end": (False, False),
    }
