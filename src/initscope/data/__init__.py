"""Data sets by name, folders of images, arrays; normalization; pairs and triplets.

Start with `load`, `load_any` and `random_pairs`; `ImageSet` is what every loader returns.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
