"""Reproductions of figures, tables and statements of the sources, one file each, with the published numbers.

`get` returns one by name, `all_reproductions` lists them, and ``get("norms-figure-1").run()`` runs one. Each file has a
function ``run`` with the published sizes as defaults. This package uses only the public names of the library.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
