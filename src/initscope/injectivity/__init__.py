"""One given ReLU layer x ↦ ReLU(Wx + b): is it injective, with proof, and how stable is its inverse?

`decide` answers with a witness or a certificate, `verify` checks it independently, `write_proof` and `read_proof` keep
it in a file, `stability` bounds the inverse; `thresholds` gathers where random layers turn injective. The theory is in
`initscope.theory.injectivity`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["bounding", "decision", "frames", "milp", "proofs", "search", "summary", "verification"],
    submod_attrs={
        "decision": ["decide"],
        "frames": ["Stability", "stability"],
        "proofs": ["Proof", "read_proof", "write_proof"],
        "records": ["Certificate", "Decision"],
        "search": ["Search", "find_collision"],
        "summary": ["ThresholdLine", "thresholds"],
        "verification": ["collision_residual", "verify"],
    },
)
