"""The coordinate check with theory: how sizes grow with the width or the depth, predicted, and after a few steps.

`coordinates` builds the model at several widths, `depth_coordinates` at several depths; both predict and measure sizes,
and say in words what does not stay put.
"""

from initscope.coordinates.check import coordinates
from initscope.coordinates.depths import depth_coordinates
from initscope.coordinates.results import CoordinateCheck, CoordinateRow, DepthCheck, judged

__all__ = ["CoordinateCheck", "CoordinateRow", "DepthCheck", "coordinates", "depth_coordinates", "judged"]
