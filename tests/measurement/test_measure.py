"""`measure`: right numbers, honest standard errors, and no trace on the user's model."""

import copy
import math

import numpy as np
import pytest
import torch
from scipy.stats import binomtest, t
from torch import nn

import initscope
from initscope.errors import InputError
from initscope.graph import Inputs
from initscope.initializers import He
from initscope.models import load_model


def small_net():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.Flatten(), nn.Dropout(0.5), nn.Linear(288, 4)
    )


def pairs(count=5, shape=(3, 8, 8), seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(2, count, *shape, generator=generator)


@pytest.mark.parametrize("seed", range(4))
def test_weights_are_not_the_data_of_the_same_seed(seed):
    """Weights proportional to the data doubled ‖Wx‖²; its mean over 64 rows has a standard error of about 3 %."""
    torch.manual_seed(seed)
    x = torch.randn(64, 64)
    measured = initscope.measure(nn.Linear(64, 64, bias=False), x[:32], x[32:], draws=1, seed=seed, initializer=He())
    assert (measured.norm_ratio[1] ** 2).mean() == pytest.approx(2, rel=0.2)


def test_numbers_of_the_present_weights():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(288, 4))
    x, y = pairs()
    measured = initscope.measure(model, x, y, draws=0)
    with torch.no_grad():
        before_x, before_y = model[0](x), model[0](y)
        out_x, out_y = model(x), model(y)
    cosine = torch.cosine_similarity(before_x.flatten(1), before_y.flatten(1)).numpy()
    assert np.allclose(measured.cosine[1], cosine, atol=1e-5)  # before the in-place write
    assert np.allclose(measured.cosine[4], torch.cosine_similarity(out_x, out_y).numpy(), atol=1e-5)
    ratio = (out_x.norm(dim=1) / x.flatten(1).norm(dim=1)).numpy()
    assert np.allclose(measured.norm_ratio[4], ratio, rtol=1e-5)
    assert np.allclose(measured.rms_ratio[4], ratio * math.sqrt(192 / 4), rtol=1e-5)
    assert [row.kind for row in measured.rows] == ["input", "Conv2d", "ReLU", "Flatten", "Linear"]


def test_same_seed_same_numbers_and_draws_average():
    x, y = pairs()
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3))
    twice = [initscope.measure(model, x, y, initializer=He(), draws=2, seed=3).cosine for _ in range(2)]
    assert np.array_equal(*twice)
    assert not np.array_equal(twice[0], initscope.measure(model, x, y, initializer=He(), draws=2, seed=4).cosine)


def test_jackknife_over_filters_covers():
    """300 single draws of one layer: the true value inside ±1.96 errors 95 % of the time (binomial test).

    Errors too small by 20 % would leave 12 % outside and be seen.
    """
    x, y = pairs(count=1)
    model = nn.Sequential(nn.Conv2d(3, 100, 3, padding=1, padding_mode="circular"), nn.ReLU())
    predicted = initscope.predict(model, x, y, He())
    scores, means = [], []
    for seed in range(300):
        measured = initscope.measure(model, x, y, initializer=He(), draws=1, seed=seed)
        scores.append((measured.cosine[2, 0] - predicted.cosine[2, 0]) / measured.cosine_se[2, 0])
        means.append((measured.cosine[2].mean() - predicted.cosine[2].mean()) / measured.mean_cosine_se[2])
    inside = np.abs(scores) < 1.96
    assert np.allclose(scores, means)  # one pair: its own mean
    assert binomtest(int(inside.sum()), 300, 0.94).pvalue > 1e-3
    narrow = np.abs(scores) < 1.96 * 0.8
    assert binomtest(int(narrow.sum()), 300, 0.94).pvalue < 1e-3


def test_errors_of_one_draw_are_the_spread_of_many():
    """40 draws of a layer on six tokens: claimed variance over that of the draws, within 4√(2/39) = 0.9 of 1.

    Taking tokens for filters claims variances 25 times too large.
    """
    x, y = pairs(count=4, shape=(6, 8))
    model = nn.Sequential(nn.Linear(8, 100), nn.ReLU())
    runs = [initscope.measure(model, x, y, initializer=He(), draws=1, seed=seed) for seed in range(40)]
    for values, errors in (("cosine", "cosine_se"), ("norm_ratio", "norm_ratio_se")):
        spread = np.var([getattr(run, values)[1:] for run in runs], axis=0, ddof=1)
        claimed = np.mean([getattr(run, errors)[1:] ** 2 for run in runs], axis=0)
        assert np.abs(np.mean(claimed / spread, axis=1) - 1).max() < 0.9


