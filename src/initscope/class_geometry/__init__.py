"""Class geometry: how training changes distances in a network, at random points and at class boundaries.

`train` writes checkpoints at chosen test errors. `separations` measures the same triplets in several networks
(`separation`: in one network). `collapse` and `angle_distortion` measure every layer. Read ``ratios`` first.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
