"""What carries over to other samples and to evaluation mode, and columns that the loss neglects."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from initscope.inspection.instruments import run_trial
from initscope.inspection.instruments.batches import draw_batch
from initscope.inspection.instruments.columns import column_weights
from initscope.inspection.instruments.held_out import _same_order
from initscope.inspection.instruments.optimizers import OptimizerSpec
from initscope.inspection.instruments.training import Setup


def points(count=64):
    x = 2 * torch.rand(count, 2, generator=torch.Generator().manual_seed(0)) - 1
    return x, torch.sin(3 * x[:, :1]) + x[:, 1:]


class Waves(nn.Module):
    def __init__(self, frequency):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b, self.frequency = nn.Linear(2, 128), nn.Linear(128, 1), frequency
        self.a.requires_grad_(False)

    def forward(self, x):
        return self.b(torch.sin(self.frequency * self.a(x)))


class Modes(nn.Module):
    """A network, and what happens to its output in evaluation mode."""

    def __init__(self, change=lambda output: output, momentum=0.1):
        super().__init__()
        torch.manual_seed(0)
        norm = nn.BatchNorm1d(32, momentum=momentum)
        self.layers, self.change = nn.Sequential(nn.Linear(2, 32), norm, nn.ReLU(), nn.Linear(32, 1)), change

    def forward(self, x):
        output = self.layers(x)
        return output if self.training else self.change(output)


def trial(model, inputs, targets, loss=F.mse_loss):
    return run_trial(model, inputs, targets, loss, "adam", 1e-2)


def test_waves_that_are_too_short_predict_other_points_no_better_than_chance():
    """Chance has mean 0 and deviation 1, for each half and for both together."""
    smooth, rough = (trial(Waves(frequency), *points()) for frequency in (2.0, 2000.0))
    assert (smooth.outcome, rough.outcome) == ("learns", "learns")
    assert smooth.held_out > 4
    assert abs(rough.held_out) < 3
    assert rough.neighbors > 4
    memorized = trial(Waves(2.0), points()[0], points()[1][torch.randperm(64)])
    assert memorized.held_out is None or abs(memorized.held_out) < 3


def test_ids_have_no_neighbors():
    model = nn.Sequential(nn.Embedding(64, 8), nn.Linear(8, 1))
    assert trial(model, torch.arange(64), points()[1]).neighbors is None


@pytest.mark.parametrize(("model", "lost"), [
    (Modes(), False),
    (Modes(momentum=0.01), False),
    (Modes(lambda output: 40 + 3 * output), False),
    (Modes(torch.sigmoid), False),
    (Modes(lambda output: output.flip(0)), True),
    (Modes(lambda output: 0 * output + 9), True),
])  # fmt: skip
def test_evaluation_differs_where_outputs_mean_something_else(model, lost):
    """Other scales are no loss, nor are running statistics that need more steps than a trial has."""
    inputs, targets = points()
    result = trial(model, 5 + 3 * inputs, targets)
    assert result.outcome == "learns"
    assert (result.evaluation is not None and result.evaluation < 0.5 * result.use) is lost


def test_the_order_of_values():
    a = torch.randn(20, 5, generator=torch.Generator().manual_seed(0))
    assert _same_order(a, a.softmax(1))
    assert _same_order(a, 7 * a - 3)
    assert not _same_order(a, -a)
    assert not _same_order(a, a.flip(0))


def columns():
    x = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    y = torch.stack([x[:, 0] * x[:, 1], x[:, 2] - x[:, 3], x[:, 1].sin()], dim=1)
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 3)), x, y


def weighted(*weights):
    return lambda output, targets: (torch.tensor(weights) * (output - targets).square()).mean()


@pytest.mark.parametrize(("weights", "neglected"), [
    ((1.0, 1.0, 1.0), ()), ((5.0, 1.0, 0.5), ()), ((1.0, 1e-5, 1.0), (1,)), ((1e-6, 1.0, 0.0), (0, 2)),
])  # fmt: skip
def test_columns_of_small_weight_are_neglected(weights, neglected):
    result = run_trial(*columns(), weighted(*weights), "sgd", 0.3)
    assert result.neglected == neglected


def test_steps_that_do_not_depend_on_the_size_of_gradients_learn_columns_of_small_weight():
    assert run_trial(*columns(), weighted(1.0, 1e-5, 1.0), "adam", 1e-2).neglected == ()


def test_columns_without_a_relation_to_the_inputs_are_not_neglected():
    """Nothing learns them: equal weights are no better."""
    _, x, y = columns()
    y[:, 1] = torch.randn(64, generator=torch.Generator().manual_seed(5))
    assert run_trial(nn.Linear(4, 3), x, y, weighted(1.0, 1e-5, 1.0), "sgd", 0.3).neglected == ()


def test_weights_of_columns_are_those_of_the_loss():
    """The gradient of w (o - y)² at errors of one deviation s is 2 w s, and times s it is 2 w s²."""
    model, x, y = columns()
    given = torch.tensor([1.0, 0.1, 4.0])
    batch = draw_batch(model, x, y)
    setup = Setup(model, batch, weighted(*given.tolist()), OptimizerSpec(None, None))
    expected = given.double() * batch.targets.double().var(dim=0)
    assert torch.allclose(column_weights(setup), expected / expected.max(), rtol=0.2)


def test_what_learns_and_diverges_later_diverges():
    """A momentum above 1 grows without bound: w' = w + 1.05^k v."""

    def growing(parameters):
        return torch.optim.SGD(parameters, lr=0.05, momentum=1.05)

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 1))
    inputs, targets = points()
    assert run_trial(model, inputs, targets, F.mse_loss, "sgd", 0.05).outcome == "learns"
    assert run_trial(model, inputs, targets, F.mse_loss, growing).outcome == "diverges"


def test_networks_that_are_linear_get_no_further_than_a_readout():
    """Of the targets sin(3 x) + y a linear function explains a part, and a network all."""
    torch.manual_seed(0)
    inputs, targets = points()
    deep = nn.Sequential(nn.Linear(2, 32), nn.Linear(32, 1))
    bent = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))
    assert trial(deep, inputs, targets).linear
    assert not trial(bent, inputs, targets).linear
