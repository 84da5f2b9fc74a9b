"""Random and learned embeddings as scikit-learn estimators, Hamming search, retrieval metrics.

Start with `SignHash` (random, exactly known distribution), `LearnedHash` (trained on labels or pairs) and
`HammingIndex`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
