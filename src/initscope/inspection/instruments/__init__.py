"""Instruments that ask a question directly: can this head reach a low loss, and does this model learn?

`examine_head` frees the outputs of the last weights (``tape.py`` finds what follows them) and minimises the loss over
them (``minimum.py``). `run_trial` trains copies for a few steps on one batch: ``experiment.py`` asks one question after
the other, ``trial.py`` holds the answers.
"""

from initscope.inspection.instruments.budget import Budget, Cost
from initscope.inspection.instruments.experiment import run_trial
from initscope.inspection.instruments.head import Head, HeadOutcome, examine_head
from initscope.inspection.instruments.inference import InferredLoss, infer_loss
from initscope.inspection.instruments.trial import Trial, TrialOutcome

__all__ = [
           "Budget",
           "Cost",
           "Head",
           "HeadOutcome",
           "InferredLoss",
           "Trial",
           "TrialOutcome",
           "examine_head",
           "infer_loss",
           "run_trial",
]  # fmt: skip
