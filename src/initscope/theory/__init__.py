"""The theorems: pure functions of arrays, one per statement, without torch and without I/O.

Read `activations` first (the dual of an activation is its effect on a pair), then `angles` (dense layers), `images`
(convolutions), `norms` (finite width), `attention`. `concentration` and `tails` serve the planners, `injectivity`,
`inversion` and `separation` serve the packages injectivity, invert and class_geometry. Files with an underscore contain
numerical methods: `_quadrature` for activations without a closed form, `_boxes` for the taps of a filter, `_fused` for
the same in compiled form, `_fast` for the choice between both.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
