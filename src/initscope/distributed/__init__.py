"""Sweeps of many runs, and data larger than memory, on local processes or a Dask cluster; results survive crashes.

`run_sweep` runs a grid that is declared in TOML: read ``declaration`` (the grid), ``runs`` (a single run),
``folder`` (the results on disk), then ``local`` and ``cluster`` (the workers). `open_blocks` (``sources``) cuts a
.npy file, Parquet or a folder of images into blocks; ``block_map`` runs a function on all of them: codes, neighbors,
mean widths, kernels.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
