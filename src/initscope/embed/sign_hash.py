r"""`SignHash`: one random layer as a locality-sensitive hash, :math:`h(u) = \mathrm{sign}(\rho(Au))`.

For Gaussian A the number of unequal bits of a pair at angle θ is Binomial(m, θ/π), exactly. `distortion_report`
compares that distribution with the bits on data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import numpy as np
from sklearn.utils.validation import check_is_fitted

from initscope.embed._base import Hasher, random_generator
from initscope.embed._layer import image_shape_of, linear, local_rows, orthonormal_groups
from initscope.embed.codes import hamming_distance, pack_bits
from initscope.errors import InputError
from initscope.theory.activations import activation as named_activation

if TYPE_CHECKING:
    from initscope.embed.distortion import HammingDistortion

__all__ = ["Directions", "SignHash"]

Directions = Literal["uniform", "data"]


class SignHash(Hasher):
    r"""Signs of one random Gaussian layer: a code whose Hamming distance estimates the angle.

    .. math:: h(u) = \mathrm{sign}(\rho(Au)),\quad a_{ij}\sim N(0, 1),\qquad
              m\,d_H(h(u), h(v)) \sim \mathrm{Binomial}(m, \angle(u,v)/\pi)

    [Bronstein2016]_, [Charikar2002]_. With ``kernel_size`` the layer is convolutional: each bit has its own filter at a
    random position of the image (cyclic), and the distribution is Binomial(m, mean angle of the patches / π).
    With ``orthogonal`` the rows are orthonormal in groups of n, the length of a row of data ("super-bit" hashing
    [Ji2012]_): the mean is still θ/π, the variance is smaller than the binomial one, by little while m ≪ n.

    With ``directions="data"`` the rows are N(0, Σ), Σ the second moments of the training rows (their covariance with
    ``center``): hyperplanes lie across the directions in which the data varies. The distribution stays exactly
    binomial, for the angle with respect to Σ,

    .. math:: \cos\theta_\Sigma = \frac{u^T\Sigma v}{\sqrt{u^T\Sigma u\; v^T\Sigma v}} ,

    This follows because :math:`a = \Sigma^{1/2}g` makes :math:`\langle a, u\rangle = \langle g, \Sigma^{1/2}u\rangle`.

    Parameters
    ----------
    bits : int
        Length m of the code.
    activation : str or callable
        ρ. Any with ρ(t) > 0 exactly for t > 0 gives the same bits; others are refused.
    center : bool
        Subtract the mean of the training data first. Angles are then measured around the mean, as retrieval wants it.
    directions : {"uniform", "data"}
        The distribution of the rows: uniform directions, or the second moments of the data.
    orthogonal : bool
        Orthonormal rows in place of independent ones (with ``directions="data"``: before Σ\ :sup:`1/2` is applied).
    kernel_size : int, optional
        Side of the square filters of a convolutional layer; ``image_shape`` says how rows are images.
    image_shape : tuple, optional
        ``(channels, height, width)`` of a row; by default one channel, and a square if the length allows it, otherwise
        a line.
    packed : bool
        uint8 bytes (default) or one 0/1 column per bit.
    device : str, optional
        Torch device for the matrix product, for example ``"cuda"``; by default NumPy.
    random_state : int, RandomState, Generator or None
        Seed of the layer.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(1).standard_normal((100, 20))
    >>> SignHash(bits=48).fit_transform(X).shape
    (100, 6)
    """

    def __init__(
        self,
        bits: int = 64,
        *,
        activation: str | Callable[[np.ndarray], np.ndarray] = "relu",
        center: bool = False,
        directions: Directions = "uniform",
        orthogonal: bool = False,
        kernel_size: int | None = None,
        image_shape: tuple[int, int, int] | None = None,
        packed: bool = True,
        device: str | None = None,
        random_state: Any = 0,
    ) -> None:
        self.bits = bits
        self.activation = activation
        self.center = center
        self.directions = directions
        self.orthogonal = orthogonal
        self.kernel_size = kernel_size
        self.image_shape = image_shape
        self.packed = packed
        self.device = device
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw the layer for the dimension of ``X`` (and take its mean and second moments, if asked)."""
        check_same_sign(self.activation)
        if self.directions not in get_args(Directions):
            raise InputError(f"directions = {self.directions!r} is unknown; choose one of {get_args(Directions)}")
        bits = self._start()
        X = self._validated(X, reset=True)
        self.mean_ = (
            X.mean(axis=0, dtype=np.float64).astype(X.dtype) if self.center else np.zeros(X.shape[1], dtype=X.dtype)
        )
        self.weights_ = self._rows(bits, X).astype(X.dtype)
        self.thresholds_ = self.weights_ @ self.mean_
        return self

    def _rows(self, bits: int, X: np.ndarray) -> np.ndarray:
        rng = random_generator(self.random_state, "sign hash")
        if self.kernel_size is not None:
            if self.orthogonal or self.directions == "data":
                raise InputError(
                    f"kernel_size = {self.kernel_size} cannot be combined with orthogonal=True or directions='data', "
                    "because filters at different positions read different data; choose one"
                )
            return local_rows(rng, bits, self.kernel_size, image_shape_of(self.image_shape, X.shape[1]))
        if self.directions == "data":
            self.root_ = moment_root(X - self.mean_)
        rows = rng.standard_normal((bits, len(self.root_) if self.directions == "data" else X.shape[1]))
        if self.orthogonal:
            rows = orthonormal_groups(rows)
        return rows @ self.root_ if self.directions == "data" else rows

    def _scores(self, block: np.ndarray) -> np.ndarray:
        return linear(block, self.weights_, self.thresholds_ if self.center else None, self.device)

    def distortion_report(
        self, X: Any, *, pairs: int = 10_000, delta: float = 0.05, random_state: Any = 0
    ) -> HammingDistortion:
        """Compare angles and Hamming distances of random pairs of rows with the exact binomial distribution.

        Orthogonal rows have a smaller variance; the bound and the p-value are then None.

        Parameters
        ----------
        X : array [N, n]
        pairs : int
            Number of random pairs of different rows; no pair occurs twice, so it is at most N(N-1)/2.
        delta : float
            Probability that any of the pairs exceeds the report's ``bound``.
        random_state : int, RandomState, Generator or None
            Seed of the choice of pairs.
        """
        from initscope.embed import distortion

        check_is_fitted(self)
        X = self._validated(X, reset=False)
        chosen = distortion.random_pairs(len(X), pairs, random_generator(random_state, "pairs"))
        rows, left, right = distortion.rows_of_pairs(X, *chosen)
        codes = np.concatenate([pack_bits(self._scores(block)) for _, block in self._blocks(rows)])
        seen = rows - self.mean_
        if self.directions == "data":
            seen = seen @ self.root_.T
        shape = (1, 1, seen.shape[1]) if self.kernel_size is None else image_shape_of(self.image_shape, X.shape[1])
        angles = distortion.mean_patch_angle(seen, left, right, self.kernel_size, shape)
        distances = hamming_distance(codes[left], codes[right])
        by_bit = distortion.unequal_by_bit(codes, left, right, self._bits)
        return distortion.hamming_distortion(
            angles, distances, self._bits, delta=delta, independent=not self.orthogonal, by_bit=by_bit
        )


