"""Integrations: inspection during training, loggers, a pytest plugin, and tools for coding assistants.

`Watch` inspects the model before and during training and warns about new findings; the callbacks call it for you.
Each library is imported only when its callback is created.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
