"""Test suites for new activations, initializers, rules and hashes: inherit one, set what to test, run pytest.

>>> from initscope.theory.activations import activation
>>> class TestMyActivation(ActivationContract):
...     activation = activation(lambda x: x / (1 + x**2))
>>> TestMyActivation().test_zero_variance_gives_the_value_at_zero_times_the_other_mean()

The docstring of each test says which errors it detects. The parts of this library pass the same suites.
"""

from __future__ import annotations

import math
import pickle
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import nn
from torch.nn.modules.conv import _ConvTransposeNd

from initscope.geometry import Measurement, Prediction
from initscope.initializers import He, Initializer, WeightDistribution
from initscope.measurement import measure
from initscope.propagate import predict
from initscope.theory.activations import Activation

if TYPE_CHECKING:
    from initscope.scaling import CoordinateCheck, DepthCheck

__all__ = [
    "ActivationContract",
    "HasherContract",
    "InitializerContract",
    "RuleContract",
    "assert_coordinates",
    "z_score",
]


def z_score(samples: Any, expected: Any, axis: int = 0) -> Any:
    """Return the deviation of the sample mean from ``expected``, in standard errors of the mean.

    >>> float(z_score([1.0, 3.0], 1.0))
    1.0
    """
    samples = np.asarray(samples, dtype=np.float64)
    error = samples.std(axis=axis, ddof=1) / np.sqrt(samples.shape[axis])
    return (samples.mean(axis=axis) - expected) / error


def assert_coordinates(check: CoordinateCheck | DepthCheck) -> None:
    """Raise an AssertionError with the findings if the scales of a check depend on the width or depth.

    >>> import torch
    >>> from initscope.scaling import coordinates
    >>> def stack(width):
    ...     return torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.Linear(width, 3))
    >>> assert_coordinates(coordinates(stack, torch.randn(8, 4), widths=(32, 64, 128), steps=0, tolerance=0.6))
    """
    assert check.passes, f"scales depend on the {check.against}: " + "; ".join(check.findings)


class ActivationContract:
    """Inherit this class and set ``activation``; the tests run under pytest or when called directly."""

    activation: ClassVar[Activation]
    covariances: ClassVar[tuple[tuple[float, float, float], ...]] = (
        (1.0, 1.0, 0.5),
        (1.0, 1.0, 0.999999),
        (2.0, 0.5, -0.9),
        (0.3, 1.7, 0.2),
        (1.0, 1.0, -1.0),
        (1.0, 1.0, 1.0),
        (0.0, 1.0, 0.0),
        (1e-6, 1.3, -0.4),
    )
    """(variance of x, variance of y, correlation) for which expectations are compared."""
    seed: ClassVar[int] = 20

    def test_expectations_agree_with_quadrature(self) -> None:
        """Compare closed forms with the numerical integrals of the base class to 1e-10."""
        for kxx, kyy, kxy in self._covariances():
            for what, arguments in (
                ("dual", (kxx, kyy, kxy)),
                ("distance", (kxx, kyy, kxx + kyy - 2 * kxy)),
                ("derivative_dual", (kxx, kyy, kxy)),
                ("mean", (kxx,)),
                ("second_moment", (kyy,)),
            ):
                ours = getattr(self.activation, f"_{what}")(np, *arguments)
                generic = getattr(Activation, f"_{what}")(self.activation, np, *arguments)
                assert abs(float(ours) - float(generic)) <= 1e-10, (what, arguments, ours, generic)

    def test_torch_gives_the_same_numbers(self) -> None:
        """Compare torch with NumPy in double precision, to a relative error of 1e-12."""
        for covariance in self._covariances():
            tensors = [torch.tensor(float(value), dtype=torch.float64) for value in covariance]
            for what in ("dual", "derivative_dual"):
                expected = float(getattr(self.activation, what)(*covariance))
                np.testing.assert_allclose(
                    float(getattr(self.activation, what)(*tensors)), expected, rtol=1e-12, atol=1e-14
                )

    def test_gradients_are_finite(self) -> None:
        """Check that gradients of the dual are finite for all three moments, also at the edges of the domain."""
        for covariance in self._covariances():
            moments = [torch.tensor(float(value), dtype=torch.float64, requires_grad=True) for value in covariance]
            self.activation.dual(*moments).backward()
            assert all(moment.grad is not None and bool(torch.isfinite(moment.grad)) for moment in moments), covariance

    def test_monte_carlo(self) -> None:
        """Compare with 400,000 samples, which detects errors of 1 % of the standard deviation (4.5 standard errors)."""
        x, z = np.random.default_rng(self.seed).standard_normal((2, 400_000))
        y = 0.4 * x + math.sqrt(1 - 0.16) * z
        products = self.activation(x) * self.activation(1.5 * y)
        assert abs(z_score(products, self.activation.dual(1.0, 2.25, 0.6))) < 4.5
        assert abs(z_score(self.activation(x) + 1e-9 * z, self.activation.mean(1.0))) < 4.5

    def test_zero_variance_gives_the_value_at_zero_times_the_other_mean(self) -> None:
        """Check that E σ(0)σ(y) = σ(0) E σ(y)."""
        expected = float(self.activation(np.float64(0.0))) * float(self.activation.mean(1.7))
        np.testing.assert_allclose(float(self.activation.dual(0.0, 1.7, 0.0)), expected, atol=1e-12)

    def _covariances(self) -> list[tuple[Any, Any, Any]]:
        return [
            (np.float64(kxx), np.float64(kyy), np.float64(rho * math.sqrt(kxx * kyy)))
            for kxx, kyy, rho in self.covariances
        ]


