"""`LooksLinear`: the network is linear, which is checked as such, and keeps what a linear isometry keeps.

Apart from the contract in `test_initializers`: units are not independent, and no second moments are stated.
"""

from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import initscope
from initscope.errors import InputError
from initscope.initializers import LooksLinear, Orthogonal, ZeroSum, looks_linear_


def random_input(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.double, generator=torch.Generator().manual_seed(seed))


def filled(model, **options):
    return looks_linear_(model.double(), generator=torch.Generator().manual_seed(3), **options)


def deviation_from_linear(model, shape):
    """|f(2x - 3y) - 2f(x) + 3f(y)| over the size of f: rounding if f is linear, of order 1 if not."""
    x, y = random_input(2, *shape), random_input(2, *shape, seed=1)
    with torch.no_grad():
        both = 2 * model(x) - 3 * model(y)
        assert both.abs().max() > 1e-3  # linear for being zero is not what is meant
        return float((model(2 * x - 3 * y) - both).abs().max() / both.abs().max())


def stack(*widths, activation=nn.ReLU):
    pairs = pairwise(widths)
    layers = [layer for inputs, outputs in pairs for layer in (nn.Linear(inputs, outputs), activation())]
    return nn.Sequential(*layers[:-1])


class Named(nn.Module):
    """Layers registered in another order than they are called in, functions, two inputs, two outputs."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(8, 3)
        self.other = nn.Linear(8, 2)
        self.middle = nn.Linear(8, 8)
        self.first = nn.Linear(5, 8)

    def forward(self, x):
        h = F.relu(self.middle(torch.relu(self.first(x))))
        return torch.cat([self.last(h), self.other(h)], dim=1)


class Branching(nn.Module):
    """Cannot be traced without data; called in the order of its layers."""

    def __init__(self):
        super().__init__()
        self.layers = stack(5, 8, 8, 3)

    def forward(self, x):
        return self.layers(x) if x.sum() > -1e9 else x


class Skips(nn.Module):
    """Pre-activation blocks on the input's own stream, whose units are not in pairs."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(6, 10), nn.Linear(10, 6)

    def forward(self, x):
        return x + self.down(F.relu(self.up(x)))


def depthwise():
    layers = [nn.Conv2d(3, 8, 1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.ReLU()]
    return nn.Sequential(*layers, nn.Conv2d(8, 4, 1))


EXACT = {
    "dense": (lambda: stack(5, 16, 8, 12, 3), (5,)),
    "gelu": (lambda: stack(5, 16, 8, 3, activation=nn.GELU), (5,)),
    "silu": (lambda: stack(5, 16, 8, 3, activation=nn.SiLU), (5,)),
    "softplus": (lambda: stack(5, 16, 8, 3, activation=nn.Softplus), (5,)),
    "odd": (lambda: stack(5, 9, 7, 3, 4), (5,)),
    "one layer": (lambda: nn.Linear(5, 8), (5,)),
    "order": (Named, (5,)),
    "untraced": (Branching, (5,)),
    "skips": (Skips, (6,)),
    "convolutions": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 12, 4, stride=2, padding=1), nn.ReLU(inplace=True),
            nn.AvgPool2d(2), nn.Flatten(), nn.Linear(48, 6), nn.ReLU(), nn.Linear(6, 2),
        ),
        (3, 8, 8),
    ),
    "transposed": (
        lambda: nn.Sequential(nn.Conv1d(2, 6, 3), nn.ReLU(), nn.ConvTranspose1d(6, 8, 4, 2, 1), nn.ReLU(),
                              nn.Conv1d(8, 3, 1)),
        (2, 9),
    ),
    "depthwise": (depthwise, (3, 6, 6)),
}  # fmt: skip


@pytest.mark.parametrize("name", EXACT)
def test_the_network_is_linear(name):
    make, shape = EXACT[name]
    assert deviation_from_linear(filled(make()), shape) < 1e-10


def test_the_check_of_linearity_bites():
    """Orthogonal weights without the mirror, and the mirror without the right slope, are found out."""
    plain = Orthogonal().fill_(stack(5, 16, 8, 3).double(), generator=torch.Generator().manual_seed(0))
    assert deviation_from_linear(plain, (5,)) > 0.1
    assert deviation_from_linear(filled(stack(5, 16, 3, activation=nn.ELU)), (5,)) > 0.01


