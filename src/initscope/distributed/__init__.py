"""Many runs, and data larger than memory: on local processes or on a Dask cluster, with results that survive kills.

`run_sweep` runs a grid that is declared in TOML: read ``declaration`` (what is asked), ``runs`` (what one run does),
``folder`` (where results are kept), then ``local`` and ``cluster`` (who computes). `open_blocks` (``sources``) cuts a
.npy file, Parquet or a folder of images into blocks; ``block_map`` runs a function on all of them: codes, neighbors,
mean widths, kernels.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
