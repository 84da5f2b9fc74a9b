"""Real data by name, folders of images, arrays; normalisation; pairs and triplets.

Start with `load`, `load_any` and `random_pairs`; `ImageSet` is what every loader returns.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "arrays": ["load_array"],
        "checks": ["check_images", "check_pairs"],
        "folders": ["file_names", "load_folder"],
        "gist_descriptor": ["gist", "mirrored_gist"],
        "image_set": ["ImageSet"],
        "named": ["load", "names"],
        "normalization": ["normalize"],
        "pairs": [
            "Pairs",
            "Triplets",
            "between_class_pairs",
            "gaussian_pairs",
            "random_pairs",
            "random_triplets",
            "within_class_pairs",
        ],
        "sources": ["load_any"],
        "text": ["text_pairs", "text_set", "text_tokens"],
    },
)