def test_a_single_hidden_unit_is_not_cut_off():
    model = filled(stack(5, 8, 1, 8, 3))
    assert model(random_input(50, 5)).abs().sum(dim=1).count_nonzero() > 10


def test_leaky_slopes_keep_the_norm_when_told():
    model = filled(stack(6, 12, 12, 12, 6, activation=lambda: nn.LeakyReLU(0.3)), slope=0.3)
    x = random_input(5, 6)
    torch.testing.assert_close(model(x).norm(dim=1), x.norm(dim=1))
    assert deviation_from_linear(model, (6,)) < 1e-10


def test_angles_norms_and_rank_are_kept_at_any_depth():
    """Hidden widths twice the input's: an isometry up to its scale, here through 60 layers, cosine for cosine."""
    model = filled(stack(8, *[16] * 60, 8))
    x, y = random_input(20, 8), random_input(20, 8, seed=1)
    before, after = (F.cosine_similarity(*pair) for pair in ((x, y), (model(x), model(y))))
    torch.testing.assert_close(after, before, atol=1e-10, rtol=0)
    jacobian = torch.func.jacrev(model)(x[0])
    torch.testing.assert_close(jacobian @ jacobian.T, torch.eye(8, dtype=torch.double), atol=1e-10, rtol=0)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Conv2d(6, 20, 5, stride=2, padding=2), (6, 16, 16)),
        (nn.Conv2d(20, 6, 3, padding=1), (20, 16, 16)),
        (nn.ConvTranspose2d(6, 20, 4, stride=2, padding=1), (6, 8, 8)),
        (nn.ConvTranspose2d(20, 6, 2, stride=2), (20, 8, 8)),
        (nn.Conv2d(8, 8, 3, padding=1, groups=8), (8, 16, 16)),
        (nn.Linear(10, 40), (10,)),
        (nn.Linear(40, 10), (40,)),
    ],
    ids=str,
)
def test_the_mean_square_per_unit_is_kept(layer, shape):
    """White noise through one layer, over draws of both: within 4 standard errors of 1."""
    ratios = []
    for seed in range(100):
        looks_linear_(layer.double(), generator=torch.Generator().manual_seed(seed))
        x = random_input(4, *shape, seed=seed)
        ratios.append(float(layer(x).detach().square().mean() / x.square().mean()))
    error = np.std(ratios, ddof=1) / np.sqrt(len(ratios))
    assert abs(np.mean(ratios) - 1) < 4 * error + 1e-12


def test_a_stride_passes_no_position_over():
    """Every input pixel moves some output; a single tap would see one pixel in four."""
    layer = filled(nn.Conv2d(2, 8, 3, stride=2, padding=1))
    image = random_input(1, 2, 8, 8).requires_grad_()
    (gradient,) = torch.autograd.grad(layer(image).square().sum(), image)
    assert (gradient != 0).all()


def test_hidden_filters_sum_to_zero_and_biases_are_zero():
    model = filled(stack(5, 12, 8, 3))
    for layer in (model[2], model[4]):
        assert layer.weight.detach().sum(dim=1).abs().max() < 1e-12
        assert not layer.bias.detach().any()


def test_it_is_measured_and_never_predicted(monkeypatch):
    model, data = stack(8, 16, 16, 4).float(), torch.rand(24, 8)
    with monkeypatch.context() as patch:
        patch.delattr("initscope.propagate.prediction.trace")  # the refusal comes before the work
        with pytest.raises(InputError, match="not independent"):
            initscope.predict(model, data[:12], data[12:], LooksLinear())
    report = initscope.inspect(model, data, pairs=8, draws=2, initializer=LooksLinear(), alternatives=False)
    assert report.prediction is None
    assert "not independent" in report.rows[1].note
    # Present weights that are mirrored are not believed to be independent.
    looks_linear_(model := stack(16, 64, 64, 4))
    assert "2" in initscope.inspect(model, torch.rand(24, 16), pairs=8, alternatives=False).weights


def test_what_breaks_it_is_refused():
    with pytest.raises(InputError, match="bias_variance"):
        LooksLinear(bias_variance=0.1)
    with pytest.raises(InputError, match="slope"):
        LooksLinear(slope=-1)
    with pytest.raises(InputError, match="sum to zero already"):
        ZeroSum(base=LooksLinear())
    with pytest.raises(InputError, match="holds no Linear"):
        looks_linear_(nn.ReLU())