class InitializerContract:
    """Inherit it and set ``initializer``.

    By sampling: z-scores at 4 standard errors over ``filters`` filters. A variance is then known within about
    4 √(2/filters): 15 % for 1,500.
    """

    initializer: ClassVar[Initializer]
    filters: ClassVar[int] = 1500
    depend: ClassVar[bool] = False
    """Whether the filters of one draw are dependent, as orthogonal ones are: then one filter of each draw is used."""

    def layers(self) -> list[Any]:
        """Return the layers to initialize; override to leave out layers that the initializer does not support."""
        return [
            nn.Linear(6, 4),
            nn.Linear(3, 8),
            nn.Conv1d(3, 4, 3),
            nn.Conv2d(4, 6, (3, 2), groups=2),
            nn.Conv3d(2, 3, 2),
            nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2),
        ]

    def test_draws_have_the_second_moments_that_it_states(self) -> None:
        """Check means, variances along a direction, and covariances of two directions and of two filters."""
        for layer in self.layers():
            scores = self.scores(layer, self.initializer.weight_distribution(layer))
            assert (scores < 4).all(), (layer, scores)

    def test_the_contract_bites(self) -> None:
        """Check that a variance that is wrong by 25 % is detected."""
        layer = self.layers()[0]
        stated = self.initializer.weight_distribution(layer)
        wrong = WeightDistribution(1.25 * stated.variance, stated.bias_variance, stated.strength, stated.center)
        assert (self.scores(layer, wrong) > 4).any()

    def test_random_state_is_left_alone(self) -> None:
        """Check that only the given generator is used."""
        layer, before = self.layers()[0], torch.random.get_rng_state()
        self.initializer.fill_(layer, generator=torch.Generator().manual_seed(1))
        assert torch.equal(before, torch.random.get_rng_state())

    def scores(self, layer: Any, stated: WeightDistribution) -> np.ndarray:
        """Return |z| of the moments of many sampled filters against the stated distribution."""
        generator = torch.Generator().manual_seed(5)
        count = _filters(layer).shape[1]
        a = torch.randn(count, generator=generator) + 2
        b = a + torch.randn(count, generator=generator)
        along_a, along_b, bias, next_filter = self._drawn(layer, a, b)
        scores = [
            z_score(along_a, 0),
            z_score(along_a**2, _second_moment(stated, layer, a, a)),
            z_score(along_a * along_b, _second_moment(stated, layer, a, b)),
            z_score(along_a * next_filter, 0),
        ]
        if stated.bias_variance:
            scores.append(z_score(bias**2, stated.bias_variance))
        else:
            assert not bias.any()
        return np.abs(scores)

    def _drawn(self, layer: Any, a: torch.Tensor, b: torch.Tensor) -> np.ndarray:
        """Return ⟨w, a⟩, ⟨w, b⟩, bias, and ⟨w, a⟩ of the next filter, for many filters."""
        generator, directions = torch.Generator().manual_seed(0), torch.stack([a, b], dim=1)
        rows = []
        for _ in range(self.filters if self.depend else self.filters // 3):
            self.initializer.fill_(layer, generator=generator)
            products = _filters(layer) @ directions
            next_filters = products[:, :1].roll(1, dims=0)
            drawn = torch.cat([products, layer.bias.detach()[:, None], next_filters], dim=1)
            rows.append(drawn[: 1 if self.depend else 3])
        return np.asarray(torch.cat(rows).double().numpy().T)


def _filters(layer: Any) -> torch.Tensor:
    """Return the weights as ``[outputs, inputs of a group · taps]`` for every layout of the layer."""
    weight, groups = layer.weight.detach(), getattr(layer, "groups", 1)
    if isinstance(layer, _ConvTransposeNd):
        grouped = weight.reshape(groups, -1, *weight.shape[1:]).transpose(1, 2)
        return torch.as_tensor(grouped.reshape(grouped.shape[0] * grouped.shape[1], -1))
    return torch.as_tensor(weight.flatten(1))


def _second_moment(stated: WeightDistribution, layer: Any, a: torch.Tensor, b: torch.Tensor) -> float:
    """Return E⟨w,a⟩⟨w,b⟩ = v (⟨a,b⟩ - λ n ā b̄); with ``stated.center`` only the center taps count."""
    if stated.center:
        center = _center_tap(layer)
        a, b = a * center, b * center
    return stated.variance * float(a @ b - stated.strength * len(a) * a.mean() * b.mean())


def _center_tap(layer: Any) -> torch.Tensor:
    """Return the indicator of the center tap in a flattened filter."""
    mask = torch.zeros(tuple(layer.weight.shape[2:]))
    mask[tuple((size - 1) // 2 for size in mask.shape)] = 1
    return mask.flatten().repeat(_filters(layer).shape[1] // mask.numel())


class RuleContract:
    """Inherit this class and override `layer`, and `input_shape` if the layer needs another shape.

    The network applies random weights, the layer, ReLU and random weights, with ``width`` units or channels.
    Predictions hold in the limit of large width: the tolerance is four standard errors of the measured mean over
    ``draws`` networks plus ``allowance/width``.
    """

    input_shape: ClassVar[tuple[int, ...]] = (3, 8, 8)
    width: ClassVar[int] = 128
    draws: ClassVar[int] = 16
    pairs: ClassVar[int] = 6
    allowance: ClassVar[float] = 4.0
    status: ClassVar[str] = "closed form"
    seed: ClassVar[int] = 0

    def layer(self) -> nn.Module:
        """Return a new module that the rule covers; its input has ``width`` channels or units."""
        raise AssertionError(f"{type(self).__name__} must override layer()")

    def network(self) -> nn.Module:
        """Return the network with the layer between weights."""
        weights: Any = nn.Linear if len(self.input_shape) == 1 else _convolution(len(self.input_shape) - 1)
        before, after = weights(self.input_shape[0], self.width), weights(self.width, self.width)
        return nn.Sequential(before, self.layer(), nn.ReLU(), after)

    def test_prediction_agrees_with_wide_networks(self) -> None:
        """Compare the cosine and the norm ratio of every row."""
        predicted, measured = self._both()
        for row, (name, error) in enumerate(zip([r.layer for r in measured.rows], measured.mean_cosine_se)):
            gap = abs(predicted.cosine[row].mean() - measured.cosine[row].mean())
            assert gap < 4 * np.nan_to_num(error) + self.allowance / self.width, (name, gap, error)
            ratio = predicted.norm_ratio[row].mean() / measured.norm_ratio[row].mean()
            assert abs(ratio - 1) < 0.1 + self.allowance / self.width, (name, ratio)

    def test_status_is_as_good_as_promised(self) -> None:
        """Check that the rows of the layer and of the next op have the expected status and are not sampled."""
        predicted, _ = self._both(draws=1)
        assert {row.status for row in predicted.rows[1:4]} == {self.status}, [
            (row.layer, row.status, row.note) for row in predicted.rows
        ]

    def _both(self, draws: int | None = None) -> tuple[Prediction, Measurement]:
        generator = torch.Generator().manual_seed(self.seed)
        x, noise = torch.randn(2, self.pairs, *self.input_shape, generator=generator)
        y = 0.6 * x + 0.8 * noise
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            model = self.network()
        measured = measure(model, x, y, initializer=He(), draws=draws or self.draws, seed=self.seed)
        return predict(model, x, y, He(), seed=self.seed), measured


def _convolution(dimensions: int) -> Any:
    kind: Any = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}[dimensions]
    return lambda inputs, outputs: kind(inputs, outputs, 3, padding=1, padding_mode="circular", bias=False)


class HasherContract:
    """Inherit this class and override `hasher`; the tests fit the estimator on three classes of digits."""

    def hasher(self) -> Any:
        """Return a new, unfitted estimator with packed codes."""
        raise AssertionError(f"{type(self).__name__} must override hasher()")

    def test_scikit_learn_contract(self) -> None:
        """Run `sklearn.utils.estimator_checks.check_estimator`."""
        from sklearn.utils.estimator_checks import check_estimator

        check_estimator(self.hasher(), on_skip=None)

    def test_codes_are_packed_bits_and_repeatable(self) -> None:
        """Check that codes are uint8, eight bits each, and that two fits with one seed give the same codes."""
        X, y = _digits()
        codes = self.hasher().fit(X, y).transform(X)
        assert codes.dtype == np.uint8
        assert codes.shape[0] == len(X)
        np.testing.assert_array_equal(self.hasher().fit(X, y).transform(X), codes)

    def test_equal_rows_have_equal_codes(self) -> None:
        """Check that the code of a row does not depend on the batch."""
        from initscope.embed import hamming_distance

        X, y = _digits()
        fitted = self.hasher().fit(X, y)
        together, alone = fitted.transform(X[:5]), np.concatenate([fitted.transform(X[k : k + 1]) for k in range(5)])
        assert not hamming_distance(together, alone).any()

    def test_pickle(self) -> None:
        """Check that an unpickled estimator gives the same codes."""
        X, y = _digits()
        fitted = self.hasher().fit(X, y)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).transform(X), fitted.transform(X))

    def test_codes_distinguish_classes(self) -> None:
        """Check that rows of one class are nearer to each other than rows of different classes, on average."""
        from initscope.embed import hamming_distance

        X, y = _digits()
        codes = self.hasher().fit(X, y).transform(X)
        generator = np.random.default_rng(0)
        left, right = generator.integers(len(X), size=(2, 4000))
        distance, same = hamming_distance(codes[left], codes[right]), y[left] == y[right]
        assert distance[same].mean() < distance[~same].mean()


def _digits() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    X, y = load_digits(n_class=3, return_X_y=True)
    return np.asarray(X), np.asarray(y)
