"""`assert_coordinates`: a coordinate check as a test of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from initscope.scaling import CoordinateCheck, DepthCheck

__all__ = ["assert_coordinates"]


def assert_coordinates(check: CoordinateCheck | DepthCheck) -> None:
    """Raise an AssertionError with the findings if the scales of a check depend on the width or depth.

    >>> import torch
    >>> from initscope.scaling import coordinates
    >>> def stack(width):
    ...     return torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.Linear(width, 3))
    >>> assert_coordinates(coordinates(stack, torch.randn(8, 4), widths=(32, 64, 128), steps=0, tolerance=0.6))
    """
    assert check.passes, f"scales depend on the {check.against}: " + "; ".join(check.findings)