def test_layers_behind_attention_are_not_the_first_weights():
    """Attention holds a layer whose weights are drawn too: one draw knows no error behind it."""
    x, y = pairs(shape=(4, 8))
    model = nn.Sequential(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), nn.Linear(8, 30))
    measured = initscope.measure(model, x, y, initializer=He(), draws=1)
    assert np.isnan(measured.cosine_se[2]).all()


def test_spread_between_draws_covers():
    """80 times six draws of a three-layer net, Student's t: 95 % inside; and the jackknife is not used there."""
    x, y = pairs(count=2, shape=(20,))
    model = nn.Sequential(nn.Linear(20, 300), nn.ReLU(), nn.Linear(300, 300), nn.ReLU(), nn.Linear(300, 300), nn.ReLU())
    runs = [initscope.measure(model, x, y, initializer=He(), draws=6, seed=seed) for seed in range(80)]
    truth = np.mean([run.cosine[6] for run in runs], axis=0)
    scores = np.array([(run.cosine[6, 0] - truth[0]) / run.cosine_se[6, 0] for run in runs])
    inside = int((np.abs(scores) < t.ppf(0.975, 5)).sum())
    assert binomtest(inside, 80, 0.95).pvalue > 1e-3
    shared = np.array([(run.cosine[6].mean() - truth.mean()) / run.mean_cosine_se[6] for run in runs])
    assert binomtest(int((np.abs(shared) < t.ppf(0.975, 5)).sum()), 80, 0.95).pvalue > 1e-3


def test_one_draw_tells_no_error_of_deep_rows():
    x, y = pairs(shape=(20,))
    model = nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 30))
    measured = initscope.measure(model, x, y, initializer=He(), draws=1)
    assert np.isfinite(measured.cosine_se[:3]).all()
    assert np.isnan(measured.cosine_se[3]).all()
    assert initscope.geometry.Comparison(measurement=measured).table()[3]["cosine_se"] is None


class Faulty(nn.Module):
    def forward(self, x):
        return x.no_such_method()


def snapshot(model):
    return copy.deepcopy(
        {
            "state": model.state_dict(),
            "modes": [module.training for module in model.modules()],
            "grads": [None if p.grad is None else p.grad.clone() for p in model.parameters()],
            "requires": [p.requires_grad for p in model.parameters()],
            "hooks": [
                len(m._forward_hooks) + len(m._forward_pre_hooks) + len(m._backward_hooks) for m in model.modules()
            ],
            "random": torch.get_rng_state(),
        }
    )


def same(a, b):
    return (
        all(torch.equal(a["state"][key], b["state"][key]) for key in a["state"])
        and a["modes"] == b["modes"]
        and a["hooks"] == b["hooks"]
        and a["requires"] == b["requires"]
        and torch.equal(a["random"], b["random"])
        and all((p is None and q is None) or torch.equal(p, q) for p, q in zip(a["grads"], b["grads"], strict=True))
    )


@pytest.mark.parametrize("draws", [0, 2])
@pytest.mark.parametrize("training", [True, False])
def test_leaves_no_trace(draws, training):
    model = small_net().train(training)
    model(torch.rand(4, 3, 8, 8)).sum().backward()
    before = snapshot(model)
    x, y = pairs()
    kept = x.clone(), y.clone()
    initscope.measure(model, x, y, draws=draws)
    initscope.predict(model, x, y)
    assert same(before, snapshot(model))
    assert torch.equal(x, kept[0])
    assert torch.equal(y, kept[1])


@pytest.mark.parametrize("draws", [0, 2])
def test_leaves_no_trace_after_an_exception(draws):
    model = nn.Sequential(small_net(), Faulty()).train()
    before = snapshot(model)
    with pytest.raises(InputError, match="no_such_method"):
        initscope.measure(model, *pairs(), draws=draws)
    assert same(before, snapshot(model))


def test_dropout_is_off():
    """In train mode too: two runs of the same weights give the same numbers."""
    model, (x, y) = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(192, 8)).train(), pairs()
    measured = initscope.measure(model, x, y, draws=0)
    assert np.allclose(measured.cosine[2], measured.cosine[0], atol=1e-6)
    assert model[1].training


