"""Inputs back from outputs, and deciding without reconstructing.

`recover` inverts a layer or a model, `invert_layers` shows it in pictures, `linear_estimate` guesses without solving,
`priors` say what inputs look like; `error_rate`, `error_growth`, `sparse_transition` set recovery beside theory
(`initscope.theory.inversion`); `discriminate` classifies from measurements that are too few to reconstruct from.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
