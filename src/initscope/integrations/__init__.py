"""Where people train: a watch over a training run, for a plain loop, Lightning, Hugging Face; logs; pytest.

`Watch` inspects the model at the start and during training and says what appears; the callbacks call it at the right
time. Each library is imported only when its callback is made.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
