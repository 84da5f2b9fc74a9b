"""What `observe` records, against the same quantities computed directly from the model's outputs and gradients."""

import itertools
import random
import tracemalloc
from contextlib import nullcontext

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import initscope
from initscope._utils.randomness import torch_generator
from initscope.errors import InputError
from initscope.measurement import observe
from initscope.measurement.stream import batches
from initscope.measurement.units import UnitSample, UnitSpread


class Net(nn.Module):
    """Convolution, in-place and functional activations, a skip, pooling, dense layers."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(2, 6, 3, padding=1)
        self.act = nn.ReLU(inplace=True)
        self.second = nn.Conv2d(6, 6, 3, padding=1, groups=2)
        self.head = nn.Linear(6, 5)

    def forward(self, x):
        x = self.act(self.first(x))
        x = x + F.relu(self.second(x))
        return self.head(x.mean((2, 3)))


@pytest.fixture
def images():
    return torch.randn(24, 2, 6, 6, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net()


def row(seen, name):
    return next(index for index, entry in enumerate(seen.rows) if entry.layer == name)


def test_geometry_is_that_of_the_outputs_also_before_an_in_place_write(net, images):
    seen = observe(net, images, pairs=8)
    assert [entry.layer for entry in seen.rows] == ["input", "first", "act", "second", "relu", "add", "mean", "head"]
    x, y = seen.x, seen.y
    with torch.no_grad():
        for name, function in (("first", net.first), ("act", lambda v: net.first(v).relu()), ("head", net)):
            a, b = function(x).flatten(1).double(), function(y).flatten(1).double()
            index = row(seen, name)
            np.testing.assert_allclose(seen.cosine[index], F.cosine_similarity(a, b), atol=1e-6)
            ratio = a.norm(dim=1) / x.flatten(1).norm(dim=1)
            np.testing.assert_allclose(seen.norm_ratio[index], ratio, rtol=1e-5)
            np.testing.assert_allclose(seen.rms_ratio[index], ratio * (72 / a.shape[1]) ** 0.5, rtol=1e-5)
    assert seen.samples == 24
    assert seen.rows[1].shape == (6, 6, 6)


def test_nearly_parallel_outputs_keep_their_angle():
    """A float32 inner product would lose an angle of 1e-4 (its gap, 5e-9, is below the rounding)."""
    x = torch.randn(1, 4000, generator=torch.Generator().manual_seed(0))
    both = torch.cat([x, x + 1e-4 * torch.randn(1, 4000, generator=torch.Generator().manual_seed(1))])
    seen = observe(nn.Sequential(nn.Identity()), both, pairs=1)
    a, b = both.double()
    gap = 1 - float(a @ b / (a.norm() * b.norm()))
    np.testing.assert_allclose(1 - seen.cosine[1], gap, rtol=1e-3)


@pytest.mark.parametrize("with_loss", [False, True])
def test_gradient_ratio_and_cosine_are_those_of_per_sample_gradients(net, images, with_loss):
    labels = torch.arange(24) % 5
    options = {"loss": F.cross_entropy} if with_loss else {}
    seen = observe(net, (images, labels), pairs=8, **options)
    where = [int((images == x).flatten(1).all(dim=1).nonzero()) for x in torch.cat([seen.x, seen.y])]
    inputs, targets = torch.cat([seen.x, seen.y]), labels[where]
    v = torch.randn(5, generator=torch_generator(0, "direction of the output"))

    def value(output, target):
        return F.cross_entropy(output, target) if with_loss else (output * v).sum()

    def loss(parameters, x, target):
        return value(functional_call(net, parameters, (x[None],))[0], target)

    parameters = {name: p.detach() for name, p in net.named_parameters()}
    per_sample = vmap(grad(loss), (None, 0, 0))(parameters, inputs, targets)
    top = vmap(grad(value))(net(inputs).detach(), targets).norm(dim=1)
    for name in ("first", "second", "head"):
        g = per_sample[f"{name}.weight"].flatten(1)
        expected = g[:8].norm(dim=1) / (top[:8] * inputs[:8].flatten(1).norm(dim=1))
        index = row(seen, name)
        np.testing.assert_allclose(seen.gradient_ratio[index], expected, rtol=1e-4)
        np.testing.assert_allclose(seen.gradient_cosine[index], F.cosine_similarity(g[:8], g[8:]), atol=1e-5)
    assert np.isnan(seen.gradient_ratio[row(seen, "act")]).all()


def test_dense_gradient_cosine_is_the_product_of_forward_and_backward_cosines():
    """Theory 4.6, exact for a dense layer; the last layer's δ is v for both samples."""
    torch.manual_seed(0)
    seen = observe(nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 4)), torch.randn(40, 20), pairs=20)
    np.testing.assert_allclose(seen.gradient_cosine[3], seen.cosine[2], atol=1e-5)


