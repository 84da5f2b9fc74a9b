"""The evidence for checks: what an observation says about angles, scales, gradients and ranks, row by row.

Rows that do not carry the signal (see `Signal`) hold NaN: the inside of norms, masks, scores, gates, branches.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from typing import Literal

import numpy as np
import numpy.typing as npt

from initscope.geometry import Floats, median_angle, median_over_pairs
from initscope.inspection.dependence import Dependence
from initscope.inspection.facts import Facts
from initscope.inspection.inputs import InputFacts
from initscope.inspection.instruments import Head, Pairing, Trial
from initscope.inspection.instruments.curves import LEARNS
from initscope.inspection.one_step import Probe
from initscope.inspection.signal import Signal, signal_of
from initscope.inspection.weights import WeightFacts
from initscope.measurement.observation import Observation

__all__ = ["FEW_UNITS", "LEARNS", "Evidence"]

FEW_UNITS = 4
"""Layers of so few units have neither angles nor a rank worth judging."""
_BEFORE_WEIGHTS = ("input", "embedding", "norm", "merge", "scaling", "movement", "bookkeeping", "constant")
"""Roles of what may come before the first weights without being a layer of its own."""
_FLAT = 0.1
"""Share of the last layer's outputs without a gradient above which this explains a floor of the loss."""
_PARALLEL = 1e-3
"""Degrees between samples below which an input is the same for all of them."""


