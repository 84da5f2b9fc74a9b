"""Recovery of the inputs of a whole network by gradient descent, with pooling, skips and priors.

SciPy's L-BFGS-B minimizes the relative squared distance of the outputs, plus penalties. For images, the first half of
the iterations uses the variables of `Spectrum`, which find coarse shapes; the second half uses pixels. The descent
stops when it gains little, and reports whether it converged. After Ctrl-C it returns the best input so far.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from initscope.invert.priors import Box, Prior, SubspacePrior, TotalVariation
from initscope.invert.spectrum import Spectrum, spectrum_of

__all__ = ["Descent", "back_projection", "descend"]

ROUNDS = 4
"""Number of projections on a prior that is neither a penalty nor a range, between parts of the descent."""
WINDOW, GAIN = 20, 0.01
"""The descent has converged when its objective fell by less than this share in this number of iterations."""
FITS = 1e-5
"""Relative residual that counts as an exact fit."""
_OUTSIDE = 10.0
"""Weight of the squared excess over the range of pixels, in widths of it, where the solver cannot keep bounds."""


@dataclass(frozen=True)
class Descent:
    """The best input, its relative residual, the iterations, whether it was interrupted, and whether it converged.

    ``gain`` is the share of the objective that the last 20 iterations took away.
    """

    x: Tensor
    residual: float
    iterations: int
    interrupted: bool
    converged: bool
    gain: float


def descend(
    forward: Callable[[Tensor], Tensor],
    target: Tensor,
    start: Tensor,
    priors: tuple[Prior, ...] = (),
    *,
    iterations: int = 200,
    progress: bool = False,
) -> Descent:
    """Minimize ‖f(x) - y‖²/‖y‖² and the priors' penalties from ``start``; ``forward`` takes and returns one sample."""
    penalties = [prior for prior in priors if isinstance(prior, TotalVariation)]
    box = next((prior for prior in priors if isinstance(prior, Box)), None)
    sets = [prior for prior in priors if not isinstance(prior, (Box, TotalVariation))]
    subspace = next((prior for prior in sets if isinstance(prior, SubspacePrior)), None)
    spectrum = spectrum_of(start.shape, priors, start.dtype)
    search = _Search(forward, target, start, penalties, subspace, box)
    rounds = ROUNDS if any(prior is not subspace for prior in sets) else 1
    x, interrupted = start, False
    with _line(progress, iterations) as report:
        try:
            if spectrum is not None:
                x = search.run(x, max(1, iterations // 2), report, spectrum)
                iterations -= search.iterations
            for _ in range(rounds):
                x = search.run(x, max(1, iterations // rounds), report)
                for prior in sets:
                    x = prior.project(x)
        except KeyboardInterrupt:
            interrupted = True
            x = search.best_input if box is None else box.project(search.best_input)
    if rounds > 1 or interrupted:
        search.consider(x, search.residual(x))
    return search.best(interrupted=interrupted)


class _Search:
    """The objective, the conversion between inputs and the solver's vectors, and the best input so far."""

    def __init__(
        self,
        forward: Callable[[Tensor], Tensor],
        target: Tensor,
        start: Tensor,
        penalties: list[TotalVariation],
        subspace: SubspacePrior | None,
        box: Box | None,
    ) -> None:
        self.forward, self.target, self.penalties, self.shape = forward, target, penalties, start.shape
        self.scale = max(float((target**2).sum()), 1e-300)
        self.frame = None if subspace is None else subspace.frame(start)
        self.spectrum: Spectrum | None = None
        self.box, self.dtype = box, start.dtype
        self.iterations, self.best_input, self.least, self.least_residual = 0, start, math.inf, math.inf
        self.history: list[float] = []
        self.converged = False

    def run(
        self, x: Tensor, iterations: int, report: Callable[[int, float], None], spectrum: Spectrum | None = None
    ) -> Tensor:
        """Run a part of the descent from ``x`` and return its end point, within the range of pixels."""
        from scipy import optimize

        if self.spectrum is not None:
            self.least = math.inf  # it included the penalty for the range of pixels
        self.spectrum, bounds = spectrum, None
        if self.box is not None and self.frame is None and self.spectrum is None:
            ends = (self.box.end(end, x).double().reshape(-1).numpy() for end in (self.box.low, self.box.high))
            bounds = optimize.Bounds(*ends)
        self.history, self.converged = [], False

        def callback(_: Any) -> None:
            self.iterations += 1
            self.history.append(self.least)
            report(self.iterations, self.least_residual)
            if self.least_residual < FITS or self.gain < GAIN:
                self.converged = True
                raise StopIteration

        vector = self._to_vector(x)
        options: Any = {
            "maxiter": iterations,
            "maxcor": 20,
            "maxfun": 2 * iterations + 20,
            "ftol": 1e-15,
            "gtol": 1e-12,
        }
        minimize: Any = optimize.minimize  # its stubs know no objective that returns its gradient too
        outcome = minimize(
            self.value, vector, jac=True, method="L-BFGS-B", bounds=bounds, callback=callback, options=options
        )
        self.converged |= bool(outcome.success)
        x = self._to_input(torch.from_numpy(outcome.x)).detach()
        return x if self.box is None or spectrum is None else self.box.project(x)

    @property
    def gain(self) -> float:
        """Share of the objective that the last iterations took away; NaN while there are too few of them."""
        if len(self.history) <= WINDOW:
            return math.nan
        before = self.history[-1 - WINDOW]
        return 1 - self.history[-1] / before if before > 0 else 0.0

    def value(self, vector: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Return the objective and its gradient for the solver."""
        with torch.enable_grad():
            variable = torch.from_numpy(vector.copy()).requires_grad_(True)
            x = self._to_input(variable)
            misfit = ((self.forward(x) - self.target) ** 2).sum() / self.scale
            total = misfit + sum(prior.penalty(x) for prior in self.penalties) + self.excess(x)
            (gradient,) = torch.autograd.grad(total, variable)
        value = float(total.detach())
        self.consider(x.detach(), math.sqrt(max(float(misfit.detach()), 0.0)), value)
        if not math.isfinite(value):
            return 1e30, np.zeros_like(vector)
        return value, gradient.double().numpy()

    def excess(self, x: Tensor) -> Tensor:
        """Return the penalty that replaces the range of pixels if the variables are not pixels."""
        if self.spectrum is None or self.box is None:
            return torch.zeros((), dtype=self.dtype)
        low, high = (self.box.end(end, x) for end in (self.box.low, self.box.high))
        outside = torch.relu((x - high) / (high - low)) + torch.relu((low - x) / (high - low))
        return _OUTSIDE * outside.square().mean()

    def residual(self, x: Tensor) -> float:
        with torch.no_grad():
            return math.sqrt(float(((self.forward(x) - self.target) ** 2).sum()) / self.scale)

    def consider(self, x: Tensor, residual: float, value: float = -math.inf) -> None:
        if value < self.least:
            self.best_input, self.least, self.least_residual = x, value, residual

    def best(self, *, interrupted: bool) -> Descent:
        return Descent(
            self.best_input,
            self.least_residual,
            self.iterations,
            interrupted,
            self.converged and not interrupted,
            self.gain,
        )

    def _to_vector(self, x: Tensor) -> NDArray[np.float64]:
        flat = (x if self.spectrum is None else self.spectrum.whiten(x)).detach().reshape(-1)
        if self.frame is not None:
            flat = self.frame[0] @ (flat - self.frame[1])
        return np.asarray(flat.double().numpy())

    def _to_input(self, variable: Tensor) -> Tensor:
        flat = variable.to(self.dtype)
        if self.frame is not None:
            flat = self.frame[1] + self.frame[0].T @ flat
        x = flat.reshape(self.shape)
        return x if self.spectrum is None else self.spectrum.color(x)


class _line:
    """A progress line on stderr with the current error, if requested."""

    def __init__(self, show: bool, total: int) -> None:
        self.show, self.total = show, total

    def __enter__(self) -> Callable[[int, float], None]:
        if not self.show:
            return lambda done, residual: None
        from tqdm import tqdm

        self.bar = tqdm(total=self.total, desc="inverting", unit=" steps", leave=False, file=sys.stderr)

        def report(done: int, residual: float) -> None:
            self.bar.set_postfix_str(f"error {residual:.3g}", refresh=False)
            self.bar.update(done - self.bar.n)

        return report

    def __exit__(self, *_: object) -> None:
        if self.show:
            self.bar.close()


def back_projection(
    forward: Callable[[Tensor], Tensor], target: Tensor, around: Tensor, spectrum: Spectrum | None = None
) -> Tensor:
    """Return the linear estimate of a whole network: the adjoint of its derivative applied to the residual.

    :math:`x_0 + t S^2 J^T(y - f(x_0))` with the t that fits the outputs best in the linear approximation; S is the
    spectrum of images, or 1.
    """
    if spectrum is not None:
        around = spectrum.color(around)
    with torch.enable_grad():
        x = around.detach().clone().requires_grad_(True)
        image = forward(x)
        lack = (target - image).detach()
        (direction,) = torch.autograd.grad(image, x, lack)
    if spectrum is not None:
        direction = spectrum.color(spectrum.color(direction))
    size = max(float(around.abs().max()), 1.0) * 1e-3 / max(float(direction.abs().max()), 1e-300)
    with torch.no_grad():
        slope = (forward(around + size * direction) - image.detach()) / size
        power = float((slope**2).sum())
        step = float((slope * lack).sum()) / power if power > 0 else 0.0
        candidate = around + step * direction
        better = float(((forward(candidate) - target) ** 2).sum()) < float((lack**2).sum())
    return candidate if better else around
