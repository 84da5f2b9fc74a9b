"""The contract of an initializer: what it draws has the second moments that it states, in every kind of layer.

By sampling: z-scores at 4 standard errors over 1,500 filters or more. A variance is then known within about 15 %
(4 · √(2/1500)); `test_the_contract_bites` shows that 25 % is caught.
"""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, prune

from initscope.errors import InputError
from initscope.initializers import (
    DeltaOrthogonal,
    Gaussian,
    Glorot,
    He,
    LeCun,
    Orthogonal,
    Present,
    ZeroSum,
    delta_orthogonal_,
    glorot_,
    he_,
    lecun_,
    looks_linear_,
    orthogonal_,
    zero_sum_,
)
from initscope.testing import InitializerContract, z_score

LAWS = {
    "he": He(),
    "he-uniform": He(distribution="uniform", bias_variance=0.3),
    "he-out": He(mode="fan_out"),
    "glorot": Glorot(),
    "glorot-uniform": Glorot(distribution="uniform"),
    "lecun": LeCun(gain=0.7),
    "gaussian": Gaussian(variance=0.2),
    "orthogonal": Orthogonal(gain=1.3),
    "delta": DeltaOrthogonal(gain=0.8, bias_variance=0.1),
    "zero-sum": ZeroSum(),
    "zero-sum-half": ZeroSum(strength=0.5, compensate=True, bias_variance=0.2),
    "zero-sum-orthogonal": ZeroSum(base=Orthogonal(bias_variance=0.4)),
}
LAYERS = {
    "linear": lambda: nn.Linear(6, 4),
    "wide": lambda: nn.Linear(3, 8),
    "conv1d": lambda: nn.Conv1d(3, 4, 3),
    "conv2d-groups": lambda: nn.Conv2d(4, 6, (3, 2), groups=2),
    "conv3d": lambda: nn.Conv3d(2, 3, 2),
    "transposed": lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2),
}


def contract(law, layer, stated):
    """|z| of what the law draws against what is stated, by the suite that ships."""
    suite = InitializerContract()
    suite.initializer = law
    suite.depend = isinstance(getattr(law, "base", law), Orthogonal)
    return suite.scores(layer, stated)


@pytest.mark.parametrize("shape", LAYERS)
@pytest.mark.parametrize("name", LAWS)
def test_a_law_draws_what_it_states(name, shape):
    law, layer = LAWS[name], LAYERS[shape]()
    assert (contract(law, layer, law.weight_distribution(layer)) < 4).all()


def test_the_contract_bites():
    layer, law = LAYERS["conv1d"](), ZeroSum(strength=0.5)
    stated = law.weight_distribution(layer)
    assert (contract(law, layer, replace(stated, variance=1.25 * stated.variance)) > 4).any()
    assert (contract(law, layer, replace(stated, strength=0.7)) > 4).any()
    delta = DeltaOrthogonal()
    assert (contract(delta, layer, replace(delta.weight_distribution(layer), center=False)) > 4).any()


def test_orthogonal_weights_are_orthogonal_in_every_group():
    layer = Orthogonal(gain=2.0).fill_(nn.Conv2d(8, 6, 2, groups=2))
    for block in layer.weight.detach().flatten(1).split(3):
        torch.testing.assert_close(block @ block.T, 4 * torch.eye(3), atol=1e-5, rtol=0)
    tall = Orthogonal().fill_(nn.Linear(3, 9)).weight.detach()
    torch.testing.assert_close(tall.T @ tall, torch.eye(3), atol=1e-5, rtol=0)


def test_delta_orthogonal_keeps_positions_apart():
    layer = DeltaOrthogonal().fill_(nn.Conv2d(4, 4, 3, padding=1, bias=False))
    image = torch.randn(1, 4, 6, 6)
    torch.testing.assert_close(layer(image).square().sum(dim=1), image.square().sum(dim=1), atol=1e-5, rtol=1e-5)