def test_dead_and_always_on_units_and_elements():
    conv = nn.Conv2d(1, 4, 1)
    with torch.no_grad():
        conv.weight.zero_()
        conv.bias.copy_(torch.tensor([-1.0, -1.0, 1.0, 0.0]))
        conv.weight[3] = 1
    images = torch.randn(40, 1, 3, 3)
    images[:, :, 0, 0] = -images[:, :, 0, 0].abs()  # at this position the fourth channel is dead too
    seen = observe(nn.Sequential(conv, nn.ReLU()), images, pairs=5, gradients=False)
    assert seen.dead_fraction[2] == 2 / 4
    assert seen.always_on_fraction[2] == 1 / 4
    assert seen.dead_element_fraction[2] == pytest.approx((2 * 9 + 1) / 36)
    assert seen.always_on_element_fraction[2] == pytest.approx(9 / 36)
    assert np.isnan(seen.dead_fraction[:2]).all()


def test_units_of_tokens_are_features():
    layer = nn.Linear(3, 4)
    with torch.no_grad():
        layer.bias[0] = -1e3
    seen = observe(nn.Sequential(layer, nn.ReLU()), torch.randn(10, 7, 3), pairs=2, gradients=False)
    assert seen.dead_fraction[2] >= 1 / 4


def test_units_count_over_the_whole_stream(net, images):
    """Only the last image of the loader makes the unit live."""
    layer = nn.Linear(1, 1)
    with torch.no_grad():
        layer.weight.fill_(1.0)
        layer.bias.zero_()
    values = torch.full((100, 1), -1.0)
    loader = DataLoader(TensorDataset(values, torch.zeros(100)), batch_size=10)
    assert observe(nn.Sequential(layer, nn.ReLU()), loader, pairs=5).dead_fraction[2] == 1
    values[-1] = 1
    seen = observe(nn.Sequential(layer, nn.ReLU()), loader, pairs=5)
    assert seen.dead_fraction[2] == 0
    assert seen.samples == 100
    assert seen.pairs == 5


def test_effective_rank_and_width_of_small_layers_are_exact():
    x = torch.randn(60, 10, generator=torch.Generator().manual_seed(3)) * torch.linspace(1, 4, 10)
    seen = observe(nn.Sequential(nn.Identity()), x, pairs=10)
    eigenvalues = np.linalg.eigvalsh(np.cov(x.numpy().astype(float).T))
    np.testing.assert_allclose(seen.effective_rank[1], eigenvalues.sum() ** 2 / (eigenvalues**2).sum(), rtol=1e-4)
    width = initscope.mean_width(x.numpy(), draws=2000)
    assert abs(seen.mean_width[1] - width.value) < 4 * width.standard_error * np.sqrt(2000 / 64)
    line = torch.randn(50, 1) * torch.randn(1, 700) + 5
    assert observe(nn.Sequential(nn.Identity()), line).effective_rank[1] == pytest.approx(1, rel=1e-3)
    assert np.isnan(observe(nn.Sequential(nn.Identity()), torch.ones(9, 700)).effective_rank[1])


