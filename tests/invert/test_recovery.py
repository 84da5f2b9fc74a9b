"""Recovery: exact where active rows span, honest where they do not, for every kind of layer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from initscope.invert import LayerRecovery, invert_layers, linear_estimate, recover
from initscope.invert.gradient import descend
from initscope.invert.nonlinearities import INVERTIBLE, preimage
from initscope.invert.operators import Affine
from initscope.invert.priors import BallPrior, Box, Sparse, SubspacePrior, TotalVariation, Wavelets
from initscope.invert.spectrum import Spectrum


def relative(found, x):
    return float((found - x).norm() / x.norm())


def allowed(condition):
    return max(1e-8, 1e-14 * condition**2)


LAYERS = [
    (nn.Linear(10, 60), (10,)),
    (nn.Conv1d(2, 16, 5, dilation=2, padding=4, padding_mode="circular"), (2, 20)),
    (nn.Conv2d(3, 32, 5, padding=2), (3, 9, 9)),
    (nn.Conv2d(3, 40, 7), (3, 11, 11)),
    (nn.Conv2d(3, 24, 5, padding=2), (3, 8, 8)),
    (nn.Conv2d(4, 48, 3, groups=2, stride=2, padding=1), (4, 9, 9)),
    (nn.Conv2d(2, 24, 3, padding="same", padding_mode="reflect"), (2, 8, 8)),
    (nn.Conv3d(1, 12, 3, padding=1), (1, 5, 5, 5)),
    (nn.ConvTranspose2d(3, 16, 3, stride=2, output_padding=1), (3, 6, 6)),
]


@pytest.mark.parametrize(("layer", "shape"), LAYERS, ids=lambda value: type(value).__name__)
def test_exact_recovery_from_relu(layer, shape):
    torch.manual_seed(0)
    model = nn.Sequential(layer, nn.ReLU()).double()
    x = torch.randn(2, *shape, dtype=torch.float64)
    with torch.no_grad():
        outputs = model(x)
    found = recover(model, outputs, input_shape=shape)
    assert found.exact
    assert relative(found.inputs, x) < allowed(found.condition)
    assert found.relative_residual < 1e-10


def affine_of(layer, shape):
    return Affine([layer.double().requires_grad_(False)], shape, torch.float64)


@pytest.mark.parametrize(("layer", "shape"), LAYERS, ids=lambda value: type(value).__name__)
def test_adjoint_is_the_transpose(layer, shape):
    """⟨Ax, u⟩ = ⟨x, Aᵀu⟩ to rounding, the fast adjoint of convolutions from few channels included."""
    affine = affine_of(layer, shape)
    rng = torch.Generator().manual_seed(1)
    x, u = (torch.randn(s, generator=rng, dtype=torch.float64) for s in (shape, affine.output_shape))
    assert float((affine.linear(x) * u).sum()) == pytest.approx(float((x * affine.adjoint(u)).sum()), rel=1e-10)


@pytest.mark.parametrize("method", ["lsmr", "cg", "svd"])
def test_condition_of_a_convolution_against_its_matrix(method):
    torch.manual_seed(2)
    model = nn.Sequential(nn.Conv2d(3, 32, 5), nn.ReLU()).double()
    x = torch.randn(3, 12, 12, dtype=torch.float64)
    with torch.no_grad():
        outputs = model(x[None])[0]
    found = recover(model, outputs, method=method)
    values = np.linalg.svd(affine_of(model[0], (3, 12, 12)).matrix()[outputs.reshape(-1).numpy() > 0], compute_uv=False)
    assert found.condition == pytest.approx(values[0] / values[-1], rel=0.01)
    assert relative(found.inputs, x) < allowed(found.condition)


MAPS = [kind for kind in INVERTIBLE if kind is not nn.Identity]


@pytest.mark.parametrize("kind", MAPS, ids=lambda kind: kind.__name__)
def test_every_activation(kind):
    """20 inputs, 120 outputs: what is known of the preactivations is right, suffices, and bounds hold for the rest."""
    activation = {nn.Threshold: lambda: nn.Threshold(0.1, 0.0)}.get(kind, kind)()
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(20, 120), activation).double()
    x = 2 * torch.randn(20, dtype=torch.float64)
    with torch.no_grad():
        z, outputs = model[0](x), model(x)
    told = preimage(model[1].requires_grad_(False), outputs)
    assert float((told.values - z)[told.known].abs().max()) < 1e-7
    assert bool(((z <= told.upper + 1e-9) & (z >= told.lower - 1e-9))[~told.known].all())
    found = recover(model, outputs)
    assert found.exact
    assert relative(found.inputs, x) < 1e-8


def test_batch_norm_and_a_deep_chain():
    torch.manual_seed(4)
    first = nn.Sequential(nn.Linear(6, 40), nn.BatchNorm1d(40), nn.ReLU())
    rest = (nn.Linear(40, 160), nn.LeakyReLU(0.2), nn.Linear(160, 500), nn.ReLU())
    model = nn.Sequential(*first, *rest).double().eval()
    model[1].running_mean.normal_()
    model[1].running_var.uniform_(0.5, 2)
    x = torch.randn(3, 6, dtype=torch.float64)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with torch.no_grad():
        found = recover(model, model(x))
    assert found.exact
    assert relative(found.inputs, x) < allowed(found.condition)
    assert len(found.layers) == 9
    assert all(isinstance(layer, LayerRecovery) for layer in found.layers)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_noise_is_amplified_as_predicted():
    """100 random layers, 1,000 draws of noise each, so that each ratio is certain to about 1 %.

    Everything is drawn from one generator of its own, so that no other seed can bring a layer of few directions.
    """
    rng = np.random.default_rng(5)
    ratios = []
    for _ in range(100):
        n, m = int(rng.integers(10, 21)), int(rng.integers(80, 140))
        model = nn.Sequential(nn.Linear(n, m), nn.ReLU()).double()
        x = torch.from_numpy(rng.standard_normal(n))
        noise = 1e-6
        with torch.no_grad():
            model[0].weight.copy_(torch.from_numpy(rng.standard_normal((m, n))))
            model[0].bias.copy_(torch.from_numpy(rng.standard_normal(m) / 4))
            outputs = model(x)
        first = recover(model, outputs + noise * torch.from_numpy(rng.standard_normal(m)), noise=noise)
        # The other draws through the same active rows, by linear algebra of its own.
        active = (outputs > 6.5 * noise).numpy()
        inverse = np.linalg.pinv(model[0].weight.detach().numpy()[active])
        errors = noise * rng.standard_normal((999, int(active.sum()))) @ inverse.T
        errors = np.vstack([(first.inputs - x).numpy(), errors])
        ratios.append(np.sqrt((errors**2).sum(axis=1).mean()) / (noise * first.noise_amplification))
    assert np.abs(np.array(ratios) - 1).max() < 0.1
    assert abs(np.mean(ratios) - 1) < 0.01


@pytest.mark.parametrize("side", [6, 12])
def test_noise_of_a_convolution_is_amplified_as_its_matrix_says(side):
    """√Σ 1/σ² of the active rows, by the full matrix: exact for 72 inputs, to 10 % by quadrature for 288."""
    torch.manual_seed(side)
    conv = nn.Conv2d(2, 16, 3, padding=1).double()
    x = torch.randn(1, 2, side, side, dtype=torch.float64)
    with torch.no_grad():
        outputs = conv(x)
        units = torch.eye(2 * side**2, dtype=torch.float64).reshape(-1, 2, side, side)
        matrix = (conv(units) - conv.bias[:, None, None]).reshape(len(units), -1).T.numpy()
    sizes = np.linalg.svd(matrix[outputs.flatten().numpy() > 0], compute_uv=False)
    found = recover(nn.Sequential(conv, nn.ReLU()), torch.relu(outputs))
    assert found.exact
    exact = float(np.sqrt((1 / sizes**2).sum()))
    assert found.noise_amplification == pytest.approx(exact, rel=1e-6 if side == 6 else 0.1)
    assert np.sqrt(len(units)) / sizes[-1] > 1.5 * exact


def test_a_bare_positive_test_would_fail_with_noise():
    """Told of the noise, inactive units stay inactive; not told, their noise counts as equations."""
    torch.manual_seed(6)
    model = nn.Sequential(nn.Linear(8, 40), nn.ReLU()).double()
    x = torch.randn(8, dtype=torch.float64)
    with torch.no_grad():
        noisy = model(x) + 1e-3 * torch.randn(40, dtype=torch.float64)
    told = relative(recover(model, noisy, noise=1e-3).inputs, x)
    untold = relative(recover(model, noisy).inputs, x)
    assert told < 0.1 * untold


def test_too_few_rows_use_the_bounds_of_the_others():
    """10 inputs, 12 rows: over 20 draws the bounds help on average, and it says that it is not exact."""
    better = []
    for seed in range(20):
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(10, 12, bias=False), nn.ReLU()).double()
        x = torch.randn(10, dtype=torch.float64)
        with torch.no_grad():
            outputs = model(x)
        found = recover(model, outputs)
        assert not found.exact
        assert found.message
        assert found.relative_residual < 1e-4
        active = outputs > 0
        least = torch.linalg.pinv(model[0].weight.detach()[active]) @ outputs[active]
        better.append(relative(least, x) - relative(found.inputs, x))
    assert np.mean(better) > 0


def test_priors_fill_what_outputs_leave_open():
    rng = np.random.default_rng(7)
    basis = rng.standard_normal((4, 30))
    layer = nn.Sequential(nn.Linear(30, 30, bias=False), nn.ReLU()).double()
    x = torch.from_numpy(rng.standard_normal(4) @ basis)
    with torch.no_grad():
        outputs = layer(x)
    assert not recover(layer, outputs).exact
    inside = recover(layer, outputs, prior=SubspacePrior(basis))
    assert inside.exact
    assert relative(inside.inputs, x) < 1e-9
    sparse = torch.zeros(30, dtype=torch.float64)
    sparse[[3, 17]] = torch.tensor([1.0, -2.0], dtype=torch.float64)
    wide = nn.Sequential(nn.Linear(30, 40, bias=False), nn.ReLU()).double()
    with torch.no_grad():
        outputs = wide(sparse)
    with_prior = relative(recover(wide, outputs, prior=Sparse(2), iterations=2000).inputs, sparse)
    assert with_prior < 0.3 * relative(recover(wide, outputs).inputs, sparse) + 1e-3


def test_projections():
    rng = torch.Generator().manual_seed(8)
    x = torch.randn(1, 16, 16, generator=rng, dtype=torch.float64)
    assert float(BallPrior(2.0).project(x).norm()) == pytest.approx(2.0)
    assert float(Box(-0.5, 0.5).project(x).abs().max()) == 0.5
    assert int((Sparse(7).project(x) != 0).sum()) == 7
    once = Wavelets(20).project(x)
    torch.testing.assert_close(Wavelets(20).project(once), once)
    assert float((once - x).norm()) < float(x.norm())
    smooth = TotalVariation(0.5).project(x)
    assert float(TotalVariation(0.5).penalty(smooth)) < float(TotalVariation(0.5).penalty(x))
    atoms = np.eye(256) + 0.1
    assert np.linalg.matrix_rank(atoms[:, :3]) == 3
    combined = torch.from_numpy(atoms[:, :2].sum(axis=1)).reshape(1, 16, 16)
    torch.testing.assert_close(Sparse(2, atoms).project(combined), combined)


def test_linear_estimate_projects():
    rng = np.random.default_rng(9)
    weight, x = rng.standard_normal((400, 50)), np.zeros(50)
    x[5] = 1.0
    outputs = np.maximum(weight @ x, 0)
    plain, sparse = (np.linalg.norm(linear_estimate(weight, outputs, prior=p) - x) for p in (None, Sparse(1)))
    assert sparse < 0.6 * plain
    assert linear_estimate(torch.from_numpy(weight), torch.from_numpy(outputs)).dtype == torch.float64


class Skip(nn.Module):
    """A network that is no chain: a skip, max-pooling, a function."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)

    def forward(self, x):
        x = torch.relu(self.first(x))
        return torch.relu(self.second(x) + x)


