"""Prior knowledge about inputs: sets to project on, and penalties to shrink by.

`BallPrior`, `Box`, `SubspacePrior`, `Sparse` (in a dictionary) and `Wavelets` are sets; `TotalVariation` is a
penalty. Every prior has ``project(x)``, which the linear estimate and the solvers call; several are applied one after
the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from initscope._utils.libraries import library
from initscope.errors import InputError, check_between, check_count

__all__ = ["BallPrior", "Box", "Prior", "Sparse", "SubspacePrior", "TotalVariation", "Wavelets", "as_priors"]


@runtime_checkable
class Prior(Protocol):
    """An object that moves an input toward the prior; ``step`` is the strength of a penalty."""

    def project(self, x: Tensor, step: float = 1.0) -> Tensor:
        """The nearest member of the set, or the input shrunk by the penalty."""


def as_priors(prior: Any) -> tuple[Prior, ...]:
    """Return a tuple of priors from None, a prior, or several; anything else is refused."""
    if prior is None:
        return ()
    given = tuple(prior) if isinstance(prior, Sequence) and not isinstance(prior, str) else (prior,)
    for item in given:
        if not isinstance(item, Prior):
            names = ", ".join(name for name in __all__ if name[0].isupper() and name != "Prior")
            raise InputError(f"prior {item!r} has no method project(x, step); initscope.invert.priors has {names}")
    return given


@dataclass(frozen=True)
class BallPrior:
    """Inputs of at most this norm."""

    radius: float

    def __post_init__(self) -> None:
        check_between("radius", self.radius, 0.0, math.inf)

    def project(self, x: Tensor, step: float = 1.0) -> Tensor:
        """Scale points outside the ball down to its surface."""
        return x * min(1.0, self.radius / max(float(x.norm()), 1e-300))


@dataclass(frozen=True)
class Box:
    """Entries between ``low`` and ``high``, such as the values of pixels; each is a number or one per channel."""

    low: float | tuple[float, ...]
    high: float | tuple[float, ...]

    def project(self, x: Tensor, step: float = 1.0) -> Tensor:
        """Clip every entry."""
        return torch.minimum(torch.maximum(x, self.end(self.low, x)), self.end(self.high, x))

    def end(self, value: float | tuple[float, ...], x: Tensor) -> Tensor:
        """Return one end for every entry of ``x``."""
        ends = torch.tensor(value, dtype=x.dtype)
        return (ends.reshape(-1, *[1] * (x.dim() - 1)) if ends.dim() else ends).expand(x.shape)


@dataclass(frozen=True, eq=False)
class SubspacePrior:
    """Inputs mean + span of the rows of ``basis``, ``[dimension, entries]``; the rows are made orthonormal."""

    basis: Any
    mean: Any = 0.0

    def frame(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return orthonormal rows and the mean, flat, in the precision of ``x``."""
        rows = torch.as_tensor(np.asarray(self.basis), dtype=torch.float64)
        if rows.dim() < 2 or rows[0].numel() != x.numel():
            raise InputError(
                f"basis of shape {tuple(rows.shape)} must be [dimension, entries] with {x.numel()} entries per row"
            )
        rows = torch.linalg.qr(rows.reshape(len(rows), -1).T)[0].T
        mean = torch.as_tensor(np.asarray(self.mean), dtype=torch.float64).reshape(-1).expand(x.numel())
        return rows.to(x.dtype), mean.to(x.dtype)

    def project(self, x: Tensor, step: float = 1.0) -> Tensor:
        """Project orthogonally."""
        rows, mean = self.frame(x)
        return (mean + rows.T @ (rows @ (x.reshape(-1) - mean))).reshape(x.shape)


@dataclass(frozen=True, eq=False)
class Sparse:
    """At most ``nonzeros`` entries, or atoms: the columns of ``dictionary``, ``[entries, atoms]``."""

    nonzeros: int
    dictionary: Any = None

    def __post_init__(self) -> None:
        check_count("nonzeros", self.nonzeros)

    def project(self, x: Tensor, step: float = 1.0) -> Tensor:
        """Return the largest entries; with a dictionary orthogonal matching pursuit, which may miss the best."""
        flat = x.reshape(-1)
        if self.dictionary is None:
            return _keep_largest(flat, self.nonzeros).reshape(x.shape)
        from sklearn.linear_model import orthogonal_mp

        atoms = np.asarray(self.dictionary, dtype=np.float64)
        lengths = np.linalg.norm(atoms, axis=0)
        used = min(self.nonzeros, *atoms.shape)
        code = orthogonal_mp(atoms / lengths, flat.double().numpy(), n_nonzero_coefs=used)
        return torch.from_numpy(atoms @ (code / lengths)).to(x.dtype).reshape(x.shape)


def _keep_largest(flat: Tensor, count: int) -> Tensor:
    kept = torch.zeros_like(flat)
    chosen = flat.abs().topk(min(count, flat.numel())).indices
    kept[chosen] = flat[chosen]
    return kept


@dataclass(frozen=True)
class Wavelets:
    """Signals or images of which each channel has at most ``nonzeros`` wavelet coefficients (PyWavelets)."""

    nonzeros: int
    wavelet: str = "db2"

    def __post_init__(self) -> None:
        check_count("nonzeros", self.nonzeros)

    def project(self, x: Tensor, step: float = 1.0) -> Tensor:
        """Keep the largest coefficients; nearest for orthogonal wavelets away from the border."""
        pywt = library("pywt")
        pixels = x.detach().double().numpy()
        channels = pixels.reshape(-1, *pixels.shape[-2:]) if pixels.ndim > 1 else pixels[None]
        kept = []
        for channel in channels:
            coefficients = pywt.wavedecn(channel, self.wavelet, mode="periodization")
            flat, slices = pywt.coeffs_to_array(coefficients)
            largest = _keep_largest(torch.from_numpy(flat.reshape(-1)), self.nonzeros).numpy().reshape(flat.shape)
            back = pywt.waverecn(
                pywt.array_to_coeffs(largest, slices, output_format="wavedecn"), self.wavelet, mode="periodization"
            )
            kept.append(back[tuple(slice(side) for side in channel.shape)])
        return torch.from_numpy(np.stack(kept)).to(x.dtype).reshape(x.shape)


@dataclass(frozen=True)
class TotalVariation:
    """Images ``[C, H, W]`` (or ``[H, W]``) with few edges: a penalty of ``weight`` times the norm of the gradient."""

    weight: float = 0.05

    def __post_init__(self) -> None:
        check_between("weight", self.weight, 0.0, math.inf)

    def project(self, x: Tensor, step: float = 1.0) -> Tensor:
        """Apply Chambolle's denoising of scikit-image, the proximal map of the penalty."""
        pixels = x.detach().double().numpy()
        axis = 0 if pixels.ndim > 2 else None
        denoise = library("skimage.restoration").denoise_tv_chambolle
        smooth = denoise(pixels, weight=self.weight * step, eps=1e-5, max_num_iter=50, channel_axis=axis)
        return torch.from_numpy(np.ascontiguousarray(smooth)).to(x.dtype)

    def penalty(self, x: Tensor) -> Tensor:
        """Return the penalty, smoothed at zero so that it has a gradient, per entry."""
        across, down = x[..., :-1, 1:] - x[..., :-1, :-1], x[..., 1:, :-1] - x[..., :-1, :-1]
        return self.weight * torch.sqrt(across**2 + down**2 + 1e-6).sum() / x.numel()
