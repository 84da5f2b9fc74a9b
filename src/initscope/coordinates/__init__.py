"""The coordinate check with theory: how the size of every row grows with the width, predicted, and after a few steps.

`coordinates` builds the model at several widths, predicts and measures sizes, and says in words what does not stay put.
"""

from initscope.coordinates.check import coordinates
from initscope.coordinates.results import CoordinateCheck, CoordinateRow, judged

__all__ = ["CoordinateCheck", "CoordinateRow", "coordinates", "judged"]
