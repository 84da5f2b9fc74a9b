"""Figures and tables of the sources, one file each: what was published, what comes out here, and the picture.

`get` finds one by name, `all_reproductions` lists them; ``get("norms-figure-1").run()`` runs it. Each file has a
``run`` with the published sizes as defaults. Only public names of the library are used: this room is its first user.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