def test_whole_network_by_descent():
    torch.manual_seed(10)
    model = Skip()
    x = torch.rand(1, 1, 8, 8)
    with torch.no_grad():
        outputs = model(x)
    found = recover(model, outputs, input_shape=(1, 8, 8), iterations=300)
    assert found.method == "gradient"
    assert not found.exact
    assert found.relative_residual < 0.05
    assert relative(found.inputs, x) < 0.1


def test_interrupted_descent_keeps_the_best(monkeypatch):
    """Ctrl-C after 15 evaluations: the best input of those, not an exception."""
    torch.manual_seed(11)
    model, calls = Skip(), 0
    x = torch.rand(1, 1, 8, 8)
    with torch.no_grad():
        outputs = model(x)
    from initscope.invert import gradient

    original = gradient._Search.value

    def value(self, vector):
        nonlocal calls
        calls += 1
        if calls > 15:
            raise KeyboardInterrupt
        return original(self, vector)

    monkeypatch.setattr(gradient._Search, "value", value)
    found = recover(model, outputs, input_shape=(1, 8, 8))
    assert "interrupted" in found.message
    assert found.relative_residual < 0.9


def test_pictures_and_page(tmp_path):
    torch.manual_seed(12)
    model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3), nn.ReLU())
    images = np.random.default_rng(0).random((2, 1, 12, 12))
    found = invert_layers(model, images, ["1", "4"], iterations=30)
    table = found.table()
    assert [row["layer"] for row in table] == ["1", "1", "4", "4"]
    assert table[0]["psnr"] > 60 > table[2]["psnr"]
    assert found.sheet().shape == (1, 24, 36)
    page = found.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count("<img") == 6
    assert "://" not in page
    assert page.count('alt="image 2: ') == 3
    assert "<b>" not in replace(found, title="<b>").to_html()
    found.plot()
    assert found.means()[0]["images"] == 2
    assert [row["known"] for row in found.summary()] == ["exact", "stopped early"]
    assert "more iterations may improve the result" in found.notes()[0]
    assert "psnr_se" not in replace(found, rows=found.rows[:1]).means()[0]