def test_bad_counts_are_refused():
    x, y = pairs()
    with pytest.raises(InputError, match="draws = -1"):
        initscope.measure(small_net(), x, y, draws=-1)
    with pytest.raises(InputError, match="give numbers"):
        initscope.measure(small_net(), ["a"], ["b"])
    with pytest.raises(InputError, match="no Linear or convolution"):
        initscope.measure(nn.ReLU(), x, y, draws=1)


def test_norms_are_root_mean_squares_over_draws_as_they_are_predicted():
    """Twelve narrow layers: the mean of norms is far below √E‖h‖²; the root mean square is not.

    40 single draws give the mean of norms, which misses the prediction by more than the error of 400 draws.
    """
    x, y = torch.rand(2, 3, 12, generator=torch.Generator().manual_seed(0))
    model = load_model("dense24-relu*12", input_shape=(12,))
    predicted = initscope.predict(model, x, y, He())
    measured = initscope.measure(model, x, y, initializer=He(), draws=400)
    single = [initscope.measure(model, x, y, initializer=He(), draws=1, seed=seed) for seed in range(40)]
    means = np.mean([run.norm_ratio[-1].mean() for run in single])
    expected = predicted.norm_ratio[-1].mean()
    error = measured.mean_norm_ratio_se[-1]
    assert abs(measured.norm_ratio[-1].mean() - expected) < 4 * error
    assert expected - means > 2 * error


def test_units_that_all_die_leave_no_angle_and_no_warning():
    x, y = torch.rand(2, 3, 5, generator=torch.Generator().manual_seed(0))
    model = nn.Sequential(nn.Linear(5, 4), nn.ReLU())
    with torch.no_grad():
        model[0].weight.fill_(-1)
        model[0].bias.zero_()
    measured = initscope.measure(model, x, y, draws=0)
    assert np.isnan(measured.cosine[2]).all()
    assert (measured.norm_ratio[2] == 0).all()


def test_an_input_of_several_pairs_is_run_once_and_gives_the_same_numbers():
    images = torch.rand(4, 3, 9, 9, generator=torch.Generator().manual_seed(3))
    model = load_model("conv3x3x6-relu*2", input_shape=(3, 9, 9))
    rows = []
    model.relu1.register_forward_hook(lambda module, inputs, output: rows.append(len(output)))
    first, second = [0, 0, 0, 1, 1, 2, 2], [1, 2, 3, 2, 3, 3, 2]
    together = initscope.measure(model, images[first], images[second], draws=0)
    assert (sorted(rows[:2]), rows[2:]) == ([2, 3], [4]), "two runs tell where the samples are"
    for pair, (i, j) in enumerate(zip(first, second)):
        alone = initscope.measure(model, images[[i]], images[[j]], draws=0)
        assert np.allclose(together.cosine[:, pair], alone.cosine[:, 0], atol=1e-6)
        assert np.allclose(together.norm_ratio[:, pair], alone.norm_ratio[:, 0], rtol=1e-5)


def test_progress_wraps_the_draws():
    seen = []

    def progress(runs):
        for run in runs:
            seen.append(run)
            yield run

    x, y = torch.rand(2, 3, 5, generator=torch.Generator().manual_seed(0))
    model = load_model("dense4-relu", input_shape=(5,))
    with_progress = initscope.measure(model, x, y, draws=3, progress=progress)
    assert len(seen) == 3
    assert np.array_equal(with_progress.cosine, initscope.measure(model, x, y, draws=3).cosine)


@pytest.mark.parametrize("draws", [0, 2])
def test_mode_says_what_batch_norm_does(draws):
    """As if the model had been put into that mode; and it is left in its own."""
    x, y = pairs()
    model = small_net()
    model(torch.rand(64, 3, 8, 8))  # running statistics of their own
    for mode in ("train", "eval"):
        expected = initscope.measure(copy.deepcopy(model).train(mode == "train"), x, y, draws=draws)
        for training in (True, False):
            measured = initscope.measure(model.train(training), x, y, draws=draws, mode=mode)
            assert np.array_equal(measured.cosine, expected.cosine)
            assert all(module.training is training for module in model.modules())
    with pytest.raises(InputError, match="mode = 'test'"):
        initscope.measure(model, x, y, mode="test")


