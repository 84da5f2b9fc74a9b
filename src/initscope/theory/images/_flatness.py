"""Flatness of the patches of images: a number that explains why a ReLU layer hardly changes the cosine of photographs.

`flatness_map` is one map per image, `flatness_bound` a bound for a pair from two maps, `data_flatness` a bound for all
pairs of a data set from one number per image.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from initscope.errors import InputError
from initscope.results import Result, rows_of_columns
from initscope.theory._arrays import Array, namespace
from initscope.theory._fast import as_numpy
from initscope.theory.angles import psi
from initscope.theory.images._channels import standard_error
from initscope.theory.images._layer import norms
from initscope.theory.images._windows import Windows, check_pairs

__all__ = ["DataFlatness", "FlatnessBound", "data_flatness", "flatness_bound", "flatness_map", "flatness_scores"]

_BEND = 2.0287578381104342
"""Where ψ turns from convex to concave: sin t + t cos t = 0."""
_CHUNK = 1 << 17
"""Map entries worked on at once."""


def flatness_map(images: Array, *, kernel_size: int | Sequence[int]) -> Array:
    r"""Return the angle φ between each patch and the constant patch, in radians, ``[n, …]``: one map for each image.

    .. math:: \varphi_{ij} = \angle([x]_{ij}, \mathbf 1), \qquad
              \cos\varphi_{ij} = \frac{\sum_t [x]_{ij,t}}{\sqrt{r^2 d}\,\|[x]_{ij}\|}

    Images ``[n, channels, …]``, an r×r filter, cyclic, stride 1. 0 where the filter sees one shade of gray (and where
    it sees nothing at all: such patches change nothing), so that it says where an image consists of the "approximately
    monochromatic patches" to which [Nachum2022]_ section 1 attributes its figure 1. A patch of a pure color, constant
    but in only one channel of three, has 54.7°.

    >>> import numpy as np
    >>> edge = np.zeros((1, 1, 8, 8))
    >>> edge[..., 4:] = 1
    >>> np.degrees(flatness_map(edge, kernel_size=3)[0, 0]).round(1).tolist()      # between black and white, cyclic
    [54.7, 0.0, 0.0, 54.7, 35.3, 0.0, 0.0, 35.3]
    """
    return _patches(images, kernel_size)[1]


def _patches(images: Array, kernel_size: int | Sequence[int]) -> tuple[Array, Array, int]:
    """Return norms of the patches, their angles to the constant patch, and the number of taps."""
    xp, images, _ = check_pairs(images, images)
    images = xp.astype(images, xp.float64)
    windows = Windows.read(images.shape[2:], kernel_size)
    total = windows.sum(xp.sum(images, axis=1))
    squares = windows.sum(xp.sum(images**2, axis=1))
    if not bool(xp.all(xp.isfinite(squares))):
        raise InputError("an image holds NaN, infinity or values whose squares overflow; clean or rescale the images")
    rest = windows.taps * images.shape[1] * squares - total**2
    angle = xp.atan2(xp.sqrt(xp.where(rest > 0, rest, xp.zeros_like(rest))), total)
    return xp.sqrt(squares), xp.where(squares > 0, angle, xp.zeros_like(angle)), windows.taps


@dataclass(frozen=True)
class FlatnessBound(Result):
    """Bounds of `flatness_bound`, a pair each: 0 ≤ E⟨R,R⟩ - ⟨x,y⟩ ≤ ``inner``, 0 ≤ ρ̄_out - ρ_in ≤ ``cosine``."""

    inner: Array
    cosine: Array

    def table(self) -> list[dict[str, Any]]:
        """Return one row per pair."""
        return rows_of_columns(self)


def flatness_bound(x: Array, y: Array, *, kernel_size: int | Sequence[int]) -> FlatnessBound:
    r"""Return by how much one ReLU layer can raise the inner product of two images, from the flatness of their patches.

    .. math:: 0 \le E\langle R(F*x),R(F*y)\rangle - \langle x,y\rangle
              \le \frac1{r^2}\sum_{ij}\|[x]_{ij}\|\|[y]_{ij}\|\,\psi\bigl(\min(\varphi^x_{ij}+\varphi^y_{ij}, \pi)\bigr)

    with the angles φ of `flatness_map`, an r×r filter of variance 2/r², cyclic, stride 1. The angle of two patches is
    at most φ_x + φ_y, through the constant patch, and ψ increases; without negative values no angle exceeds π/2, which
    then replaces π. It is the extension to gray images that [Nachum2022]_ section 4.1 asks for, in the words that the
    paper explains its figure 1 with. On photographs it is within a factor of about 2 of the exact value, while
    `excess_bound` is far above it: ψ(θ) ≈ θ³/(3π) for small angles, so nearly flat patches contribute very little.

    >>> import numpy as np
    >>> ramp = np.linspace(1, 2, 32).reshape(1, 1, 1, 32) * np.ones((1, 1, 32, 1))
    >>> bound = flatness_bound(ramp, ramp.swapaxes(2, 3), kernel_size=3)
    >>> bool(bound.cosine[0] < 0.002)                 # flat but for the seam, where the image wraps around
    True
    """
    xp, norm_x, norm_y = norms(x, y)
    size_x, angle_x, taps = _patches(x, kernel_size)
    size_y, angle_y, _ = _patches(y, kernel_size)
    x, y = (xp.reshape(side, (side.shape[0], -1)) for side in namespace(x, y)[1:])
    signed = xp.any((x < 0) | (y < 0), axis=1)
    limit = xp.where(signed, xp.full_like(norm_x, math.pi), xp.full_like(norm_x, math.pi / 2))
    limit = xp.astype(xp.reshape(limit, (-1,) + (1,) * (angle_x.ndim - 1)), angle_x.dtype)
    shares = size_x * size_y * psi(xp.minimum(angle_x + angle_y, limit)) / taps
    inner = xp.sum(shares, axis=tuple(range(1, shares.ndim)))
    return FlatnessBound(inner, inner / (norm_x * norm_y))


def flatness_scores(images: Array, *, kernel_size: int | Sequence[int]) -> Array:
    r"""Return a number S per image with :math:`\bar\rho_{out} - \rho_{in} \le (S_x + S_y)/2` for every pair.

    .. math:: S_x = \Bigl(\sum_{ij} w_{ij}^2\, g(2\varphi_{ij})^2\Bigr)^{1/2}, \qquad
              w_{ij} = \frac{\|[x]_{ij}\|}{r\|x\|},\ \sum w_{ij}^2 = 1

    g is ψ, continued by its tangent from the point where ψ is no longer convex (t ≈ 2.03). It is a convex function
    above ψ(min(t, π)), so :math:`\psi(\varphi^x+\varphi^y) \le (g(2\varphi^x) + g(2\varphi^y))/2`; Cauchy–Schwarz then
    separates the images. It is looser than `flatness_bound`, but needs only one number per image. Beyond the sources;
    [Nachum2022]_ section 1 says in words that natural images are nearly kept.

    >>> import numpy as np
    >>> flatness_scores(np.ones((1, 1, 4, 4)), kernel_size=3).tolist()
    [0.0]
    """
    xp, weight, excess, _ = _weights(images, kernel_size)
    return xp.sqrt(xp.sum((weight * excess) ** 2, axis=tuple(range(1, weight.ndim))))


def _weights(images: Array, kernel_size: int | Sequence[int]) -> tuple[Any, Array, Array, Array]:
    """Return the namespace, and maps of the shares w, of g(2φ) and of φ."""
    xp, norm, _ = norms(images, images)
    size, angle, taps = _patches(images, kernel_size)
    double, bend = 2 * angle, xp.full_like(angle, _BEND)
    slope = _BEND * math.sin(_BEND) / math.pi
    beyond = xp.where(double > bend, double - bend, xp.zeros_like(double))
    weight = size / xp.reshape(math.sqrt(taps) * norm, (-1,) + (1,) * (size.ndim - 1))
    return xp, weight, psi(xp.minimum(double, bend)) + slope * beyond, angle


@dataclass(frozen=True)
class DataFlatness(Result):
    """Bounds of `data_flatness` for all pairs of a data set."""

    images: int
    """Images that count; ``skipped`` ones are zero and have no angle."""
    skipped: int
    kernel_size: int | tuple[int, ...]
    angle: float
    """Root mean square, weighted by energy, of the angle between a patch and a constant one, in degrees."""
    angle_standard_error: float
    mean_excess: float
    """The mean of ρ̄_out - ρ_in over all pairs of the set is at most this."""
    mean_excess_standard_error: float
    largest_excess: float
    """No pair of the set exceeds this: half the sum of the two largest `flatness_scores`."""

    def table(self) -> list[dict[str, Any]]:
        """Return one row per statement."""
        rows = (
            ("angle of a patch to a constant one (degrees)", self.angle, self.angle_standard_error),
            ("mean change of the cosine over all pairs, at most", self.mean_excess, self.mean_excess_standard_error),
            ("change of the cosine of any pair, at most", self.largest_excess, None),
        )
        return [{"statement": name, "value": value, "standard_error": error} for name, value, error in rows]


def data_flatness(images: Array, *, kernel_size: int | Sequence[int]) -> DataFlatness:
    r"""Return how much one ReLU layer can change *all* cosines of data ``[n, channels, …]``, without forming pairs.

    With w and g of `flatness_scores`, W and G the sums over images of the maps w and w·g(2φ),

    .. math:: \frac{1}{n(n-1)}\sum_{x\ne y} (\bar\rho_{out} - \rho_{in})
              \le \frac{1}{n(n-1)}\sum_{ij}\Bigl[W_{ij}G_{ij} - \sum_x w_{ij}^2\, g(2\varphi_{ij})\Bigr],

    two passes over the images for all n(n-1)/2 pairs. Standard errors are those for images sampled from a larger set
    (of a mean over pairs: twice that of each image's part). Cyclic, stride 1, He weights. Beyond the sources: figure 1
    of [Nachum2022]_ as a statement about a data set.

    >>> import numpy as np
    >>> flat = np.ones((4, 1, 8, 8)) * np.arange(1.0, 5.0).reshape(4, 1, 1, 1)
    >>> data_flatness(flat, kernel_size=3).largest_excess
    0.0
    """
    xp, images, _ = check_pairs(images, images)
    living = [k for k in range(images.shape[0]) if bool(xp.any(images[k] != 0))]
    if len(living) < 2:
        raise InputError(f"{len(living)} of {images.shape[0]} images are not zero; a pair needs two")
    step = max(1, _CHUNK // math.prod(images.shape[2:]))

    def maps() -> Iterator[tuple[npt.NDArray[Any], ...]]:
        for start in range(0, len(living), step):
            chunk = xp.stack([images[k] for k in living[start : start + step]])
            _, weight, excess, angle = _weights(chunk, kernel_size)
            yield tuple(
                as_numpy(values).reshape(len(values), -1) for values in (weight, weight * excess, weight * angle)
            )

    sums = [(w.sum(axis=0), g.sum(axis=0), np.linalg.norm(g, axis=1), (a**2).sum(axis=1)) for w, g, a in maps()]
    total, raised = (np.sum([part[index] for part in sums], axis=0) for index in (0, 1))
    scores, squares = (np.concatenate([part[index] for part in sums]) for index in (2, 3))
    # Each image's part: its mean over the partners, ½ Σ_ij (w g (W - w) + w (G - w g)) / (n - 1).
    parts = np.concatenate([(g @ total + w @ raised) / 2 - (w * g).sum(axis=1) for w, g, _ in maps()])
    parts /= len(living) - 1
    root = math.sqrt(squares.mean())
    return DataFlatness(
        images=len(living),
        skipped=images.shape[0] - len(living),
        kernel_size=kernel_size if isinstance(kernel_size, int) else tuple(kernel_size),
        angle=math.degrees(root),
        angle_standard_error=math.degrees(standard_error(squares) / (2 * root)) if root else 0.0,
        mean_excess=float(parts.mean()),
        mean_excess_standard_error=2 * standard_error(parts),
        largest_excess=float(np.sort(scores)[-2:].mean()),
    )
