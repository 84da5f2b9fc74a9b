"""What users call models with: which arguments are passed, and which of them carry samples."""

from collections import namedtuple

import numpy as np
import pytest
import torch
from stateful import Compiled
from torch import nn
from torch.nn.utils import prune

import initscope
from initscope.errors import InputError
from initscope.graph import Inputs, bind, trace
from initscope.measurement import observe

Fields = namedtuple("Fields", "x mask")


class Dense(nn.Module):
    """One layer, reached by a ``forward`` that each test gives."""

    def __init__(self, forward):
        super().__init__()
        self.fc, self.other = nn.Linear(6, 4), nn.Linear(6, 4)
        type(self).forward = forward


def dense(forward):
    """A class of its own, so that ``forward`` has its own signature."""
    return type("Model", (Dense,), {})(forward)


def takes_anything(self, *args, **kwargs):
    return self.fc(args[0] if args else kwargs["x"])


def takes_many(self, *values):
    return self.fc(values[0]) + self.other(values[1]).mean(0)


def needs_a_mask(self, x, mask):
    return self.fc(x if mask is None else x * mask)


def takes_a_bag(self, bag):
    return self.fc(bag.x * bag.mask)


def keyword_only(self, *, x, scale=2.0):
    return self.fc(x) * scale


def scaled(self, x, time):
    return self.fc(x) * (time + 1)


def scaled_each(self, x, time):
    return self.fc(x) * (time + 1)[:, None]


def on_a_graph(self, x, edges):
    h = self.fc(x)
    return torch.zeros_like(h).index_add(1, edges[1], h[:, edges[0]])


def runs(model, x, y, both, **options):
    """Rows of all calls that take data; every one holds the layer with numbers."""
    found = {
        "predict": initscope.predict(model, x, y, **options),
        "measure": initscope.measure(model, x, y, draws=1, **options),
        "observe": observe(model, both, pairs=3, **options),
    }
    inspected = initscope.inspect(model, both, pairs=3, alternatives=False, **options)
    assert inspected.prediction is not None
    for seen in [*found.values(), inspected.observation]:
        row = [row.layer for row in seen.rows].index("fc")
        assert np.isfinite(seen.cosine[row]).all()
    assert [row.layer for row in found["predict"].rows] == [row.layer for row in found["measure"].rows]
    return found


def sides(rng, *shape):
    x, y = (torch.randn(4, *shape, generator=rng) for _ in range(2))
    return x, y, torch.cat([x, y])


@pytest.fixture
def rng():
    return torch.Generator().manual_seed(0)


def test_arguments_of_every_kind_reach_the_model(rng):
    x, y, both = sides(rng, 6)
    ones = torch.ones(4, 6)
    runs(dense(takes_anything), x, y, both)
    runs(dense(takes_anything), {"x": x}, {"x": y}, {"x": both, "labels": torch.zeros(8)})
    runs(dense(needs_a_mask), (x, None), (y, None), (both, None))
    runs(dense(needs_a_mask), {"x": x, "mask": None}, {"x": y, "mask": None}, {"x": both, "mask": None})
    runs(dense(needs_a_mask), Fields(x, ones), Fields(y, ones), Fields(both, torch.ones(8, 6)))
    runs(dense(takes_a_bag), Fields(x, ones), Fields(y, ones), Fields(both, torch.ones(8, 6)))
    runs(dense(keyword_only), {"x": x}, {"x": y}, {"x": both})
    runs(dense(keyword_only), x, y, both)


def test_scalars_and_one_number_for_each_sample_stand_beside_tensors(rng):
    x, y, both = sides(rng, 6)
    step = torch.tensor(3.0)
    runs(dense(scaled), (x, 3), (y, 3), (both, 3))
    runs(dense(scaled), (x, step), (y, step), (both, step))
    time = torch.rand(8, generator=rng)
    found = runs(dense(scaled_each), (x, time[:4]), (y, time[4:]), (both, time))
    expected = torch.cosine_similarity(x, y).numpy()
    np.testing.assert_allclose(found["measure"].cosine[0], expected, atol=1e-6)


