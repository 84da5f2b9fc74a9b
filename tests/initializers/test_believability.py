"""Independent draws are believed, in all but few cases; trained, shifted and orthogonal weights are not."""

import math

import pytest
import torch
from torch import nn

from initscope.errors import InputError
from initscope.initializers import Glorot, He, Orthogonal, ZeroSum, believability, looks_linear_

LAYERS = [nn.Linear(300, 200), nn.Linear(40, 500), nn.Conv2d(16, 32, 3), nn.Linear(700, 600)]


@pytest.mark.parametrize("layer", LAYERS, ids=str)
@pytest.mark.parametrize("law", [He(), Glorot(distribution="uniform")])
def test_independent_weights_are_believed(layer, law):
    """Of 25 draws none is rejected: a test that rejects more than 11 % of good weights would be found out (95 %)."""
    for seed in range(25):
        report = believability(law.fill_(layer, generator=torch.Generator().manual_seed(seed)))
        assert report.believable, report.summary
    assert report.distribution == ("uniform" if law.distribution == "uniform" else "Gaussian")


def test_of_many_layers_none_is_rejected_by_chance():
    """Alone, about one layer of 2,000 is rejected (with this generator one is); among as many it counts as chance."""
    generator, layer = torch.Generator().manual_seed(4), nn.Linear(64, 64, bias=False)
    rejected = []
    for _ in range(1500):
        nn.init.uniform_(layer.weight, -0.1, 0.1, generator=generator)
        if not believability(layer).believable:
            rejected.append(believability(layer, among=1500).believable)
    assert rejected
    assert all(rejected)
    with torch.no_grad():  # a mean of a tenth of a standard deviation is 6.4 standard errors
        layer.weight += 0.1 * layer.weight.std() - layer.weight.mean()
    assert not believability(layer, among=1500).believable


def aligned(edge):
    """A layer whose largest singular value lies at ``edge``, in units of the Tracy–Widom law."""
    layer = He().fill_(nn.Linear(300, 200), generator=torch.Generator().manual_seed(0))
    left, values, right = torch.linalg.svd(layer.weight.detach().double(), full_matrices=False)
    low, high = 1.0, 2.0
    for _ in range(40):
        factor = (low + high) / 2
        with torch.no_grad():
            layer.weight.copy_(left @ torch.diag(values * torch.cat([torch.tensor([factor]), torch.ones(199)])) @ right)
        low, high = (factor, high) if believability(layer).edge < edge else (low, factor)
    return layer


def test_the_edge_among_many_layers_is_as_rare_as_for_one():
    """Tails of the Tracy–Widom law are exp(-2s^{3/2}/3): among 1,500 layers 6 becomes 8.70, and .3 off is seen."""
    limit = (6**1.5 + 1.5 * math.log(1500)) ** (2 / 3)
    tails = [math.exp(-2 / 3 * s**1.5) for s in (6, limit)]
    assert tails[0] / tails[1] == pytest.approx(1500)
    for edge, alone, among in (
        (5.7, True, True),
        (6.3, False, True),
        (limit - 0.3, False, True),
        (limit + 0.3, False, False),
    ):
        layer = aligned(edge)
        assert believability(layer).edge == pytest.approx(edge, abs=0.01)
        assert believability(layer).believable is alone
        assert believability(layer, among=1500).believable is among


def test_the_mean_among_many_layers_is_as_rare_as_for_one():
    """Tails of a Gaussian are exp(-z²/2): among 1,500 layers 4 becomes 5.53, and .2 off is seen."""
    limit = math.sqrt(16 + 2 * math.log(1500))
    layer = He().fill_(nn.Linear(300, 200), generator=torch.Generator().manual_seed(0))
    for z, alone, among in (
        (3.8, True, True),
        (4.2, False, True),
        (limit - 0.2, False, True),
        (limit + 0.2, False, False),
    ):
        with torch.no_grad():
            layer.weight += z * layer.weight.std() / layer.weight.numel() ** 0.5 - layer.weight.mean()
        assert believability(layer).mean_z == pytest.approx(z, abs=0.01)
        assert believability(layer).believable is alone
        assert believability(layer, among=1500).believable is among


def test_what_is_not_independent_is_told_so():
    layer = He().fill_(nn.Linear(300, 200), generator=torch.Generator().manual_seed(0))
    spread = float(layer.weight.detach().std())
    with torch.no_grad():
        layer.weight += 0.05 * spread
    assert "mean" in believability(layer).summary
    He().fill_(layer, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():  # one direction learned, with 2.5 % of the weights' energy
        layer.weight += 0.16 * spread * torch.outer(torch.randn(200), torch.randn(300))
    report = believability(layer)
    assert not report.believable
    assert "as after training" in report.summary
    assert "orthogonal" in believability(Orthogonal().fill_(layer)).summary


@pytest.mark.parametrize("shape", [(16, 64), (64, 64), (64, 10), (700, 700)])
def test_mirrored_halves_are_told_so(shape):
    """Their spectrum and correlations are ordinary: what looks linear would be predicted as if it were independent."""
    hidden = nn.Sequential(nn.Linear(4, shape[0]), nn.Linear(*shape), nn.Linear(shape[1], 4))
    looks_linear_(hidden, generator=torch.Generator().manual_seed(0))
    assert "mirrors" in believability(hidden[1]).summary
    few = He().fill_(nn.Linear(2, 4), generator=torch.Generator().manual_seed(0))
    assert "mirrors" not in believability(few).summary


def test_trained_weights_are_told_so():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    x = torch.randn(512, 64)
    labels = (x[:, :10] + x[:, 10:20]).argmax(dim=1)
    assert believability(model[0]).believable
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(150):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), labels).backward()
        optimizer.step()
    assert not believability(model[0]).believable


def test_tails_are_named():
    layer = nn.Linear(300, 200)
    with torch.no_grad():
        layer.weight.copy_(torch.distributions.Laplace(0.0, 1.0).sample((200, 300)))
    assert "heavy-tailed" in believability(layer).summary
    assert believability(ZeroSum().fill_(nn.Linear(300, 200))).distribution == "Gaussian"


def test_hopeless_weights():
    layer = nn.Linear(10, 10)
    with torch.no_grad():
        layer.weight.fill_(1.0)
    assert not believability(layer).believable
    with torch.no_grad():
        layer.weight.fill_(torch.nan)
    with pytest.raises(InputError, match="NaN"):
        believability(layer)
