"""A torch model from one word: a factory, a file, an architecture string (`load_model`), weights from a file.

``loading`` tells the kinds of words apart; ``architectures`` has the grammar of strings such as ``conv3x3x64-relu*2``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