def test_effective_rank_of_sampled_units_is_unbiased():
    """400 choices of 128 of 1,000 units of unequal variance: numerator and denominator agree with the full covariance.

    Detectable error: 4 standard errors, about 1 %; without the weights of diagonal and pairs it would be off by 6 %.
    """
    rng = torch.Generator().manual_seed(0)
    features = torch.relu(torch.randn(300, 12, generator=rng) @ torch.randn(12, 1000, generator=rng))
    centered = (features - features.mean(dim=0)).double()
    gram = centered @ centered.T
    exact = float(gram.trace() ** 2 / gram.square().sum())
    estimates = []
    for seed in range(400):
        tally = UnitSpread(UnitSample(1000, seed, torch.device("cpu")))
        tally.add(features[:100])
        tally.add(features[100:])
        estimates.append(tally.effective_rank())
    error = np.std(estimates) / 20
    bias_of_ratio = np.var(estimates) / np.mean(estimates)  # second order of the delta method
    assert abs(np.mean(estimates) - exact) < 4 * error + bias_of_ratio
    assert abs(np.mean(estimates) * 1.06 - exact) > 4 * error + bias_of_ratio


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(3, 4), nn.Linear(2, 4)

    def forward(self, left, right):
        return {"logits": self.left(left).relu() + self.right(right)}


def test_data_of_every_kind(net, images):
    labels = torch.arange(24) % 5
    one = observe(net, images, pairs=6)
    for data in (images.numpy(), (images, labels), TensorDataset(images, labels), images.numpy().tolist()):
        np.testing.assert_allclose(observe(net, data, pairs=6).cosine, one.cosine, atol=1e-6)
    for data in ([images[:12], images[12:]], ((part, labels) for part in images.split(5))):
        assert observe(net, data, pairs=6).cosine.shape == one.cosine.shape
    a, b = torch.randn(20, 3), torch.randn(20, 2)
    pair = observe(TwoInputs(), (a, b))
    named = observe(TwoInputs(), {"left": a, "right": b})
    assert pair.pairs == named.pairs == 10
    assert [entry.layer for entry in pair.rows][:2] == ["input (left)", "input (right)"]
    np.testing.assert_allclose(pair.norm_ratio[:2, :] ** 2 @ np.ones(10), named.norm_ratio[:2, :] ** 2 @ np.ones(10))
    np.testing.assert_allclose((pair.norm_ratio[:2] ** 2).sum(axis=0), 1, rtol=1e-6)
    tokens = nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(12, 2))
    seen = observe(tokens, torch.randint(9, (12, 3)))
    assert np.isfinite(seen.gradient_ratio[3]).all()
    np.testing.assert_allclose(seen.norm_ratio[1], 1)


def test_given_pairs_are_kept_as_they_are(net, images):
    seen = observe(net, images, pairs=12, shuffle=False)
    assert torch.equal(seen.x, images[:12])
    assert torch.equal(seen.y, images[12:])
    dataset = observe(net, TensorDataset(images), pairs=12, shuffle=False)
    np.testing.assert_allclose(dataset.cosine, seen.cosine, atol=1e-6)
    assert not torch.equal(observe(net, images, pairs=12).x, images[:12])


def test_batch_norm_in_train_mode_sees_all_pairs_as_one_batch():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    x = torch.randn(30, 3)
    train, evaluate = observe(model, x, mode="train"), observe(model, x, mode="eval")
    assert (train.mode, evaluate.mode) == ("train", "eval")
    with torch.no_grad():
        joint = model(torch.cat([train.x, train.y]))
        np.testing.assert_allclose(train.cosine[2], F.cosine_similarity(joint[:15], joint[15:]), atol=1e-5)
    assert "couples" in train.rows[1].note
    assert evaluate.rows[1].note == ""


def test_dropout_is_off_unless_asked_for():
    class Drops(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.5)

        def forward(self, x):
            return F.dropout(self.drop(x), 0.5, self.training)

    x = torch.randn(10, 50)
    np.testing.assert_allclose(observe(Drops(), x).norm_ratio, 1, rtol=1e-6)
    assert (observe(Drops(), x, dropout=True).norm_ratio[1] != 1).all()


class Fails(Net):
    def forward(self, x):
        self.kept = x
        self.second.weight.requires_grad_(True)
        torch.rand(3), random.random()
        out = super().forward(x)
        if x.shape[2] == 5:
            raise RuntimeError("refused")
        return out if x.sum() > -1e9 else None


