"""Injectivity of a given ReLU layer x ↦ ReLU(Wx + b), with a proof, and the stability of its inverse.

`decide` returns a witness or a certificate, `verify` checks it independently, `write_proof` and `read_proof` save and
load it. `stability` bounds the Lipschitz constant of the inverse, `deep_collision` decides chains of layers with a
few inputs, `least_active` searches for the fewest active rows, and `thresholds` lists the expansivities at which random
layers become injective. The theory is in `initscope.theory.injectivity`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