def test_the_branch_of_the_asked_mode_runs():
    class Branching(nn.Linear):
        def forward(self, x):
            return super().forward(x) if self.training else x

    x, y = pairs(shape=(6,))
    model = nn.Sequential(Branching(6, 6))
    assert np.array_equal(initscope.measure(model.train(), x, y, draws=0, mode="eval").cosine[-1:], _cosines(x, y))
    assert not np.array_equal(initscope.measure(model.eval(), x, y, draws=0, mode="train").cosine[-1:], _cosines(x, y))


def _cosines(x, y):
    return initscope.measure(nn.Sequential(nn.Identity()), x, y, draws=0).cosine[-1:]


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 8), nn.Linear(3, 8)

    def forward(self, image, side):
        return torch.tanh(self.a(image) + self.b(side))


def test_several_inputs_as_tuple_dict_or_bound():
    (x, y), (s, t) = pairs(shape=(6,)), pairs(shape=(3,), seed=1)
    x[1], s[1] = x[0], s[0]  # the same sample in two pairs
    s[2] = s[0]  # one input the same, the other not
    model = Two()
    measured = initscope.measure(model, (x, s), (y, t), draws=0)
    with torch.no_grad():
        a, b = model(x, s), model(y, t)
    assert np.allclose(measured.cosine[-1], torch.cosine_similarity(a, b).numpy(), atol=1e-6)
    start = torch.cat([x, s], dim=1).norm(dim=1)
    assert np.allclose(measured.norm_ratio[-1], (a.norm(dim=1) / start).numpy(), rtol=1e-5)
    assert np.allclose(measured.rms_ratio[-1], (a.norm(dim=1) / start * (9 / 8) ** 0.5).numpy(), rtol=1e-5)
    assert (measured.cosine_se[:2] == 0).all()
    named = initscope.measure(model, {"side": s, "image": x}, {"side": t, "image": y}, draws=0)
    bound = initscope.measure(model, Inputs((x, s)), Inputs((y, t)), draws=0)
    assert np.array_equal(bound.cosine, measured.cosine)
    assert np.allclose(named.cosine[-1], measured.cosine[-1], atol=1e-6)
    assert np.isfinite(initscope.measure(model, (x, s), (y, t), draws=2).cosine).all()
    with pytest.raises(InputError, match="pairs"):
        initscope.measure(model, (x, s[:3]), (y, t[:3]))
    with pytest.raises(InputError, match="inputs"):
        initscope.measure(model, (x,), (y,))


def test_indices_stay_indices_and_norms_start_at_what_they_lead_to():
    tokens = torch.randint(0, 50, (2, 5, 7), generator=torch.Generator().manual_seed(0))
    tokens[0, 0] = 0  # an index, not a vector without a direction
    x, y = tokens
    model = nn.Sequential(nn.Embedding(50, 12), nn.Flatten(), nn.Linear(84, 10))
    for draws in (0, 2):
        measured = initscope.measure(model, x, y, draws=draws)
        assert np.isnan(measured.cosine[0]).all()
        assert measured.rows[0].note
        assert np.allclose(measured.norm_ratio[1], 1)
    measured = initscope.measure(model, x.numpy(), y.numpy(), draws=0)
    with torch.no_grad():
        ratio = model(x).norm(dim=1) / model[0](x).flatten(1).norm(dim=1)
    assert np.allclose(measured.norm_ratio[3], ratio.numpy(), rtol=1e-5)


class Sometimes(nn.Module):
    """Takes a step for large inputs only."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 5)

    def forward(self, x):
        return torch.tanh(self.fc(x)) if x.norm() > 1 else self.fc(x)


def test_steps_that_a_run_leaves_out_have_a_row_without_numbers(monkeypatch):
    monkeypatch.setattr("initscope.graph.batch._BATCH_VALUES", 1)
    x, y = pairs(count=2, shape=(5,))
    x, y = x * torch.tensor([[10.0], [1e-3]]), y * torch.tensor([[10.0], [1e-3]])
    measured = initscope.measure(Sometimes(), x, y, draws=2)
    cosines = dict(zip([row.kind for row in measured.rows], measured.cosine, strict=True))
    assert np.isfinite(cosines["Linear"]).all()
    assert np.isfinite(cosines["tanh"]).tolist() == [True, False]
