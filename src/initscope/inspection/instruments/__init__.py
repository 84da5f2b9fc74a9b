"""Instruments that test a question directly: can this head reach a low loss, and does this model learn?

`examine_head` makes the outputs of the last weights free variables (``tape.py`` records the ops after them) and
minimizes the loss (``minimum.py``). `run_trial` trains copies for a few steps on one batch: ``experiment.py`` runs its
parts, and ``trial.py`` holds the results. `examine_pairing` finds the outputs that each target is compared with.
`compare_trials` tries candidate fixes. `infer_loss`, `loss_named` and `optimizer_named` choose the loss and the
optimizer if users give none, or a name.
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
