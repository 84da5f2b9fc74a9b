"""What draws: tables for the terminal, pictures, and the one-file page of a comparison."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={"figures": ["angle_figure"], "page": ["render_page", "write_page"]},
)
