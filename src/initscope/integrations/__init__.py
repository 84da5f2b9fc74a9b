"""Integrations: inspection during training (plain loops, Lightning, Hugging Face), loggers, and a pytest plugin.

`Watch` inspects the model before and during training and warns about new findings; the callbacks call it for you.
Each library is imported only when its callback is created.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
