"""`Spectrum`: variables in which photographs are white, so that a descent finds their coarse shapes first.

The amplitudes of photographs fall as one over the frequency [Field1987]_. Of all inputs that fit a layer's outputs, a
descent in these variables finds one with that spectrum; in pixels it finds one with noise.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from initscope.invert.priors import Box, Prior, TotalVariation

__all__ = ["Spectrum", "spectrum_of"]

_LEAST_SIDE = 8
"""Smallest side in pixels for which the spectrum is used."""


class Spectrum:
    """A symmetric linear map of images ``[..., H, W]`` by a gain for every frequency, of mean square 1."""

    def __init__(self, height: int, width: int, dtype: torch.dtype) -> None:
        down, across = torch.fft.fftfreq(height, dtype=dtype)[:, None], torch.fft.rfftfreq(width, dtype=dtype)[None]
        gain = 1 / torch.clamp(torch.sqrt(down**2 + across**2), min=1 / max(height, width))
        self.side, self.gain = (height, width), gain / gain.square().mean().sqrt()

    def color(self, white: Tensor) -> Tensor:
        """Return images from white variables."""
        image: Tensor = torch.fft.irfft2(torch.fft.rfft2(white) * self.gain, s=self.side)
        return image

    def whiten(self, image: Tensor) -> Tensor:
        """Return white variables from images."""
        white: Tensor = torch.fft.irfft2(torch.fft.rfft2(image) / self.gain, s=self.side)
        return white


def spectrum_of(shape: Sequence[int], priors: tuple[Prior, ...], dtype: torch.dtype) -> Spectrum | None:
    """Return the spectrum of images if the priors are total variation and at most a range, else None."""
    smooth = any(isinstance(prior, TotalVariation) for prior in priors)
    known = all(isinstance(prior, (Box, TotalVariation)) for prior in priors)
    if not smooth or not known or len(shape) < 2 or min(shape[-2:]) < _LEAST_SIDE:
        return None
    return Spectrum(shape[-2], shape[-1], dtype)
