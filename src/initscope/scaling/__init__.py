"""Scaling of networks with width and depth: predictions for transformer configurations, and the coordinate check.

`read` reads Hugging Face configurations (a config.json, a dict, ``hf:LlamaConfig``). `outlook` propagates the Gram
matrix of the tokens through all blocks without weights; `compare_initializations` does so for several
initializations. `coordinates` builds a model at several widths, `depth_coordinates` at several depths; both predict
and measure how the RMS of every row grows. Read ``transformer`` and ``coordinate_check`` first.
"""

from initscope.scaling.comparison import InitializationComparison, compare_initializations
from initscope.scaling.coordinate_check import coordinates
from initscope.scaling.coordinate_results import CoordinateCheck, CoordinateRow, DepthCheck
from initscope.scaling.copies import scaled_copies
from initscope.scaling.depth_check import depth_coordinates
from initscope.scaling.exponents import DepthExponents, WidthExponents, depth_exponents, width_exponents
from initscope.scaling.families import read
from initscope.scaling.initializations import INITIALIZATIONS, with_initialization
from initscope.scaling.recursion import BlockRow, Outlook, outlook
from initscope.scaling.transformer import Spreads, Transformer

__all__ = [
    "INITIALIZATIONS",
    "BlockRow",
    "CoordinateCheck",
    "CoordinateRow",
    "DepthCheck",
    "DepthExponents",
    "InitializationComparison",
    "Outlook",
    "Spreads",
    "Transformer",
    "WidthExponents",
    "compare_initializations",
    "coordinates",
    "depth_coordinates",
    "depth_exponents",
    "outlook",
    "read",
    "scaled_copies",
    "width_exponents",
    "with_initialization",
]
