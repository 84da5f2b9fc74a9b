"""Kernels of models that are no plain stacks, and what `kernel` refuses."""

import numpy as np
import pytest
import torch
from kernels_by_hand import by_hand, windows
from torch import nn

import initscope
from initscope.errors import InputError
from initscope.initializers import He
from initscope.propagate.kernels import diagonal, kernel


@pytest.fixture
def images():
    return torch.randn(4, 2, 4, 4, generator=torch.Generator().manual_seed(4)).double()


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
def test_global_pooling(images, kind):
    """Against all covariances between positions, written out."""
    model = nn.Sequential(
        nn.Conv2d(2, 8, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 8, 2),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 3),
    )
    layers = [
        (2 / 18, 0.1, windows(4, 3, padding=1), True),
        (2 / 4, 0.1, windows(4, 2), True),
        (None, None, None, False),
        (2, 0.1, np.ones((1, 1, 1)), False),
    ]
    expected = by_hand(images.flatten(2).numpy(), layers)[kind == "ntk"][:, :, 0, 0]
    found = kernel(model, images, initializer=He(bias_variance=0.1), kind=kind, normalize=False)
    assert np.abs(found - expected).max() < 1e-12 * expected.max()


class Residual(nn.Module):
    """x → W₃(h + W₂ R(h)), h = W₁x."""

    def __init__(self, width):
        super().__init__()
        self.stem, self.branch, self.head = nn.Linear(6, width), nn.Linear(width, width), nn.Linear(width, 1)

    def forward(self, x):
        h = self.stem(x)
        return self.head(h + self.branch(torch.relu(h)))


def test_skip_against_gradients_of_wide_networks():
    """The tangent kernel of a residual network against gradients by autograd.

    40 networks of width 400, z-scores of the mean; its bias, of order 1/width, is about half a standard error. An
    error of 6 % of the kernel would show at 5 σ.
    """
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(3, 6, generator=generator)
    law = He(bias_variance=0.05)
    expected = kernel(Residual(8), x, initializer=law, kind="ntk", normalize=False)
    draws = []
    for _ in range(40):
        model = Residual(400)
        law.fill_(model, generator=generator)
        gradients = []
        for row in x:
            model.zero_grad()
            model(row[None]).sum().backward()
            parts = []
            for layer in (model.stem, model.branch, model.head):
                of = law.weight_distribution(layer)
                parts += [of.variance**0.5 * layer.weight.grad.flatten(), of.bias_variance**0.5 * layer.bias.grad]
            gradients.append(torch.cat(parts))
        stacked = torch.stack(gradients).double()
        draws.append((stacked @ stacked.T).numpy())
    mean, error = np.mean(draws, axis=0), np.std(draws, axis=0, ddof=1) / 40**0.5
    assert np.abs((mean - expected) / error).max() < 4.5
    assert (error / expected.max()).max() < 0.012