def test_descent_says_whether_it_converged():
    """A quadratic bowl is reached; a few steps into a long valley are not the end, and it says what they gained."""
    target = torch.linspace(1, 2, 50, dtype=torch.float64)
    done = descend(lambda x: x, target, torch.zeros_like(target), iterations=50)
    assert done.converged
    assert done.residual < 1e-5
    scales = torch.logspace(0, 4, 50, dtype=torch.float64)
    short = descend(lambda x: scales * x, scales * target, torch.zeros_like(target), iterations=25)
    assert not short.converged
    assert short.gain > 0.01
    torch.manual_seed(0)  # of another network a descent may well end in a valley of its own
    silent = nn.Sequential(nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, 3), nn.Tanh())
    with torch.no_grad():
        outputs = silent(torch.tensor([0.5, -1.0, 0.3, 0.8])).numpy()
    found = recover(silent, outputs, input_shape=(4,), iterations=100)
    assert found.converged
    assert found.relative_residual < 1e-4


def test_spectrum_is_the_one_over_frequency_law():
    """White noise of 400 pictures gets amplitudes ∝ 1/f: the slope of log power in log frequency is -2 to .1."""
    spectrum = Spectrum(32, 32, torch.float64)
    noise = torch.randn(400, 32, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    picture = spectrum.color(noise)
    torch.testing.assert_close(spectrum.whiten(picture), noise)
    power = torch.fft.fft2(picture).abs().square().mean(0)[0, 1:16].numpy()
    slope = np.polyfit(np.log(np.arange(1, 16)), np.log(power), 1)[0]
    assert slope == pytest.approx(-2, abs=0.1)
    other = torch.randn(32, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    assert float((spectrum.color(noise[0]) * other).sum()) == pytest.approx(
        float((noise[0] * spectrum.color(other)).sum())
    )


def test_pictures_come_back_nearer_in_their_spectrum():
    """A smooth picture from a pooled layer that cannot determine it: nearer with total variation than with a range."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
    across = torch.linspace(0, 3, 16)
    image = (0.5 + 0.4 * torch.sin(across)[:, None] * torch.cos(across)[None])[None, None]
    with torch.no_grad():
        outputs = model(image)
    errors = []
    for prior in ((TotalVariation(0.001), Box(0.0, 1.0)), Box(0.0, 1.0)):
        found = recover(model, outputs, prior=prior, input_shape=(1, 16, 16), iterations=60)
        assert 0 <= float(found.inputs.min()) <= float(found.inputs.max()) <= 1
        errors.append(float((found.inputs - image).norm()))
    assert errors[0] < 0.7 * errors[1]
