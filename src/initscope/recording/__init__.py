"""One recording of a run: a traced model runs on batches, and small tallies look at every step's output as it is made.

`Recorder` runs, a `Tally` looks; `Batch` is what runs, with the places of both sides of its pairs; `redrawn` gives a
model with weights drawn anew, draw by draw. Prediction and measurement both stand on this and not on each other.
"""

from initscope.recording.batch import Batch, as_pairs, distinct, pair_batches
from initscope.recording.draws import redrawn
from initscope.recording.pair_norms import Sides, as_slices, cosine_of, gap_of, pair_norms
from initscope.recording.recorder import Recorder, Tally
from initscope.recording.steps import NO_VALUES, Mode, couples_samples, output_tensor, set_mode, unit_axes

__all__ = [
    "NO_VALUES",
    "Batch",
    "Mode",
    "Recorder",
    "Sides",
    "Tally",
    "as_pairs",
    "as_slices",
    "cosine_of",
    "couples_samples",
    "distinct",
    "gap_of",
    "output_tensor",
    "pair_batches",
    "pair_norms",
    "redrawn",
    "set_mode",
    "unit_axes",
]
