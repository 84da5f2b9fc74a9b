"""One given ReLU layer x ↦ ReLU(Wx + b): is it injective, with proof, and how stable is its inverse?

`decide` answers with a witness or a certificate, `verify` checks it independently, `write_proof` and `read_proof` keep
it in a file, `stability` bounds the inverse, `deep_collision` looks at several layers of two inputs, `least_active` for
the fewest active rows; `thresholds` gathers where random layers turn injective. The theory is in
`initscope.theory.injectivity`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
