"""Instruments that ask a question directly: can this head reach a low loss, and does this model learn?

`examine_head` frees the outputs of the last weights (``tape.py`` finds what follows them) and minimizes the loss over
them (``minimum.py``). `run_trial` trains copies for a few steps on one batch: ``experiment.py`` asks one question after
the other, ``trial.py`` holds the answers. `examine_pairing` finds the outputs that each target is compared with.
`compare_trials` tries candidate fixes. `infer_loss`, `loss_named` and `optimizer_named` say what to train with where
users give no loss, or names.
"""

from initscope.inspection.instruments.budget import Budget, Cost
from initscope.inspection.instruments.comparison import Candidate, CandidateScore, TrialComparison, compare_trials
from initscope.inspection.instruments.experiment import run_trial
from initscope.inspection.instruments.head import Head, HeadOutcome, examine_head
from initscope.inspection.instruments.inferred_loss import InferredLoss, infer_loss
from initscope.inspection.instruments.loss_names import loss_named
from initscope.inspection.instruments.optimizers import optimizer_named
from initscope.inspection.instruments.pairing import Pairing, examine_pairing
from initscope.inspection.instruments.trial import Trial, TrialOutcome

__all__ = [
    "Budget",
    "Candidate",
    "CandidateScore",
    "Cost",
    "Head",
    "HeadOutcome",
    "InferredLoss",
    "Pairing",
    "Trial",
    "TrialComparison",
    "TrialOutcome",
    "compare_trials",
    "examine_head",
    "examine_pairing",
    "infer_loss",
    "loss_named",
    "optimizer_named",
    "run_trial",
]
