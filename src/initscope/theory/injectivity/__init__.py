"""When is a random ReLU layer injective? Thresholds of the expansivity α = m/n by every method, and finite sizes.

Read in this order: `bounds` and `gordon` (rigorous), `cones` and `euler` (integral geometry), `replica` (RS and 1-RSB),
`parisi_functional`, `parisi` and `parisi_grid` (full RSB), `finite_temperature`, `finite_size` (probability at given
m, n), `planning` (widths).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
