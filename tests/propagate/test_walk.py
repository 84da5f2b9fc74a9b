"""What prediction makes of values that are not one set of real numbers per sample, and that it leaves no trace."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from evaluation.published.by_width import Function
from torch import nn

import initscope
from initscope.graph import Inputs
from initscope.initializers import He
from initscope.measurement.observation import observe


def pairs(*shape, seed=0):
    return torch.randn(2, 6, *shape, generator=torch.Generator().manual_seed(seed)).unbind()


FUNCTIONS = {
    "mask": lambda x: x * (x > 0),
    "norm": lambda x: x / x.norm(dim=1)[:, None].square(),
    "largest": lambda x: x + F.one_hot(x.argmax(1), 12).float(),
    "sorted": lambda x: x[:, :3] * x.sort(dim=1)[1][:, :3].float(),
    "constant": lambda x: x * torch.arange(x.shape[1]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_masks_indices_and_single_numbers_belong_to_their_own_side(name):
    """Exact: a linear layer without bias keeps cosines in expectation, and its variance is known."""
    function, (x, y) = FUNCTIONS[name], pairs(12)
    features = function(x).shape[1]
    model = Function(lambda self, x: self.a(function(x)), a=nn.Linear(features, 50, bias=False))
    predicted = initscope.predict(model, x, y, He())
    assert predicted.rows[-1].status == "closed form"
    np.testing.assert_allclose(predicted.cosine[-1], torch.cosine_similarity(function(x), function(y)), atol=1e-6)
    scale = (function(x).square().mean(1) / x.square().mean(1)).sqrt() * 2**0.5
    np.testing.assert_allclose(predicted.rms_ratio[-1], scale, rtol=1e-5)


def test_what_mixes_samples_is_sampled():
    x, y = pairs(12)
    model = Function(lambda self, x: self.a(x) * (x / x.std()).sum(1, keepdim=True), a=nn.Linear(12, 50))
    predicted, measured = (f(model, x, y, draws=2) for f in (initscope.predict, initscope.measure))
    statuses = {row.layer: row.status for row in predicted.rows}
    assert (statuses["std"], statuses["truediv"]) == ("not covered", "sampled")
    np.testing.assert_allclose(predicted.rms_ratio[3], measured.rms_ratio[3], rtol=1e-5)


SEQUENCES = {
    "steps first": (
        Function(
            lambda self, x: self.b(self.a(x.transpose(0, 1))[0].transpose(0, 1)), a=nn.LSTM(12, 20), b=nn.Linear(20, 9)
        ),
        ["a"],  # a tuple: a run reads its first tensor, theory has one value a step
        [],
    ),
    "last hidden state": (
        Function(lambda self, x: self.b(self.a(x)[1][-1]), a=nn.GRU(12, 20, batch_first=True), b=nn.Linear(20, 9)),
        ["a"],
        [],
    ),
    "samples and steps in one axis": (
        Function(lambda self, x: self.b(x.flatten(0, 1)).view(x.shape[0], 5, 9) + 1, b=nn.Linear(12, 9)),
        [],
        [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SEQUENCES)
def test_samples_are_followed_wherever_they_lie_and_tuples_are_not_covered(name):
    model, uncovered, unmeasured = SEQUENCES[name]
    predicted, measured = (f(model, *pairs(5, 12)) for f in (initscope.predict, initscope.measure))
    assert [row.layer for row in predicted.rows if row.status == "not covered"] == uncovered
    for found, expected in ((predicted, uncovered), (measured, unmeasured)):
        missing = np.isnan(found.cosine)
        assert np.array_equal(missing.any(axis=1), missing.all(axis=1))
        assert [row.layer for row, gone in zip(found.rows, missing.all(axis=1), strict=True) if gone] == expected


def test_norms_of_a_token_model_start_with_the_first_real_values():
    x, y = torch.randint(1, 9, (2, 8, 7), generator=torch.Generator().manual_seed(0))
    x[0] = 0
    model = nn.Sequential(nn.Embedding(9, 30), nn.Flatten(), nn.Linear(210, 40))
    predicted = initscope.predict(model, x, y)
    assert predicted.rows[0].status == "not covered", "the cosine of indices means nothing"
    np.testing.assert_allclose(predicted.rms_ratio[1], 1)
    seen = observe(model, torch.cat([x, y]), pairs=8, gradients=False, units=False)
    assert np.array_equal(np.isnan(predicted.norm_ratio.mean(axis=1)), np.isnan(seen.norm_ratio.mean(axis=1)))


class Several(nn.Module):
    """Two inputs of several numbers, one of a single one."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(12, 50), nn.Linear(3, 50), nn.Linear(1, 50)

    def forward(self, a, b, time):
        return self.a(a) + self.b(b) + self.c(time[:, None])


def test_arguments_that_were_bound_already_are_predicted_and_norms_start_with_all_real_inputs():
    sides = list(zip(pairs(12), pairs(3, seed=1), pairs(seed=2), strict=True))
    plain = initscope.predict(Several(), *sides, He())
    bound = initscope.predict(Several(), *(Inputs(side) for side in sides), He())
    named = initscope.predict(Several(), *(dict(zip(("a", "b", "time"), side, strict=True)) for side in sides), He())
    for other in (bound, named):
        np.testing.assert_array_equal(plain.cosine, other.cosine)
        np.testing.assert_array_equal(plain.norm_ratio, other.norm_ratio)
    (a, b, _), _ = sides
    start = torch.cat([a, b], dim=1).norm(dim=1)
    np.testing.assert_allclose(plain.norm_ratio[1], b.norm(dim=1) / start, rtol=1e-6)
    assert plain.rows[-1].status == "closed form"


def dropping(x, training):
    return F.scaled_dot_product_attention(x, x, x, dropout_p=0.5 if training else 0.0)


MODELS = {
    "transformer": lambda: nn.TransformerEncoderLayer(12, 3, 24, dropout=0.5, batch_first=True),
    "recurrent": lambda: Function(lambda self, x: self.a(x)[0], a=nn.LSTM(12, 20, 2, dropout=0.5, batch_first=True)),
    "functions": lambda: Function(
        lambda self, x: dropping(self.a(F.dropout(self.d(x), training=self.training)), self.training),
        a=nn.Linear(12, 20), d=nn.Dropout(),
    ),
    "spectral norm": lambda: nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(12, 20)), nn.ReLU()),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_dropout_is_off_and_nothing_is_left_behind(name):
    model, (x, y) = MODELS[name](), pairs(5, 12)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    random = torch.get_rng_state()
    training, evaluation = (initscope.predict(model, x, y, mode=mode) for mode in ("train", "eval"))
    np.testing.assert_allclose(training.cosine, evaluation.cosine, atol=1e-5)
    assert torch.equal(random, torch.get_rng_state())
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