def test_batch_args_say_which_arguments_carry_samples(rng):
    """Edges that all samples share, fewer than samples or as many: without the word they are refused, or cut."""
    x, y, both = sides(rng, 5, 6)
    edges = torch.randint(5, (2, 9), generator=rng)
    model = dense(on_a_graph)
    for name in ("x", 0, ["x"]):
        found = runs(model, (x, edges), (y, edges), (both, edges), batch_args=name)
    output = initscope.measure(model, (x, edges), (y, edges), draws=0, batch_args="x").cosine[-1]
    h = model(x, edges).flatten(1), model(y, edges).flatten(1)
    np.testing.assert_allclose(output, torch.cosine_similarity(*h).detach().numpy(), atol=1e-5)
    assert found["predict"].rows[1].layer == "input (edges)"
    for run in (initscope.predict, initscope.measure):
        with pytest.raises(InputError, match=r"'edges': 2.*batch_args='x'"):
            run(model, (x, edges), (y, edges))
        with pytest.raises(InputError, match="available inputs: x, edges"):
            run(model, (x, edges), (y, edges), batch_args="edge")
        with pytest.raises(InputError, match="differs between x and y"):
            run(model, (x, edges), (y, 4 - edges), batch_args="x")
    with pytest.raises(InputError, match=r"different lengths.*batch_args"):
        observe(model, (both, edges))
    two = torch.randn(3, 6, generator=rng)
    runs(dense(takes_many), (x[:, 0], two), (y[:, 0], two), (both[:, 0], two), batch_args=0)


def test_inputs_cut_and_join_what_carries_samples():
    x, shared = torch.arange(6.0).reshape(3, 2), torch.ones(3)
    inputs = bind(dense(needs_a_mask), (x, shared), batch_args="x")
    assert inputs.samples == 3
    assert torch.equal(inputs.pick([2, 0]).args[0], x[[2, 0]])
    assert inputs.pick([2, 0]).args[1] is shared
    joined = inputs.joined(inputs.pick(slice(0, 1)), inputs)
    assert [len(tensor) for tensor in joined.tensors()] == [7, 3]
    assert Inputs((x, shared, torch.tensor(1.0))).batched == (True, True, False)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.fc = nn.GRU(3, 6, batch_first=True), nn.Linear(6, 2)

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        return self.fc(self.gru(packed)[1][-1])


def test_a_failing_model_is_told_without_the_words_of_torch_fx():
    with pytest.raises(InputError, match="the model fails on inputs") as told:
        initscope.inspect(nn.Sequential(nn.Linear(8, 4)), {"unknown": torch.ones(20, 8)}, pairs=4)
    assert "While executing" not in str(told.value)


def test_packed_sequences_run(rng):
    x, y, both = sides(rng, 7, 3)
    lengths = torch.tensor([3, 7, 2, 5])
    model = Recurrent()
    measured = initscope.measure(model, (x, lengths), (y, lengths), draws=0)
    outputs = model(x, lengths), model(y, lengths)
    np.testing.assert_allclose(measured.cosine[-1], torch.cosine_similarity(*outputs).detach().numpy(), atol=1e-5)
    assert np.isfinite(observe(model, (both, lengths.repeat(2)), pairs=4).cosine[-1]).all()


def through_nested(self, x):
    padded = torch.nested.to_padded_tensor(self.fc(torch.nested.as_nested_tensor(list(x))), 0.0)
    return padded.relu()


def through_sparse(self, x):
    kept = self.fc(x).relu().flatten(0, 1).to_sparse()
    return torch.sparse.mm(kept, torch.eye(4)).reshape(len(x), -1, 4)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("forward", [through_nested, through_sparse])
def test_values_without_a_shape_have_no_numbers_and_do_no_harm(rng, forward):
    x, y, both = sides(rng, 5, 6)
    model = dense(forward)
    measured = initscope.measure(model, x, y, draws=0)
    outputs = (model(side).detach().flatten(1) for side in (x, y))
    np.testing.assert_allclose(measured.cosine[-1], torch.cosine_similarity(*outputs).numpy(), atol=1e-5)
    assert np.isfinite(observe(model, both, pairs=4).cosine[-1]).all()
    assert np.isfinite(initscope.predict(model, x, y, draws=2).cosine[-1]).all()


class Wrapped(nn.Module):
    """Hands a named tuple from one module to the next."""

    def __init__(self):
        super().__init__()
        self.first, self.second = (dense(lambda self, bag: Fields(self.fc(bag.x), bag.mask)) for _ in range(2))
        self.second.fc = nn.Linear(4, 3)

    def forward(self, x):
        return self.second(self.first(Fields(x, None)))


