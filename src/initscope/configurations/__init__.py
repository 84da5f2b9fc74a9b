"""Transformers from their configuration alone: what they do to tokens at the start, without any weights.

`read` understands Hugging Face configurations (a config.json, a dict, ``hf:LlamaConfig``); `outlook` runs the tokens'
Gram matrix through all blocks; `compare_starts` puts several initialisations side by side. Read `transformer.py` first.
"""

from initscope.configurations.comparison import StartComparison, compare_starts
from initscope.configurations.copies import scaled_copies
from initscope.configurations.exponents import DepthExponents, WidthExponents, depth_exponents, width_exponents
from initscope.configurations.families import read
from initscope.configurations.recursion import BlockRow, Outlook, outlook
from initscope.configurations.starts import STARTS, with_start
from initscope.configurations.transformer import Spreads, Transformer

__all__ = [
    "STARTS",
    "BlockRow",
    "DepthExponents",
    "Outlook",
    "Spreads",
    "StartComparison",
    "Transformer",
    "WidthExponents",
    "compare_starts",
    "depth_exponents",
    "outlook",
    "read",
    "scaled_copies",
    "width_exponents",
    "with_start",
]
