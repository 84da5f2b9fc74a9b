"""Flips and shifts of a batch of images, each image its own, by tensor operations."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from initscope.errors import InputError, check_count

__all__ = ["Augmentation"]


class Augmentation:
    """Mirror half of the images left to right, move each by up to ``shift`` pixels (the edge is reflected).

    The random numbers come from torch's generator, so that a seeded training run repeats.
    """

    def __init__(self, shape: torch.Size, *, flip: bool, shift: int) -> None:
        self.flip = flip
        self.shift = check_count("shift", shift, least=0)
        if (flip or shift) and len(shape) != 4:
            raise InputError(f"inputs of shape {tuple(shape)} are not images [N, C, H, W]; leave flip and shift out")
        if self.shift and self.shift >= min(shape[2:]):
            raise InputError(f"shift = {shift} must be below the side of the images, {min(shape[2:])}")

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        """Return new tensors; the given images are not changed."""
        if self.flip:
            mirrored = torch.rand(len(images)) < 0.5
            images = torch.where(mirrored[:, None, None, None], images.flip(3), images)
        if self.shift:
            height, width = images.shape[2:]
            padded = F.pad(images, [self.shift] * 4, mode="reflect")
            top, left = torch.randint(0, 2 * self.shift + 1, (2, len(images), 1))
            rows, columns = top + torch.arange(height), left + torch.arange(width)
            item = torch.arange(len(images))[:, None, None]
            # The slice over channels ends up last, which is the layout in which convolutions are fastest.
            images = padded[item, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
        return images
