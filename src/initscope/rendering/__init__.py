"""What draws: tables for the terminal, pictures, and the one-file page of a comparison."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
