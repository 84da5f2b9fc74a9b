"""What the theorems say: pure functions of arrays, one per statement, no torch and no I/O.

Read `activations` first (what a layer does to a pair is its dual), then `angles` (dense layers), `images`
(convolutions), `norms` (finite width), `attention`. `concentration` and `tails` serve the planners, `injectivity`,
`inversion` and `separation` serve the packages injectivity, invert and class_geometry. Files with an underscore
compute: `_quadrature` where there is no closed form, `_boxes` for the taps of a filter, `_fused` the same compiled,
`_fast` whether that pays.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
