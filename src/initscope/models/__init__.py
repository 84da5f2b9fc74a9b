"""`load_model`: a torch model from a factory, a file or an architecture string, with weights from a file.

``loading`` recognizes the kind of specification; ``architectures`` has the grammar of strings such as
``conv3x3x64-relu*2``; ``training_loop`` is the one loop that trains a model.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
