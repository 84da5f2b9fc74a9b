"""A torch model from one word: a factory, a file, an architecture string (`load_model`), weights from a file."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["architectures"],
    submod_attrs={"loading": ["load_model", "load_weights"]},
)