@pytest.mark.parametrize("size", [6, 5])
def test_the_model_is_untouched_also_after_a_failure(size):
    model = nn.Sequential(nn.BatchNorm2d(2), Fails())
    model[1].first.weight.requires_grad_(False)
    model[1].head.bias.grad = torch.ones(5)
    model[1].act.register_forward_hook(lambda *call: None)
    model[1].eval()

    def state():
        return (
            {name: value.clone() for name, value in model.state_dict().items()},
            [(list(vars(module)), module.training, dict(module._forward_hooks)) for module in model.modules()],
            [(parameter.requires_grad, parameter.grad) for parameter in model.parameters()],
            torch.get_rng_state().tolist(),
            random.getstate(),
        )

    images = torch.randn(8, 2, size, size)
    before = state()
    with pytest.raises(InputError, match="refused") if size == 5 else nullcontext():
        observe(model, images)
    after = state()
    assert all(torch.equal(before[0][name], after[0][name]) for name in before[0])
    assert before[1:] == after[1:]
    assert not torch.nn.modules.module._global_forward_hooks
    assert not torch.nn.modules.module._global_forward_pre_hooks


def test_bad_input_is_refused(net, images):
    with pytest.raises(InputError, match="at least two"):
        observe(net, images[:1])
    with pytest.raises(InputError, match="NaN"):
        observe(net, images * torch.nan)
    with pytest.raises(InputError, match="mode"):
        observe(net, images, mode="test")
    with pytest.raises(InputError, match="is a name"):
        observe(net, "photos")
    with pytest.raises(InputError, match="different lengths"):
        observe(TwoInputs(), (torch.randn(4, 3), torch.randn(5, 2)))
    assert observe(net, images, targets=torch.arange(24), pairs=12, shuffle=False).targets.tolist() == list(range(12))
    with pytest.raises(InputError, match="loss needs targets"):
        observe(net, images, loss=F.cross_entropy)
    with pytest.raises(InputError, match="fails on inputs of shape"):
        observe(net, torch.randn(4, 3, 6, 6))


def test_table_has_one_row_per_step(net, images):
    seen = observe(net, images)
    table = seen.table()
    assert [entry["layer"] for entry in table] == [entry.layer for entry in seen.rows]
    assert table[1]["gradient_ratio"] > 0
    assert table[2]["gradient_ratio"] is None
    assert seen.to_dict()["pairs"] == 12
    assert "12 pairs" in repr(seen)


def test_a_mapped_file_is_not_copied_whole(tmp_path):
    """Of 40 MB on the disk, read-only, a few batches are held; the model may write to its input all the same."""
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((20_000, 250)))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    kept = np.array(mapped[:5])
    model = torch.nn.Sequential(torch.nn.ReLU(inplace=True), torch.nn.Linear(250, 2)).double()
    stream = batches(model, mapped)
    tracemalloc.start()
    first = next(stream)
    model(*first.inputs.args)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4e6
    np.testing.assert_array_equal(mapped[:5], kept)
    shared = batches(model, mapped, shuffle=False)
    np.testing.assert_array_equal(next(shared).inputs.args[0].numpy(), mapped[:64])


class Endless(IterableDataset):
    def __iter__(self):
        return itertools.repeat(torch.ones(3))


def test_data_without_an_end_are_told(monkeypatch):
    monkeypatch.setattr("initscope.measurement.endless.MOST_BATCHES", 5)
    batch = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    for endless in (itertools.repeat(batch), DataLoader(Endless())):
        with pytest.raises(InputError, match=r"given 5 batches without an end; .*itertools.islice"):
            observe(torch.nn.Linear(3, 2), endless)


@pytest.mark.parametrize(
    ("extra", "targets", "given"),
    [(0, True, [False, False]), (1, True, [True, False]), (2, True, [True, True]), (2, False, [False, False])],
)
def test_targets_of_their_own_leave_optional_arguments_to_the_tuple(extra, targets, given):
    """Without them what stands behind the required argument is taken for labels."""
    seen = []

    class Optional(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x, scale=None, shift=None):
            seen.append([scale is not None, shift is not None])
            return self.layer(x)

    torch.manual_seed(0)
    data = (torch.randn(12, 4), torch.ones(12, 1), torch.zeros(12, 1))[: 1 + extra]
    labels = torch.arange(12) % 3 if targets else None
    observe(Optional(), data, pairs=4, targets=labels)
    assert seen[-1] == given
