"""Many runs: a grid in TOML, on local processes or a Dask cluster, into a folder of Parquet that survives kills.

`run_sweep` does all of it. Read `declaration` (what is asked), `runs` (what one run does: a pure function of its row),
`folder` (where results are kept), then `local` and `cluster` (who computes).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
