"""Instruments that ask a question directly: can this head reach a low loss, and does this model learn?

`examine_head` frees the outputs of the last weights and minimises the loss over them.
"""

from initscope.inspection.instruments.head import Head, HeadOutcome, examine_head

__all__ = ["Head", "HeadOutcome", "examine_head"]
