"""Recovery of inputs from outputs, and classification without reconstruction.

`recover` inverts a layer or a model, and `invert_layers` does so for images and several layers. `linear_estimate`
estimates inputs by one matrix product. `priors` describe the inputs. `error_rate`, `error_growth` and
`sparse_transition` compare recovery with theory (`initscope.theory.inversion`). `discriminate` classifies from
measurements that are too few for reconstruction.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
