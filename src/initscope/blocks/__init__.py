"""Data larger than memory, block by block, here or on a Dask cluster: codes, neighbours, mean widths, kernels.

`open_blocks` (``sources``) cuts a .npy file, Parquet or a folder of images into blocks that read themselves where they
are needed; ``work`` runs a function on all of them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "codes": ["encode_blocks", "merge_nearest", "nearest_in_blocks"],
        "matrices": ["kernel_in_blocks"],
        "sources": ["Block", "Blocks", "open_blocks"],
        "models": ["ModelName"],
        "widths": ["layer_widths_of_blocks", "mean_width_of_blocks"],
    },
)