def moment_root(rows: np.ndarray) -> np.ndarray:
    """Return a matrix R with RᵀR proportional to the second moments of the rows, no larger than it needs to be."""
    rows = rows.astype(np.float64)
    scale = np.abs(rows).max()
    if scale == 0:
        raise InputError(
            f"n_samples = {len(rows)}: the rows do not differ from their mean, there is no direction to take from "
            "them; give rows that vary, or directions='uniform'"
        )
    rows = rows / scale
    if len(rows) <= rows.shape[1]:
        return rows
    values, vectors = np.linalg.eigh(rows.T @ rows)
    return np.asarray(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T)


def check_same_sign(activation: str | Callable[[np.ndarray], np.ndarray]) -> None:
    """Refuse an activation ρ unless ρ(t) > 0 exactly where t > 0: only then are the bits those of sign(Au)."""
    t = np.concatenate([-np.geomspace(8, 1e-6, 200), np.geomspace(1e-6, 8, 200)])
    try:
        values = np.asarray(named_activation(activation)(t) if isinstance(activation, str) else activation(t))
    except TypeError as error:
        raise InputError(
            f"the activation {activation} takes no NumPy array ({error}); give its name, such as 'relu', or a function"
        ) from error
    wrong = t[(values > 0) != (t > 0)]
    if (values > 0).all():
        raise InputError(
            f"activation = {activation!r} is positive on both sides of 0: every bit would be 1; use 'relu'"
        )
    if len(wrong):
        raise InputError(
            f"the activation has the wrong sign at t = {wrong[0]:.3g}: the hash needs ρ(t) > 0 exactly for t > 0, "
            "else the Hamming distance does not follow the angle alone"
        )