@dataclass(frozen=True)
class Evidence:
    """What `observe` saw, as the numbers that checks read: arrays with a value for every row."""

    seen: Observation
    facts: Facts = field(default_factory=Facts)

    @property
    def step(self) -> Probe:
        """One step of training; checks that read it declare ``parameters``."""
        return self.facts.step or Probe()

    @property
    def depends(self) -> Dependence:
        """What outputs depend on; checks that read it declare ``dependence``."""
        return self.facts.dependence or Dependence()

    @property
    def weights(self) -> WeightFacts:
        """What the weights say; checks that read it declare ``weights``."""
        return self.facts.weights or WeightFacts({}, {}, {}, {})

    @property
    def data(self) -> InputFacts:
        """What the inputs say; checks that read it declare ``data``."""
        return self.facts.data or InputFacts(float("nan"), 0, 0, ())

    @property
    def head(self) -> Head:
        """What the head and the loss allow; checks that read it declare ``head``."""
        return self.facts.head or Head("not examined")

    @property
    def targets_vary(self) -> bool:
        """Whether the loss reads the targets, or they are one tensor of values that are not all equal."""
        targets = self.seen.targets
        varied = hasattr(targets, "flatten") and targets.numel() > 1 and bool((targets != targets.flatten()[0]).any())
        return varied or self.facts.reading.reads_targets

    @property
    def pairing(self) -> Pairing:
        """Which outputs targets are compared with; checks that read it declare ``pairing``."""
        return self.facts.pairing or Pairing()

    @property
    def trial(self) -> Trial:
        """A few steps of training; checks that read it declare ``trial``."""
        return self.facts.trial or Trial("not judged")

    @cached_property
    def limiting_ops(self) -> list[int]:
        """The ops after the last weights that bound or drop outputs."""
        rows, signal = self.seen.rows, self.signal
        after = [index for index in sorted(signal.carrying) if signal.head < index <= signal.output]
        return [index for index in after if rows[index].traits.drops or any(np.isfinite(rows[index].traits.bounds))]

    @property
    def limiting_op(self) -> int:
        """The last op after the last weights that bounds or drops outputs; the output if there is none."""
        return self.limiting_ops[-1] if self.limiting_ops else self.signal.output

    @property
    def last_layers(self) -> tuple[str, ...]:
        """The module of the last weights; nothing where not all of the signal passes one."""
        head = self.signal.head
        return (self.seen.rows[head].within,) if head < len(self.seen.rows) else ()

    @property
    def flat_outputs(self) -> bool:
        """Whether only missing gradients, as of a ReLU at zero, keep the head from targets within its range."""
        head = self.head
        return head.outcome == "floor" and head.flat > _FLAT and head.targets_outside == 0 and not head.random

    @property
    def above_constant(self) -> bool:
        """Whether the loss of the head stays above the best constant prediction, and flat outputs explain it."""
        head = self.head
        known = head.reached is not None and head.constant is not None and head.outcome != "not examined"
        scale = abs(head.constant or 0.0) + 1e-6
        return known and (head.reached or 0.0) > (head.constant or 0.0) + _FLAT * scale and head.flat > _FLAT

    def removal(self, index: int) -> str:
        """Return the line that replaces the module of a row by the identity; empty if the row is only a part of one."""
        row = self.seen.rows[index]
        module = row.within == row.layer and row.role != "weights"
        return f'model.set_submodule("{row.layer}", torch.nn.Identity())' if module else ""

    @property
    def removals(self) -> list[str]:
        """Lines that replace one of several limiting ops by the identity, the last first, or all of them."""
        lines = [line for index in reversed(self.limiting_ops) if (line := self.removal(index))]
        return [*lines, "; ".join(reversed(lines))] if len(lines) > 1 else lines

    @cached_property
    def missing(self) -> dict[str, tuple[str, str, str]]:
        """Instruments that did not run: what they look at, the reason, and which arguments would run them."""
        facts, found = self.facts, dict[str, tuple[str, str, str]]()
        if facts.step is None:
            no_step = ("gradients and dependence", "no training step was run", "gradients=True")
            found |= dict.fromkeys(("parameters", "dependence"), no_step)
        if not np.isfinite(self.seen.gradient_ratio).any():
            found["gradients"] = found.get("parameters", ("gradients", "no backward pass worked", ""))
        if facts.weights is None:
            found |= dict.fromkeys(("weights", "data"), ("weights and data", "only an observation was judged", ""))
        if facts.step is not None and facts.step.failed:
            found["parameters"] = ("which parameters learn", "a training step raised an exception", "")
        if self.seen.targets is None:
            found["targets"] = found["loss"] = ("the loss", "no targets were given", "targets=")
        elif not facts.loss_name:
            found["loss"] = ("the loss", "no loss was given and none could be inferred", "loss=")
        if "loss" in found:
            found["head"] = found["pairing"] = found["loss"]
        elif self.head.outcome == "not examined":
            found["head"] = ("the loss", self.head.reason or "it was not examined", "")
        if facts.trial is None or facts.trial.outcome == "failed":
            reason = "no trial was run" if facts.trial is None else facts.trial.reason
            found["trial"] = found.get("loss", ("learning", reason, "trial=True"))
        elif facts.trial.assumed:
            found["rate"] = ("the learning rate", "no optimizer was given", "optimizer=, lr=")
        found.setdefault("rate", found["trial"]) if "trial" in found else None
        return found

    @property
    def harm(self) -> Literal["", "none", "proven"]:
        """Return the harm that the trial shows.

        "none" if the model learns in the planned steps. "proven" if it learns at no rate, or gets no further than a
        linear model.
        """
        trial = self.trial
        if trial.prompt and not trial.linear:
            return "none"
        return "proven" if trial.linear or self.stuck_share is not None else ""

    @property
    def stuck_share(self) -> float | None:
        """Share of the possible fall of the loss at the best rate, if the trial shows that training ends there."""
        trial = self.trial
        ended = trial.outcome in ("flat", "diverges") and trial.learn is not None
        return trial.learn if ended and (trial.learn or 0.0) < LEARNS else None

    @cached_property
    def head_is_zero(self) -> bool:
        """Whether the last weights, or a table, start at zero, so that outputs are equal on purpose."""
        head = self.signal.head
        layer = head < len(self.seen.rows) and self.seen.rows[head].within in self.weights.zero_layers
        return layer or bool(self.after_zeros[self.signal.output])

    @property
    def first_gradient(self) -> float:
        """Gradient of the first layer over that of the last which has one."""
        known = self.gradients[np.isfinite(self.gradients)]
        positive = known[known > 0]
        return float(known[0] / positive[-1]) if len(positive) else 0.0

    @cached_property
    def signal(self) -> Signal:
        """The graph of the rows."""
        rows, angles = self.seen.rows, median_over_pairs(self.seen.angle)
        varied = np.flatnonzero(angles > _PARALLEL).tolist()
        return signal_of(rows, self.seen.output % len(rows), varied)

    @cached_property
    def start(self) -> int:
        """The row at which real values begin."""
        return self.signal.starts[0] if self.signal.starts else 0

    @cached_property
    def varied(self) -> npt.NDArray[np.bool_]:
        """Pairs whose first sample is not zero, so that there is a scale to compare with."""
        return np.asarray(np.isfinite(self.seen.norm_ratio[self.start]))

    @property
    def constant(self) -> bool:
        """Whether the samples are all equal, so that angles, ranks and units say nothing."""
        return bool(self.seen.mean_width[self.start] >= 0 and np.isnan(self.seen.effective_rank[self.start]))

    @cached_property
    def main_path(self) -> npt.NDArray[np.bool_]:
        """Rows that all of the signal passes."""
        return self.signal.mask(self.signal.main_path)

    @cached_property
    def hidden(self) -> npt.NDArray[np.bool_]:
        """Rows before the head."""
        return np.asarray(np.arange(len(self.seen.rows)) < self.signal.head)

    @cached_property
    def after_zeros(self) -> npt.NDArray[np.bool_]:
        """Rows that depend on an embedding of zeros."""
        weights, after = self.facts.weights, set[int]()
        tables = frozenset[str]() if weights is None else weights.zero_tables
        for index, row in enumerate(self.seen.rows if tables else ()):
            if row.within in tables or not after.isdisjoint(row.reads):
                after.add(index)
        return self.signal.mask(frozenset(after))

    @cached_property
    def carrying(self) -> npt.NDArray[np.bool_]:
        """Rows that carry the signal, branches too."""
        return self.signal.mask(self.signal.carrying)

    @cached_property
    def carrying_or_gates(self) -> npt.NDArray[np.bool_]:
        """Rows that carry the signal, and gates inside of loops over time."""
        return np.asarray(self.carrying | self.signal.mask(self.signal.dangling))

    @cached_property
    def scales(self) -> Floats:
        """Median scale per unit on the main path, over that of the last row before any weights.

        For most models that is the input. An embedding that a norm follows may have any scale.
        """
        plain = list(takewhile(self._is_plain, self.signal.main_path))
        first = plain[-1] if plain and self._from_input[plain[-1]] > 0 else self.start
        scales = self._from_input / self._from_input[first]
        scales[:first] = np.nan
        return np.asarray(scales)

    def _is_plain(self, index: int) -> bool:
        made_of = [self.seen.rows[other] for other in (*self.signal.before(index), index)]
        return all(row.role in _BEFORE_WEIGHTS or not row.shape for row in made_of)

    @cached_property
    def entering_scale(self) -> float:
        """Scale per unit of what the first weights read, over the input's; 1 if it is not known."""
        scale = float(median_over_pairs(self.seen.rms_ratio[[self.entering_weights]][:, self.varied])[0])
        return scale if np.isfinite(scale) else 1.0

    @property
    def entering_angle(self) -> float:
        """Median angle in degrees of what the first weights read; 0 if it is not known."""
        angle = float(median_angle(self.seen.angle)[self.entering_weights])
        return angle if np.isfinite(angle) else 0.0

    @cached_property
    def _from_input(self) -> Floats:
        scales = np.where(self.main_path, median_over_pairs(self.seen.rms_ratio[:, self.varied]), np.nan)
        masked = np.isinf(scales) & self.signal.mask(self.signal.read_by_bounded)  # -∞ before a softmax is intended
        return np.where(masked, np.nan, scales)

    @property
    def frozen_random(self) -> bool:
        """Whether frozen layers hold random weights, which is hardly ever intended."""
        return self.step.frozen_random

    @property
    def head_gain(self) -> float:
        """Scale of the outputs of the last weights over that of their inputs; NaN if some signal bypasses them."""
        head = self.signal.head
        before = [index for index in self.signal.main_path if index < head]
        if head >= len(self.seen.rows) or not before:
            return float("nan")
        return float(self.scales[head] / self.scales[before[-1]]) if self.scales[before[-1]] > 0 else float("nan")

    @cached_property
    def gradients(self) -> Floats:
        """Median weight gradient of the layers that have one, all of them."""
        return median_over_pairs(self.seen.gradient_ratio[:, self.varied])

    @cached_property
    def gradient_by_block(self) -> tuple[Floats, list[int]]:
        """Gradient of the signal after each block of the main path that has weights, before the head, and the rows.

        ‖∂ℓ/∂h‖‖h‖ does not change if weights are scaled and later weights are scaled back. A branch that is nearly zero
        on purpose (layer scale, zero gammas) does not change it either.
        """
        passed = self.seen.signal_gradient
        if passed is None:
            return np.array([]), []
        medians = median_over_pairs(passed[:, self.varied])
        blocks = self.signal.blocks
        weighty = {blocks[index] for index in np.flatnonzero(self._has_weights)}
        last = {
            blocks[index]: int(index)
            for index in np.flatnonzero(self.main_path & self.hidden & (medians > 0) & np.isfinite(medians))
            if blocks[index] in weighty
        }
        places = sorted(last.values())
        return medians[places], places

    @cached_property
    def _has_weights(self) -> npt.NDArray[np.bool_]:
        return np.array([row.role in ("weights", "recurrent") for row in self.seen.rows])

    @cached_property
    def channels(self) -> Floats:
        """Units of an activation's output: channels of images, otherwise the last axis; 1 if it has none."""
        shapes = [row.shape or (1,) for row in self.seen.rows]
        return np.array([shape[0] if len(shape) > 2 else shape[-1] for shape in shapes], dtype=np.float64)

    @cached_property
    def token_spread(self) -> Floats:
        """1 - cosine of the tokens of a sample, over its largest value before the first attention; NaN before that.

        Tokens of another input, which these attend to, are left out: see `Signal.looked_at`.
        """
        cosine, attention = self.seen.token_cosine, self.attention_entropy
        nothing = np.full(len(self.seen.rows), np.nan)
        attending = np.flatnonzero(np.isfinite(attention))
        if cosine is None or not len(attending):
            return nothing
        own = ~self.signal.mask(self.signal.looked_at)
        spread = np.where(self.main_path & self.hidden & own, 1 - cosine, np.nan)
        before = spread[: attending[0]]
        if not np.isfinite(before).any() or not np.nanmax(before) > 0:
            return nothing
        spread = spread / np.nanmax(before)
        spread[: attending[0]] = np.nan
        return np.asarray(spread)

    @cached_property
    def attention_entropy(self) -> Floats:
        """Entropy of attention weights; a softmax at the output or over experts does not count."""
        return self._of_attention(self.seen.attention_entropy)

    @cached_property
    def attention_sums(self) -> Floats:
        """Sum of the attention weights of a query, at softmaxes that are multiplied with values from the left."""
        return self._of_attention(self.seen.attention_sum)

    @cached_property
    def attention_self(self) -> Floats:
        """Largest attention weight of a token on itself."""
        return self._of_attention(self.seen.attention_self)

    def _of_attention(self, values: Floats | None) -> Floats:
        if values is None:
            return np.full(len(self.seen.rows), np.nan)
        return np.where(self.signal.mask(self.signal.attending), values, np.nan)

    @cached_property
    def angle_ratio(self) -> Floats:
        """Median angle of pairs over that of the input, at rows of the main path whose angles mean something, else NaN.

        Angles of few units do not. Nor do those of the head: a bias adds one vector to all outputs, and training moves
        it in the first steps. Pooling averages positions by design, and a class token is one of many: after these,
        angles are compared with those before. Rows that depend on another input alone are compared with that input.
        """
        judged = self.main_path & self.hidden & self._same_units & (self.units > FEW_UNITS)
        angles = np.where(judged, median_angle(self.seen.angle), np.nan)
        kept = np.full(len(angles), np.nan)
        for stream in self.signal.streams:
            own = np.where(self.signal.mask(stream), angles, np.nan)
            known = np.flatnonzero(np.isfinite(own))
            if not len(known) or not own[known[0]] > 0:
                continue
            start = own[known[0]]
            for reduced in self.signal.reductions:
                before = known[known < reduced]
                if len(before) and own[reduced] > 0:
                    own[reduced:] *= own[before[-1]] / own[reduced]
            kept = np.where(np.isfinite(own), own / start, kept)
        return np.asarray(kept)

    @cached_property
    def entering_weights(self) -> int:
        """The row that the first weights after the start read; the start if there are none."""
        downstream = {self.start}
        for index, row in enumerate(self.seen.rows):
            read = [parent for parent in row.reads if parent in downstream]
            if read and row.role in ("weights", "recurrent"):
                return read[0]
            if read:
                downstream.add(index)
        return self.start

    @cached_property
    def overflow(self) -> Floats:
        """Share of a row's values that float16 cannot hold, on rows that carry the signal.

        Rows that only an exponential or a bounded function reads do not count: there -1e38 and -∞ mean the same.
        """
        over = self.seen.overflow
        judged = self.carrying & ~self.signal.mask(self.signal.read_by_bounded)
        return np.where(judged, over, np.nan) if over is not None else np.full(len(self.seen.rows), np.nan)

    def row_of(self, path: str) -> int:
        """Return the first row of a module; the output if it has none."""
        inside = (index for index, row in enumerate(self.seen.rows) if row.within == path)
        return next(inside, self.signal.output)

    @cached_property
    def ranks(self) -> Floats:
        """Effective rank on the main path before the head, if there are enough units and samples for one."""
        judged = self.main_path & self.hidden & self._same_units & (self.units > FEW_UNITS)
        return np.where(judged & (self.seen.samples > FEW_UNITS), self.seen.effective_rank, np.nan)

    @cached_property
    def _same_units(self) -> npt.NDArray[np.bool_]:
        """Rows whose units mean the same for all samples: not those that sort, compare or count."""
        return np.array([row.role != "constant" and not row.traits.sorts for row in self.seen.rows])

    @cached_property
    def most_directions(self) -> Floats:
        """Largest possible effective rank of each row: by the data, the narrowest layer before it, and pooling."""
        most = np.where(self.main_path & self._same_units, self.units, np.nan)
        reduced = list(self.signal.reductions)
        most[reduced] = np.fmin(most[reduced], self.seen.effective_rank[reduced])
        found = np.fmin(self.seen.effective_rank[self.start], most)
        for start, stream in zip(self.signal.starts, self.signal.streams, strict=True):
            mask = self.signal.mask(stream)
            own = np.fmin(self.seen.effective_rank[start], np.fmin.accumulate(np.where(mask, most, np.nan)))
            found = np.where(mask, own, found)
        return np.asarray(found)

    @cached_property
    def directions(self) -> Floats:
        """Share of the possible directions beyond the first in which the outputs differ, by effective rank."""
        most = self.most_directions
        return np.divide(self.ranks - 1, most - 1, out=np.ones(len(most)), where=most > 1)

    @cached_property
    def units(self) -> Floats:
        """Number of units of each row, NaN where it has no values."""
        return self.signal.unit_counts
