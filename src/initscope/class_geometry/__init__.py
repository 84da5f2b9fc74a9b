"""Classes: what training changes in the geometry of a network, at random points and at class boundaries.

`train` makes checkpoints at chosen test errors, `separations` sends the same triplets through several of them
(`separation`: through one), `collapse` and `angle_distortion` look at every layer. Read ``ratios`` first.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