class Skip(nn.Module):
    """A layer of weights with a skip connection."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return x + self.layer(x)


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), Skip(nn.Conv2d(4, 4, 1)), nn.ReLU(), nn.Flatten()),
        nn.Sequential(nn.Flatten(), nn.Linear(48, 8), nn.ReLU(), Skip(nn.Linear(8, 8)), nn.ReLU(), nn.Linear(8, 2)),
    ],
    ids=["convolutions", "dense"],
)
def test_an_activation_of_a_sum_that_is_not_gaussian_has_no_tangent_kernel(model):
    """The refusal names the layer without a rule: nothing averages positions here."""
    data = torch.randn(3, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    name = [name for name, layer in model.named_children() if isinstance(layer, nn.ReLU)][-1]
    with pytest.raises(InputError, match=rf"no rule covers {name} \(ReLU\), so its values are sampled"):
        kernel(model, data, kind="ntk")
    without = nn.Sequential(*(layer for key, layer in model.named_children() if key != name))
    assert np.isfinite(kernel(without, data, kind="ntk")).all()


def test_rules_of_prediction_give_the_cosines(images):
    """A network with skips, tanh and layer norm: the kernel is what `predict` says of every pair."""

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.norm = nn.Linear(32, 64), nn.Linear(64, 64), nn.LayerNorm(64)

        def forward(self, x):
            h = self.a(x.flatten(1))
            return self.norm(h + self.b(torch.tanh(h)))

    model = Network()
    found = initscope.kernel(model, images, images[:2])
    predicted = initscope.predict(model, images, images[:1].expand_as(images))
    assert np.abs(found[1:, 0] - predicted.cosine[-1, 1:]).max() < 1e-9


def test_what_is_sampled_has_an_error():
    """Max-pooling is drawn: errors are not zero, and the kernel is the truth within them."""
    x = torch.randn(3, 1, 4, 4, generator=torch.Generator().manual_seed(6))
    model = nn.Sequential(nn.Conv2d(1, 64, 3, padding=1, bias=False), nn.MaxPool2d(2))
    found, error = kernel(model, x, return_error=True)
    assert np.array_equal(error == 0, np.eye(3, dtype=bool))
    outputs = []
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for _ in range(200):
            weight = torch.randn(500, 1, 3, 3, generator=generator)
            values = nn.functional.max_pool2d(nn.functional.conv2d(x, weight, padding=1), 2).flatten(1).double()
            outputs.append((values @ values.T).numpy())
    truth = np.mean(outputs, axis=0)
    truth /= np.sqrt(np.outer(truth.diagonal(), truth.diagonal()))
    off = ~np.eye(3, dtype=bool)
    # Three pairs of four replicates each: their errors together have nine degrees of freedom.
    assert np.abs(found - truth)[off].max() < 6 * np.sqrt(np.mean(error[off] ** 2))
    assert error.max() < 0.02


def test_the_model_is_left_as_it_was(images):
    model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU())
    before = {name: value.clone() for name, value in model.state_dict().items()}
    kernel(model, images, kind="ntk")
    assert model.training
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


@pytest.mark.parametrize(
    ("model", "inputs", "options", "message"),
    [
        (nn.Linear(2, 2), [[1.0, 2.0]], {"kind": "ntks"}, "kind = 'ntks'"),
        (nn.Linear(2, 2), [1.0, 2.0], {}, "has shape"),
        (nn.Linear(2, 2), [[1.0, 2.0], [0.0, 0.0]], {}, r"images\[1\] is zero"),
        (nn.Linear(2, 2), [[1.0, float("nan")]], {}, r"images\[0\] holds NaN"),
        (nn.Linear(2, 2), [[1.0, 2.0]], {"others": [[1.0, 2.0, 3.0]]}, "both must be inputs of one model"),
        (nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), [[1.0, 2.0]], {}, "eval"),
        (nn.Flatten(), [[1.0, 2.0]], {"kind": "ntk"}, "no weights"),
        (nn.Sequential(nn.Conv2d(1, 8, 3), nn.MaxPool2d(2)), np.ones((1, 1, 4, 4)), {"kind": "ntk"}, "no tangent"),
    ],
)
def test_bad_input(model, inputs, options, message):
    with pytest.raises(InputError, match=message):
        kernel(model, inputs, **options)


def test_several_outputs_are_refused():
    class Two(nn.Module):
        def forward(self, x):
            return x, x

    with pytest.raises(InputError, match="not one tensor"):
        kernel(Two(), [[1.0, 2.0]])


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
def test_devices(images, kind):
    """The CPU by name is the CPU; what is no device here is told. GPUs are not tried: there is none."""
    model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(16, 1))
    here = kernel(model, images, kind=kind)
    assert np.array_equal(kernel(model, images.numpy(), kind=kind, device="cpu"), here)
    assert np.array_equal(diagonal(model, images, device=torch.device("cpu")), diagonal(model, images))
    for device in ("nonsense", "cuda:99"):
        with pytest.raises(InputError, match="a device that torch finds here"):
            kernel(model, images, device=device)
