"""Which outputs a loss compares targets with."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from initscope.inspection.instruments import examine_pairing

N, T, K = 20, 12, 3


class Sequence(nn.Module):
    """Scores for each step: ``[samples, steps, classes]``, or in another order of axes."""

    def __init__(self, *order):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.order = nn.Linear(4, K), order or (0, 1, 2)

    def forward(self, x):
        return self.layer(x).permute(self.order)


def flat(scores, labels):
    return F.cross_entropy(scores.reshape(-1, K), labels.reshape(-1))


def examined(model, loss, *, values=False):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(N, T, 4, generator=generator)
    y = torch.randn(N, T, generator=generator) if values else torch.randint(K, (N, T), generator=generator)
    return examine_pairing(model, x, y, loss)


def dice(scores, labels):
    chosen = F.one_hot(labels, K) * scores.softmax(-1)
    return 1 - 2 * chosen.sum((1, 2)).div(2 * T).mean()


RIGHT = {
    "flattened": (Sequence(), flat),
    "classes on the second axis": (Sequence(0, 2, 1), F.cross_entropy),
    "time first, targets too": (Sequence(1, 0, 2), lambda o, y: flat(o, y.T)),
    "shifted by one step": (Sequence(), lambda o, y: flat(o[:, :-1], y[:, 1:])),
    "weights of classes": (Sequence(), lambda o, y: F.cross_entropy(o.mT, y, torch.tensor([1.0, 50.0, 3.0]))),
    "over all positions of a sample": (Sequence(), dice),
    "a mean over the batch": (Sequence(), lambda o, y: (o.mean((0, 1)) - F.one_hot(y, K).double().mean((0, 1))).norm()),
}
WRONG = {
    "time first": (Sequence(1, 0, 2), flat, "other_samples"),
    "rolled": (Sequence(), lambda o, y: flat(o, y.roll(1, 0)), "other_samples"),
    "sorted": (Sequence(), lambda o, y: flat(o, y.flip(0)), "other_samples"),
    "viewed": (Sequence(0, 2, 1), flat, "other_positions"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_targets_are_compared_with_their_own_outputs(name):
    pairing = examined(*RIGHT[name])
    assert pairing.probed >= 8
    assert pairing.other_samples == pairing.other_positions == 0


@pytest.mark.parametrize("name", WRONG)
def test_targets_are_compared_with_other_outputs(name):
    model, loss, field = WRONG[name]
    pairing = examined(model, loss)
    assert getattr(pairing, field) > 0.75


def test_nothing_is_said_where_another_axis_is_as_long_as_that_of_the_samples():
    """Time first is right here, and cannot be distinguished from samples first."""
    x, y = torch.randn(T, T, 4), torch.randint(K, (T, T))
    assert examine_pairing(Sequence(1, 0, 2), x, y, lambda o, y: flat(o, y.T)) is None


def test_columns_of_real_numbers():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(4 * T, T))
    assert examined(model, F.mse_loss, values=True).other_samples == 0
    assert examined(model, lambda o, y: F.mse_loss(o, y.flip(0)), values=True).other_samples > 0.9


@pytest.mark.parametrize("loss", [
    lambda o, y: flat(o + torch.randn_like(o), y), None, lambda o, y: y.undefined,
])  # fmt: skip
def test_nothing_is_said_where_it_cannot_be_seen(loss):
    """A loss that is random, none, and one that raises."""
    assert examined(Sequence(), loss) is None