def test_fans_of_transposed_convolutions_keep_the_variance():
    """Mean over 200 draws of a linear U-Net step with LeCun weights; without the stride it would be 1/4."""
    layer = nn.ConvTranspose2d(16, 16, 2, stride=2)
    generator, x = torch.Generator().manual_seed(0), torch.randn(4, 16, 5, 5)
    ratios = []
    with torch.no_grad():
        for _ in range(200):
            LeCun().fill_(layer, generator=generator)
            ratios.append(float(layer(x).square().mean() / x.square().mean()))
    assert abs(z_score(ratios, 1)) < 4


def test_one_liners_are_the_classes():
    for function, law, options in (
        (he_, He, {"mode": "fan_out"}),
        (glorot_, Glorot, {"distribution": "uniform"}),
        (lecun_, LeCun, {}),
        (orthogonal_, Orthogonal, {"gain": 2.0}),
        (delta_orthogonal_, DeltaOrthogonal, {}),
        (zero_sum_, ZeroSum, {"strength": 0.5}),
    ):
        ours, theirs = (nn.Sequential(nn.Conv2d(3, 4, 3), nn.Linear(4, 5)) for _ in range(2))
        function(ours, generator=torch.Generator().manual_seed(1), **options)
        law(**options).fill_(theirs, generator=torch.Generator().manual_seed(1))
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert torch.equal(a, b)


def test_present_draws_what_the_weights_are_like():
    layer = nn.Linear(200, 100)
    with torch.no_grad():
        layer.weight.normal_(0, 0.3, generator=torch.Generator().manual_seed(0))
    before = Present().weight_distribution(layer)
    after = Present().weight_distribution(Present().fill_(layer, generator=torch.Generator().manual_seed(1)))
    assert abs(after.variance / before.variance - 1) < 4 * np.sqrt(4 / layer.weight.numel())


def test_bad_laws_are_refused():
    with pytest.raises(InputError, match="gain"):
        Orthogonal(gain=-1)
    with pytest.raises(InputError, match="DeltaOrthogonal"):
        ZeroSum(base=DeltaOrthogonal())
    with pytest.raises(InputError, match="holds no Linear"):
        orthogonal_(nn.ReLU())


@pytest.mark.parametrize("fill", [he_, orthogonal_, zero_sum_, looks_linear_, Present().fill_, Gaussian().fill_])
@pytest.mark.parametrize("layer", [nn.Linear(12, 16), nn.Conv2d(4, 6, 3, groups=2)], ids=["linear", "conv"])
def test_a_weight_that_is_normalised_gets_what_is_drawn(fill, layer):
    """Weight norm stores lengths and directions; the weight that comes out is that of the same layer without it."""
    plain, normalised = copy.deepcopy(layer), parametrizations.weight_norm(copy.deepcopy(layer))
    for module in (plain, normalised):
        fill(module, generator=torch.Generator().manual_seed(1))
    assert not torch.allclose(plain.weight, layer.weight)
    torch.testing.assert_close(normalised.weight, plain.weight)
    assert torch.equal(normalised.bias, plain.bias)


@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
@pytest.mark.parametrize(
    "wrap",
    [
        parametrizations.spectral_norm,
        parametrizations.orthogonal,
        nn.utils.weight_norm,
        nn.utils.spectral_norm,
        lambda layer: prune.l1_unstructured(layer, "weight", 0.5),
    ],
    ids=["spectral", "orthogonal", "old weight norm", "old spectral norm", "pruned"],
)
def test_a_weight_that_cannot_become_what_is_drawn_is_refused_and_nothing_is_written(wrap):
    model = nn.Sequential(nn.Linear(8, 6), wrap(nn.Linear(6, 6))).eval()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(InputError, match="weight of a Linear is"):
        he_(model)
    assert all(torch.equal(values, before[name]) for name, values in model.state_dict().items())


def test_an_orthogonal_parametrisation_takes_orthogonal_weights():
    layer = parametrizations.orthogonal(nn.Linear(6, 6))
    before = layer.weight.detach().clone()
    drawn = orthogonal_(layer).weight.detach()
    assert not torch.allclose(drawn, before, atol=1e-2)
    torch.testing.assert_close(drawn @ drawn.T, torch.eye(6), atol=1e-5, rtol=0)
