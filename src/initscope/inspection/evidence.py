"""The evidence for checks: what an observation says about angles, scales, gradients and ranks, row by row.

Rows that do not carry the signal (see `Signal`) are NaN: rows inside of norms, masks, scores, gates, branches.
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
"""Layers with at most this number of units have no meaningful angles or rank."""
_BEFORE_WEIGHTS = ("input", "embedding", "norm", "merge", "scaling", "movement", "bookkeeping", "constant")
"""Roles of ops before the first weights that are not layers of their own."""
_FLAT = 0.1
"""Share of the last layer's outputs without a gradient above which this explains a floor of the loss."""
_PARALLEL = 1e-3
"""Angle between samples, in degrees, below which an input counts as equal for all of them."""


@dataclass(frozen=True)
class Evidence:
    """The numbers that checks read from an observation: arrays with a value for every row."""

    seen: Observation
    facts: Facts = field(default_factory=Facts)

    @property
    def step(self) -> Probe:
        """One training step; checks that read it declare ``parameters``."""
        return self.facts.step or Probe()

    @property
    def depends(self) -> Dependence:
        """The dependences of the outputs; checks that read them declare ``dependence``."""
        return self.facts.dependence or Dependence()

    @property
    def weights(self) -> WeightFacts:
        """The facts about the weights; checks that read them declare ``weights``."""
        return self.facts.weights or WeightFacts({}, {}, {}, {})

    @property
    def data(self) -> InputFacts:
        """The facts about the inputs; checks that read them declare ``data``."""
        return self.facts.data or InputFacts(float("nan"), 0, 0, ())

    @property
    def head(self) -> Head:
        """The lowest loss that head and loss function allow; checks that read it declare ``head``."""
        return self.facts.head or Head("not examined")

    @property
    def targets_vary(self) -> bool:
        """Whether the targets are a tensor of values that vary, or the loss is known to read them."""
        targets = self.seen.targets
        varied = hasattr(targets, "flatten") and targets.numel() > 1 and bool((targets != targets.flatten()[0]).any())
        return varied or self.facts.reading.reads_targets

    @property
    def pairing(self) -> Pairing:
        """The outputs that each target is compared with; checks that read them declare ``pairing``."""
        return self.facts.pairing or Pairing()

    @property
    def trial(self) -> Trial:
        """A short training; checks that read it declare ``trial``."""
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
        """The module of the last weights; empty if some signal bypasses it."""
        head = self.signal.head
        return (self.seen.rows[head].within,) if head < len(self.seen.rows) else ()

    @property
    def flat_outputs(self) -> bool:
        """Whether the head can reach targets in its range, and only zero gradients (of a ReLU, say) prevent it."""
        head = self.head
        return head.outcome == "floor" and head.flat > _FLAT and head.targets_outside == 0 and not head.random

    @property
    def above_constant(self) -> bool:
        """Whether the loss of the head stays above a constant prediction because outputs have no gradient."""
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
        """Instruments that did not run: what they examine, the reason, and which arguments would run them."""
        facts, missing = self.facts, dict[str, tuple[str, str, str]]()
        if facts.step is None:
            no_step = ("gradients and dependence", "no training step was run", "gradients=True")
            missing |= dict.fromkeys(("parameters", "dependence"), no_step)
        if not np.isfinite(self.seen.gradient_ratio).any():
            missing["gradients"] = missing.get("parameters", ("gradients", "no backward pass worked", ""))
        if facts.weights is None:
            missing |= dict.fromkeys(("weights", "data"), ("weights and data", "only an observation was judged", ""))
        if facts.step is not None and facts.step.failed:
            missing["parameters"] = ("which parameters learn", "a training step raised an exception", "")
        if self.seen.targets is None:
            missing["targets"] = missing["loss"] = ("the loss", "no targets were given", "targets=")
        elif not facts.loss_name:
            missing["loss"] = ("the loss", "no loss was given and none could be inferred", "loss=")
        if "loss" in missing:
            missing["head"] = missing["pairing"] = missing["loss"]
        elif self.head.outcome == "not examined":
            missing["head"] = ("the loss", self.head.reason or "it was not examined", "")
        if facts.trial is None or facts.trial.outcome == "failed":
            reason = "no trial was run" if facts.trial is None else facts.trial.reason
            missing["trial"] = missing.get("loss", ("learning", reason, "trial=True"))
        elif facts.trial.assumed:
            missing["rate"] = ("the learning rate", "no optimizer was given", "optimizer=, lr=")
        missing.setdefault("rate", missing["trial"]) if "trial" in missing else None
        return missing

    @property
    def harm(self) -> Literal["", "none", "proven"]:
        """How much harm the trial shows.

        "none" if the model learns in the planned steps. "proven" if it learns at no rate, or gets no further than a
        linear model.
        """
        trial = self.trial
        if trial.prompt and not trial.linear:
            return "none"
        return "proven" if trial.linear or self.stuck_share is not None else ""

    @property
    def stuck_share(self) -> float | None:
        """Share of the possible fall of the loss at the best rate, if the trial shows that training stops there."""
        trial = self.trial
        ended = trial.outcome in ("flat", "diverges") and trial.learn is not None
        return trial.learn if ended and (trial.learn or 0.0) < LEARNS else None

    @property
    def ignores_targets(self) -> bool:
        """Whether the given loss does not read the targets, which may then be placeholders."""
        return self.step.given and not self.facts.reading.reads_targets

    @cached_property
    def head_is_zero(self) -> bool:
        """Whether the last weights, or an embedding, start at zero, so that equal outputs are intended."""
        head = self.signal.head
        layer = head < len(self.seen.rows) and self.seen.rows[head].within in self.weights.zero_layers
        return layer or bool(self.after_zeros[self.signal.output])

    @property
    def first_gradient(self) -> float:
        """Gradient of the first layer over that of the last layer, among layers that have one."""
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
        """The first row with real values."""
        return self.signal.entries[0] if self.signal.entries else 0

    @cached_property
    def varied(self) -> npt.NDArray[np.bool_]:
        """Pairs whose first sample is not zero, so that its scale can be a reference."""
        return np.asarray(np.isfinite(self.seen.norm_ratio[self.start]))

    @property
    def constant(self) -> bool:
        """Whether the samples are all equal, so that angles, ranks and units mean nothing."""
        return bool(self.seen.mean_width[self.start] >= 0 and np.isnan(self.seen.effective_rank[self.start]))

    @cached_property
    def main_path(self) -> npt.NDArray[np.bool_]:
        """Rows that all of the signal passes through."""
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
        """Rows that carry the signal, including branches."""
        return self.signal.mask(self.signal.carrying)

    @cached_property
    def carrying_or_gates(self) -> npt.NDArray[np.bool_]:
        """Rows that carry the signal, and gates inside of loops over time."""
        return np.asarray(self.carrying | self.signal.mask(self.signal.dangling))

    @cached_property
    def scales(self) -> Floats:
        """Median scale per unit on the main path, over that of the last row before any weights.

        For most models that is the input. If a norm follows an embedding, the embedding may have any scale.
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
        """Scale per unit of the input of the first weights, over the model input's; 1 if unknown."""
        scale = float(median_over_pairs(self.seen.rms_ratio[[self.entering_weights]][:, self.varied])[0])
        return scale if np.isfinite(scale) else 1.0

    @property
    def entering_angle(self) -> float:
        """Median angle in degrees at the input of the first weights; 0 if unknown."""
        angle = float(median_angle(self.seen.angle)[self.entering_weights])
        return angle if np.isfinite(angle) else 0.0

    @cached_property
    def _from_input(self) -> Floats:
        scales = np.where(self.main_path, median_over_pairs(self.seen.rms_ratio[:, self.varied]), np.nan)
        masked = np.isinf(scales) & self.signal.mask(self.signal.read_by_bounded)  # -∞ before a softmax is intended
        return np.where(masked, np.nan, scales)

    @property
    def frozen_random(self) -> bool:
        """Whether frozen layers have random weights, which is hardly ever intended."""
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

        ‖∂ℓ/∂h‖‖h‖ does not change if weights are scaled up and later weights are scaled down. It does not change with a
        branch that is nearly zero on purpose (layer scale, zero gammas) either.
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
        rows = sorted(last.values())
        return medians[rows], rows

    @cached_property
    def _has_weights(self) -> npt.NDArray[np.bool_]:
        return np.array([row.role in ("weights", "recurrent") for row in self.seen.rows])

    @cached_property
    def channels(self) -> Floats:
        """Number of units of an activation: the channels of images, otherwise the last axis; 1 if it has none."""
        shapes = [row.shape or (1,) for row in self.seen.rows]
        return np.array([shape[0] if len(shape) > 2 else shape[-1] for shape in shapes], dtype=np.float64)

    @cached_property
    def token_spread(self) -> Floats:
        """1 - cosine of the tokens of a sample, over its largest value before the first attention; NaN before that.

        Tokens of another input, which the tokens of this one attend to, are left out: see `Signal.looked_at`.
        """
        cosine, attention = self.seen.token_cosine, self.attention_entropy
        nothing = np.full(len(self.seen.rows), np.nan)
        attending = np.flatnonzero(np.isfinite(attention))
        if cosine is None or not len(attending):
            return nothing
        from_input = ~self.signal.mask(self.signal.looked_at)
        spread = np.where(self.main_path & self.hidden & from_input, 1 - cosine, np.nan)
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
        """Sum of the attention weights of a query, for each softmax that multiplies values from the left."""
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
        """Angle ratio: median angle of pairs over that of the input, NaN outside of comparable rows of the main path.

        Rows with few units are left out. So is the head: a bias adds one vector to all outputs, and training moves it
        in the first steps. Pooling averages positions by design, and a class token is one of many: after both, angles
        are compared with those just before. Rows that depend on only one of several inputs are compared with it.
        """
        judged = self.main_path & self.hidden & self._same_units & (self.units > FEW_UNITS)
        angles = np.where(judged, median_angle(self.seen.angle), np.nan)
        ratios = np.full(len(angles), np.nan)
        for stream in self.signal.streams:
            of_stream = np.where(self.signal.mask(stream), angles, np.nan)
            known = np.flatnonzero(np.isfinite(of_stream))
            if not len(known) or not of_stream[known[0]] > 0:
                continue
            start = of_stream[known[0]]
            for reduced in self.signal.reductions:
                before = known[known < reduced]
                if len(before) and of_stream[reduced] > 0:
                    of_stream[reduced:] *= of_stream[before[-1]] / of_stream[reduced]
            ratios = np.where(np.isfinite(of_stream), of_stream / start, ratios)
        return np.asarray(ratios)

    @cached_property
    def entering_weights(self) -> int:
        """The row that the first weights after the start read; the start if there are no weights."""
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
        """Share of a row's values that exceed the range of float16, on rows that carry the signal.

        Rows that only an exponential or a bounded function reads do not count: for these -1e38 and -∞ mean the same.
        """
        over = self.seen.overflow
        judged = self.carrying & ~self.signal.mask(self.signal.read_by_bounded)
        return np.where(judged, over, np.nan) if over is not None else np.full(len(self.seen.rows), np.nan)

    def row_of(self, path: str) -> int:
        """Return the index of the first row of a module, or of the output row if the module has none."""
        inside = (index for index, row in enumerate(self.seen.rows) if row.within == path)
        return next(inside, self.signal.output)

    @cached_property
    def ranks(self) -> Floats:
        """Effective rank on the main path before the head, if there are enough units and samples for it."""
        judged = self.main_path & self.hidden & self._same_units & (self.units > FEW_UNITS)
        return np.where(judged & (self.seen.samples > FEW_UNITS), self.seen.effective_rank, np.nan)

    @cached_property
    def _same_units(self) -> npt.NDArray[np.bool_]:
        """Rows whose units mean the same for all samples, unlike those that sort, compare or count."""
        return np.array([row.role != "constant" and not row.traits.sorts for row in self.seen.rows])

    @cached_property
    def most_directions(self) -> Floats:
        """Largest possible effective rank of each row, given the data, the narrowest layer before it, and pooling."""
        most = np.where(self.main_path & self._same_units, self.units, np.nan)
        reduced = list(self.signal.reductions)
        most[reduced] = np.fmin(most[reduced], self.seen.effective_rank[reduced])
        possible = np.fmin(self.seen.effective_rank[self.start], most)
        for start, stream in zip(self.signal.entries, self.signal.streams, strict=True):
            mask = self.signal.mask(stream)
            of_stream = np.fmin(self.seen.effective_rank[start], np.fmin.accumulate(np.where(mask, most, np.nan)))
            possible = np.where(mask, of_stream, possible)
        return np.asarray(possible)

    @cached_property
    def directions(self) -> Floats:
        """Effective rank of the outputs, as a share of the possible directions beyond the first."""
        most = self.most_directions
        return np.divide(self.ranks - 1, most - 1, out=np.ones(len(most)), where=most > 1)

    @cached_property
    def units(self) -> Floats:
        """Number of units of each row, NaN where it has no values."""
        return self.signal.unit_counts