def test_named_tuples_travel_between_modules_and_out_of_the_model(rng):
    x, y, both = sides(rng, 6)
    model = Wrapped()
    outputs = (model(side).x.detach() for side in (x, y))
    measured = initscope.measure(model, x, y, draws=0)
    np.testing.assert_allclose(measured.cosine[-1], torch.cosine_similarity(*outputs).numpy(), atol=1e-5)
    predicted = initscope.predict(model, x, y)
    assert [row.layer for row in predicted.rows] == ["input", "first.fc", "second.fc"]
    assert [row.status for row in predicted.rows] == ["closed form"] * 3
    assert [row.layer for row in measured.rows] == [row.layer for row in predicted.rows]
    assert np.isfinite(observe(model, both, pairs=4).cosine[-1]).all()


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.fc = nn.Embedding(20, 6), nn.Linear(6, 3)

    def forward(self, ids):
        return self.fc(self.embedding(ids)).mean(1)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_indices_of_any_width_look_up_the_same_words(kind):
    ids = np.random.default_rng(0).integers(0, 20, (8, 5))
    model = Words()
    expected = initscope.predict(model, torch.as_tensor(ids[:4]), torch.as_tensor(ids[4:])).cosine
    found = runs(model, ids[:4].astype(kind), ids[4:].astype(kind), ids.astype(kind))
    np.testing.assert_array_equal(found["predict"].cosine, expected)


class Listed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6), None, nn.Linear(6, 3)])

    def forward(self, x):
        for layer in self.layers:
            x = x if layer is None else layer(x).relu()
        return x


class Counting(nn.Module):
    """Another number of steps for every batch."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 6)

    def forward(self, x):
        for _ in range(1 + int(x.abs().sum() * 10) % 4):
            x = self.fc(x).relu()
        return x


def test_gaps_in_lists_and_numbers_of_steps_that_change_do_no_harm(rng):
    x, y, both = sides(rng, 6)
    for model in (Listed(), Counting()):
        for shift in range(4):
            initscope.predict(model, x + shift, y)
            initscope.measure(model, x + shift, y, draws=2)
            seen = observe(model, both + shift, pairs=4)
            assert np.isfinite(seen.cosine[1]).all()


@pytest.mark.filterwarnings("ignore:.*weight_norm.*")
def test_weights_that_hooks_compute_are_measured_and_refuse_to_be_drawn(rng):
    x, y, both = sides(rng, 6)
    pruned = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))
    prune.random_unstructured(pruned[0], "weight", 0.5)
    normed = nn.Sequential(nn.utils.weight_norm(nn.Linear(6, 8)), nn.ReLU(), nn.Linear(8, 4))
    for model, origins in ((pruned, "weight_orig"), (normed, "weight_g and weight_v")):
        model(x)
        expected = torch.cosine_similarity(model(x), model(y)).detach().numpy()
        np.testing.assert_allclose(initscope.measure(model, x, y, draws=0).cosine[-1], expected, atol=1e-5)
        assert np.isfinite(initscope.inspect(model, both, pairs=4).observation.cosine[-1]).all()
        assert np.isfinite(initscope.predict(model, x, y).cosine[-1]).all()
        with pytest.raises(InputError, match=rf"of 0 is computed from {origins}"):
            initscope.measure(model, x, y, draws=1)


def test_compiled_models_have_the_rows_of_what_they_were_compiled_from(rng):
    x, y, both = sides(rng, 6)
    model = nn.Sequential(nn.Linear(6, 4), nn.ReLU())
    compiled = Compiled(model)
    assert [row.layer for row in initscope.predict(compiled, x, y).rows] == ["input", "0", "1"]
    report = initscope.inspect(compiled, both, pairs=4, alternatives=False)
    assert report.prediction is not None
    assert [node.name for node in trace(compiled, x).nodes] == ["input", "0", "1"]


def test_array_files_of_indices_give_pairs_of_indices(tmp_path):
    from initscope.cli._sources import DataSource, load_pairs

    ids = np.random.default_rng(0).integers(0, 20, (8, 5))
    ids[0] = 0  # the first word of the vocabulary, not a black image
    np.save(tmp_path / "ids.npy", ids)
    x, y = load_pairs(DataSource(data=str(tmp_path / "ids.npy"), pairs=6))
    assert x.dtype == y.dtype == torch.int64
    assert {tuple(row) for row in x.tolist()} <= {tuple(row) for row in ids.tolist()}
    runs(Words(), x, y, torch.cat([x, y]))
