r"""Witness search for large layers: minimize a smoothed count of active rows, then search great circles exactly.

The count #{i : w_i·x > 0} is replaced by a sum of one-sided bumps. A row with positive product h gets the gradient
weight :math:`e^{-h/s}`, so rows with large products are ignored. A row with negative product gets weight only within
about 0.1 s of zero. The scale s shrinks from the standard deviation of the products to a hundredth. Symmetric
smoothings (a Gaussian, a sigmoid) stop at 25 % more active rows. Many restarts run in parallel as one matrix product.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from initscope.errors import check_between, check_count
from initscope.injectivity._layer import Floats, as_layer
from initscope.injectivity._progress import bar
from initscope.injectivity.collision import colliding_pair
from initscope.results import Result

__all__ = ["Search", "find_collision", "least_active"]

Singles = npt.NDArray[np.float32]
LEAST_SCALE = 1e-3
"""With a bias, the homogeneous coordinate stays above this, so that points have norms up to about a thousand."""


@dataclass(frozen=True)
class Search(Result):
    """Best point of a witness search; ``found`` if the rows active there do not span the input space."""

    found: bool
    point: Floats
    fewest_active: int
    rounds: int
    seconds: float
    method: str = "annealed one-sided count"


def find_collision(W: Any, bias: Any = None, *, seconds: float = 60, seed: int = 0, progress: bool = False) -> Search:
    """Look for a point with fewer than n active rows until one is found or ``seconds`` are over (anytime).

    ``seed`` fixes the rounds; the time limit only cuts them off. A search without a result proves nothing.

    >>> import numpy as np
    >>> find_collision(np.random.default_rng(0).standard_normal((200, 50)), seconds=20).found     # α = 4
    True
    """
    weight, bias = as_layer(W, bias)
    seconds = check_between("seconds", seconds, 0.0, np.inf)
    start = time.perf_counter()
    with bar("witness search", "rounds", progress) as update:
        return _Searcher(weight, bias, seed, start, start + seconds).run(update)


def least_active(
    W: Any, bias: Any = None, *, rounds: int = 2, seconds: float = 60, seed: int = 0, progress: bool = False
) -> Search:
    """Return the point with the fewest active rows that the search finds in ``rounds`` rounds of growing length.

    The search does not stop below n active rows. Per input, the number is an upper bound on the ground state e(α) of
    [Maillard2022]_, which full replica symmetry breaking predicts
    (`initscope.theory.injectivity.ground_state_energy`). The result is fixed by ``seed`` unless ``seconds`` cuts the
    rounds off.

    >>> import numpy as np
    >>> least_active(np.random.default_rng(0).standard_normal((120, 30)), rounds=1).fewest_active < 18      # α = 4
    True
    """
    weight, bias = as_layer(W, bias)
    rounds = check_count("rounds", rounds)
    start = time.perf_counter()
    deadline = start + check_between("seconds", seconds, 0.0, np.inf)
    with bar("fewest active rows", "rounds", progress) as update:
        return _Searcher(weight, bias, seed, start, deadline, aim=1).descend(rounds, update)


class _Searcher:
    """A search: the scaled layer, the time limit and the best point so far."""

    def __init__(
        self, weight: Floats, bias: Floats | None, seed: int, start: float, deadline: float, aim: int | None = None
    ) -> None:
        self.weight, self.bias = weight, bias
        self.start, self.deadline = start, deadline
        self.rng = np.random.default_rng(seed)
        lifted = weight if bias is None else np.column_stack([weight, bias])
        lifted = lifted[weight.any(axis=1)]
        self.inputs, self.dim = weight.shape[1], lifted.shape[1]
        self.aim = self.inputs if aim is None else aim
        # Rows of norm √dim: products with a unit vector are of order 1.
        self.rows = lifted / np.linalg.norm(lifted, axis=1, keepdims=True) * np.sqrt(self.dim)
        self.single = self.rows.astype(np.float32)
        self.transposed = np.ascontiguousarray(self.single.T)
        self.batch = int(np.clip(16_000 // len(self.rows), 2, 64))  # large layers: fewer restarts, longer descents
        self.best = self._unit(self.rng.standard_normal((self.dim, 1)))[:, 0]
        self.fewest = int((self.rows @ self.best > 0).sum())

    def _unit(self, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        x = x / np.linalg.norm(x, axis=0)
        if self.bias is not None:
            x[-1] = np.maximum(x[-1], LEAST_SCALE)
        return x

    def run(self, update: Any) -> Search:
        rounds, steps = 0, 300
        while True:
            points = self._anneal(steps)
            rounds += 1
            self._keep(points)
            if self.fewest >= self.aim and time.perf_counter() < self.deadline:
                self._polish(points)
            update(rounds)
            point = self._point()
            collides = colliding_pair(self.weight, self.bias, point) is not None if self._promising() else False
            if collides or time.perf_counter() >= self.deadline:
                seconds = time.perf_counter() - self.start
                return Search(collides, point, self.fewest, rounds, seconds)
            steps = min(3 * steps, 30_000)

    def descend(self, rounds: int, update: Any) -> Search:
        """Run all rounds, even after a collision is found."""
        steps, done = 300, 0
        for _ in range(rounds):
            points = self._anneal(steps)
            self._keep(points)
            self._polish(points)
            done += 1
            update(done)
            if self.fewest < self.aim or time.perf_counter() >= self.deadline:
                break
            steps = min(3 * steps, 30_000)
        point = self._point()
        collides = self._promising() and colliding_pair(self.weight, self.bias, point) is not None
        return Search(collides, point, self.fewest, done, time.perf_counter() - self.start)

    def _point(self) -> Floats:
        return self.best if self.bias is None else np.asarray(self.best[:-1] / self.best[-1])

    def _promising(self) -> bool:
        """Return whether the active rows are too few, or rank deficient (rows of convolutions repeat)."""
        if self.fewest < self.inputs:
            return True
        if self.inputs > 600:
            return False
        active = self.rows[self.rows @ self.best > 0][:, : self.inputs]
        return bool(np.linalg.matrix_rank(active) < self.inputs)

    def _keep(self, points: npt.NDArray[Any]) -> None:
        points = self._unit(points.astype(np.float64))
        counts = (self.rows @ points > 0).sum(axis=0)
        lowest = int(counts.argmin())
        if counts[lowest] <= self.fewest:
            self.fewest, self.best = int(counts[lowest]), points[:, lowest].copy()

    def _anneal(self, steps: int) -> Singles:
        """Run one descent from random points and return the best point of every column; schedules differ by column."""
        batch, rng = self.batch, self.rng
        x: Singles = self._unit(rng.standard_normal((self.dim, batch))).astype(np.float32)
        first = rng.uniform(1.4, 3.0, batch).astype(np.float32)
        tail = rng.uniform(0.08, 0.13, batch).astype(np.float32)
        rate = np.exp(rng.uniform(np.log(0.06), np.log(0.3), batch)).astype(np.float32)
        momentum = rng.choice([0.9, 0.95, 0.97], batch).astype(np.float32)
        velocity = np.zeros_like(x)
        best, counts = x.copy(), np.full(batch, len(self.rows))
        for step in range(steps):
            scale = first * (0.01 / first) ** np.float32(step / steps)
            products = self.single @ x
            if step % 10 == 0 or step > 0.95 * steps:
                now = (products > 0).sum(axis=0)
                better = now < counts
                counts[better], best[:, better] = now[better], x[:, better]
                if counts.min() < self.aim or time.perf_counter() > self.deadline:
                    break
            products /= scale
            exponent = np.where(products > 0, -products, -0.5 * (products / tail) ** 2)
            pull = np.exp(np.maximum(exponent, -30, out=exponent), out=exponent)
            gradient = self.transposed @ pull
            gradient -= x * (x * gradient).sum(axis=0)
            gradient /= np.linalg.norm(gradient, axis=0) + np.float32(1e-12)
            velocity = momentum * velocity - (1 - momentum) * gradient
            x = self._unit(x + rate * scale * velocity)
        return best

    def _polish(self, points: Singles) -> None:
        """Minimize the count exactly on great circles through the best points, toward rows that are barely active."""
        order = np.argsort((self.single @ points > 0).sum(axis=0))
        for column in order[:2]:
            x = self._unit(points[:, column : column + 1].astype(np.float64))[:, 0]
            for _ in range(60):
                if time.perf_counter() > self.deadline:
                    return
                x = self._sweep(x)
                if self.fewest < self.aim:
                    return

    def _sweep(self, x: Floats) -> Floats:
        """Return the best point on 16 great circles through ``x`` (an equal count is accepted)."""
        products = self.rows @ x
        near = np.argsort(np.where(products > 0, products, np.inf))[: 2 * 16]
        chosen = self.rng.choice(near, (16, 2))
        mixture = self.rng.uniform(0.0, 1.0, (16, 1))
        directions = -(mixture * self.rows[chosen[:, 0]] + (1 - mixture) * self.rows[chosen[:, 1]]).T
        directions += 0.3 * self.rng.standard_normal(directions.shape)
        directions -= x[:, None] * (x @ directions)
        directions /= np.linalg.norm(directions, axis=0)
        angles = np.arctan2(-products[:, None], self.rows @ directions) % np.pi
        order = np.argsort(angles, axis=0)
        change = np.where(products > 0, -1, 1)[order]
        counts = (products > 0).sum() + np.cumsum(change, axis=0)
        at, circle = np.unravel_index(int(counts.argmin()), counts.shape)
        sorted_angles = np.append(angles[order[:, circle], circle], np.pi)
        angle = (sorted_angles[at] + sorted_angles[at + 1]) / 2
        moved = self._unit((np.cos(angle) * x + np.sin(angle) * directions[:, circle])[:, None])
        if (self.rows @ moved[:, 0] > 0).sum() > (products > 0).sum():
            return x
        self._keep(moved)
        return np.asarray(moved[:, 0])
