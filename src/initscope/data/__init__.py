"""Data sets by name, files, folders and tables as `ImageSet`; their overview; normalization; pairs and triplets.

Start with `load`, `overview` and `random_pairs`; `ImageSet` is what every loader returns.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
