"""The geometry of pairs after every layer: `Prediction`, `Measurement`, and both together in a `Comparison`.

All three have the same rows, one per layer; row 0 is the input. Arrays have shape ``[rows, pairs]``. A layer that is
not covered has NaN, and its row gives the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from initscope.errors import InputError
from initscope.results import Result, plain, rendering_module
from initscope.theory.pair_sums import angle_from_gap
from initscope.traits import LAYER_ROLES, Traits

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["STATUSES", "Comparison", "Measurement", "Prediction", "Row", "Status", "Tokens", "weakest"]

Floats = npt.NDArray[np.float64]
ROUNDING = 1e-5
"""Angles in degrees below this are rounding errors of float32, whose relative precision is 6e-8."""
Status = Literal[
    "closed form", "quadrature", "closed form after sampling", "sampled", "approximate", "not covered", "measured"
]
STATUSES: tuple[Status, ...] = (
    "closed form",
    "quadrature",
    "closed form after sampling",
    "sampled",
    "approximate",
    "not covered",
)


def weakest(*statuses: Status) -> Status:
    """Return the status of a number that depends on several others: the last of theirs in the order of `STATUSES`."""
    return max(statuses, key=STATUSES.index)


@dataclass(frozen=True)
class Row(Result):
    """One layer: its name, kind, status, output shape, note and role.

    ``within`` is the path of the module that the op is, or that calls it; ``reads`` are the rows whose values it reads;
    ``traits`` say what the op is. Layers are the ops that have weights: ``number`` is the layer's number, for other ops
    that of the layer upstream of it (0: none), out of ``layers``; `numbered` sets both.
    """

    layer: str
    kind: str
    status: Status
    shape: tuple[int, ...] = ()
    note: str = ""
    role: str = "other"
    within: str = field(default="", compare=False)
    reads: tuple[int, ...] = field(default=(), compare=False)
    traits: Traits = field(default=Traits(), compare=False, repr=False)
    number: int = field(default=0, compare=False, repr=False)
    layers: int = field(default=0, compare=False, repr=False)

    @property
    def has_weights(self) -> bool:
        """Whether the op is a layer: it has weights, or a table of them."""
        return self.role in LAYER_ROLES

    @property
    def title(self) -> str:
        """The op for people: its name and, unless the name contains it, its kind; without a name its layer's number.

        >>> rows = numbered([Row("0", "Linear", "measured", role="weights"), Row("1", "ReLU", "measured")])
        >>> [row.title for row in rows], Row("conv3", "Conv2d", "closed form").title
        (['layer 1 (Linear)', 'ReLU after layer 1'], 'conv3')
        """
        if not is_number(self.layer):
            return named(self.layer, self.kind)
        if not self.layers:
            return f"{spoken(self.layer)} ({self.kind})"
        return f"layer {self.number} ({self.kind})" if self.has_weights else f"{self.kind} {self._near}"

    @property
    def position(self) -> str:
        """Return the position of the op for messages: number of its layer out of all, its module, and its kind.

        >>> rows = numbered([Row("0", "Linear", "measured", role="weights"), Row("1", "ReLU", "measured")])
        >>> [row.position for row in rows]
        ['layer 1 of 1 (Linear, module 0)', 'ReLU (module 1) after layer 1 of 1']
        """
        if not self.layers or self.role == "input":
            return self.title
        of, unnamed = f" of {self.layers}", is_number(self.layer)
        if self.has_weights:
            name = self.layer if names_kind(self.layer, self.kind) else f"{self.layer}, {self.kind}"
            return f"layer {self.number}{of} ({f'{self.kind}, module {self.layer}' if unnamed else name})"
        return f"{f'{self.kind} (module {self.layer})' if unnamed else self.title} {self._near}{of}"

    @property
    def _near(self) -> str:
        return f"after layer {self.number}" if self.number else "before layer 1"


def numbered(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Return the rows with the numbers of their layers; a layer that is called several times counts once."""
    rows, number_of, numbers, last = tuple(rows), dict[Any, int](), list[int](), 0
    for row in rows:
        if row.role in LAYER_ROLES:
            last = number_of.setdefault(row.traits.weight_names or row.layer, len(number_of) + 1)
        numbers.append(last)
    count = len(number_of)
    return tuple([replace(row, number=number, layers=count) for row, number in zip(rows, numbers, strict=True)])


def named(layer: str, kind: str) -> str:
    """Return a name with its kind, unless it contains the kind.

    >>> named("3.2", "ReLU"), named("conv3", "Conv2d"), named("input", "input")
    ('3.2 (ReLU)', 'conv3', 'input')
    """
    return layer if names_kind(layer, kind) else f"{layer} ({kind})"


def is_number(name: str) -> bool:
    """Return whether a module's own name is a number, as in a `torch.nn.Sequential`."""
    return name.rpartition(".")[2].isdigit()


def spoken(name: str, what: str = "module") -> str:
    """Return a name for text: a bare number, as in a `torch.nn.Sequential`, gets the word for its kind."""
    return f"{what} {name}" if is_number(name) else name


def names_kind(layer: str, kind: str) -> bool:
    """Return whether a name such as conv3 contains the kind of the layer; numbers of a `torch.nn.Sequential` do not."""
    name = layer.rpartition(".")[2].partition(" (")[0].rstrip("0123456789_").lower()
    return bool(name) and name in kind.lower()


def mean_over_pairs(values: Floats) -> Floats:
    """Return the mean of each row over the pairs with a value, NaN without any; a sample of zeros has no angle."""
    known = np.isfinite(values)
    counts, sums = known.sum(axis=1), np.where(known, values, 0.0).sum(axis=1)
    return np.asarray(np.divide(sums, counts, out=np.full(len(values), np.nan), where=counts > 0))


def geometric_mean(values: Floats) -> float:
    """Return the geometric mean of the positive values; 0 if there are none."""
    positive = values[values > 0]
    return float(np.exp(np.log(positive).mean())) if len(positive) else 0.0


def last_gradient(gradients: Floats) -> int | None:
    """Return the last row with a positive gradient, or None."""
    known = np.flatnonzero(np.isfinite(gradients) & (gradients > 0))
    return int(known[-1]) if len(known) else None


def over_last(gradients: Floats, last: int | None) -> Floats:
    """Return gradients ``[rows]`` divided by that of row ``last``; without it NaN, except that zeros stay zero.

    >>> over_last(np.array([np.nan, 1.0, 4.0]), last=2)
    array([ nan, 0.25, 1.  ])
    """
    return np.asarray(gradients / gradients[last] if last is not None else np.where(gradients == 0, 0.0, np.nan))


def median_over_pairs(values: Floats) -> Floats:
    """Return the median of each row over the pairs with a value, NaN without any."""
    known = ~np.isnan(values).all(axis=1)
    result = np.full(len(values), np.nan)
    result[known] = np.nanmedian(values[known], axis=1)
    return result


def median_angle(degrees: Floats) -> Floats:
    """Return the median of measured angles over pairs for each row; 0 below the rounding errors of float32."""
    medians = median_over_pairs(degrees)
    return np.where(medians < ROUNDING, 0.0, medians)


def reference_norms(norms: Floats, units: Floats, inputs: Sequence[bool]) -> tuple[Floats, float]:
    """Return the norms that ratios refer to, ``[pairs]``, and the number of values in them.

    They are the norms of all real-valued inputs. For a model of indices they are those of the first row with values,
    the embedding. ``norms [rows, pairs]`` are the norms after each row, ``units [rows]`` the numbers of values (0
    without any), and ``inputs [rows]`` says which rows are inputs.
    """
    known = (units > 0) & np.isfinite(norms).all(axis=1)
    reference = np.flatnonzero(known & np.asarray(inputs))
    if not len(reference):
        reference = np.flatnonzero(known)[:1] if known.any() else np.array([0])
    return np.asarray(np.hypot.reduce(norms[reference], axis=0)), float(units[reference].sum())


def covered_rows(values: Floats) -> list[int]:
    """Return the rows in which at least one pair has a value."""
    return [int(row) for row in np.flatnonzero(np.isfinite(values).any(axis=1))]


def angle_degrees(cosine: Floats, gap: Floats | None = None) -> Floats:
    """Return angles in degrees, from ``gap`` = 1 - cosine if given; cosines beyond ±1 by rounding are clipped.

    ``gap`` preserves small angles: the arccosine of a cosine near 1 is accurate to 1e-6 degrees only.
    """
    return np.asarray(np.degrees(np.arccos(np.clip(cosine, -1, 1)) if gap is None else angle_from_gap(gap)))


@dataclass(frozen=True)
class Tokens(Result):
    r"""Statistics of the tokens of a sample, ``[rows]`` each; NaN for rows without tokens or attention weights.

    ``cosine`` is the mean over pairs of nonzero tokens of a sample: a zero token (padding, or a token that no expert
    received) has no direction. Samples with fewer than two nonzero tokens are left out.
    ``entropy`` of attention weights is :math:`-\sum_j p_j\ln p_j/\ln n`, with n the number of unmasked keys: 1 for
    uniform weights, 0 for a single key.
    ``cosine_se`` and ``entropy_se`` are standard errors over draws.
    """

    cosine: Floats
    entropy: Floats
    cosine_se: Floats
    entropy_se: Floats


@dataclass(frozen=True)
class _Geometry(Result):
    rows: tuple[Row, ...]
    cosine: Floats
    norm_ratio: Floats
    rms_ratio: Floats

    def __post_init__(self) -> None:
        gap = getattr(self, "gap", None)
        if gap is not None and not np.allclose(1 - gap, self.cosine, rtol=0, atol=1e-12, equal_nan=True):
            object.__setattr__(self, "gap", None)  # a copy with other cosines

    @property
    def angle(self) -> Floats:
        """Angles in degrees, ``[rows, pairs]``."""
        return angle_degrees(self.cosine, getattr(self, "gap", None))

    def _html(self) -> str:
        """Return the page of a `Comparison` with this side only."""
        return self._alone()._html()

    def _repr_html_(self) -> str:
        return self._alone()._repr_html_()

    def _alone(self) -> Comparison:
        """Return a `Comparison` with this side only."""
        raise InputError(f"{type(self).__name__} must override _alone()")

    def table(self) -> list[dict[str, Any]]:
        """Return one dict per layer, with means over pairs."""
        return self._alone().table()

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"rows": [...]}`` with means over pairs."""
        return self._alone().to_dict()

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the mean angle against depth."""
        return self._alone().plot(ax)

    def __repr__(self) -> str:
        rows, pairs = self.cosine.shape
        return f"{type(self).__name__}({rows - 1} layers, {pairs} pairs)"


@dataclass(frozen=True, repr=False)
class Prediction(_Geometry):
    """Expected geometry of pairs after every layer (see `initscope.predict`).

    ``cosine`` is the ratio of expectations. ``norm_ratio`` is √E‖h‖² / ‖x‖ for the first input of each pair, and
    ``rms_ratio`` the same per unit, which the checks use. ``cosine_sd`` is the standard deviation of the cosine over
    the weights at the width of the model, if it is known (dense ReLU stacks; other networks with ``finite_width``),
    otherwise NaN. ``cosine_se`` is the standard error of the predicted cosine if ops were sampled: 0 for formulas, NaN
    if it is unknown.
    """

    cosine_sd: Floats | None = None
    cosine_se: Floats | None = None
    gap: Floats | None = None
    """1 - cosine to full precision, from which angles are computed."""
    tokens: Tokens | None = None
    """Cosine of tokens and entropy of attention, for models with attention."""
    gradient_ratio: Floats | None = None
    """‖∂ℓ/∂W‖_F/(‖∂ℓ/∂a‖‖x‖) for the weights W of each layer, ``[rows]``, root mean square over samples; NaN if a later
    op has no rule for gradients, or the row has no weights. None: not requested."""
    gradient_ratio_se: Floats | None = None
    """Standard error of ``gradient_ratio`` over draws, ``[rows]``; 0 for formulas."""
    rms_sd: Floats | None = None
    """Standard deviation of ``rms_ratio`` over the weights at the width of the model. None: not requested."""
    cosine_shift: Floats | None = None
    """Mean cosine at the width of the model less ``cosine``, its limit, to first order in 1/width."""
    cosine_shift_se: Floats | None = None
    """Standard error of ``cosine_shift``."""
    cosine_deviations: Floats | None = None
    """Independent samples of what the cosines of one draw deviate by, to first order: ``[samples, rows, pairs]``. Rows
    and pairs of one sample belong to one draw."""

    @property
    def angle_sd(self) -> Floats | None:
        """Return the standard deviation of the angles of one draw, in degrees, by the delta method; None if unknown."""
        if self.cosine_sd is None or not (self.cosine_sd[1:] > 0).any():
            return None
        return self._degrees(self.cosine_sd)

    @property
    def angle_shift(self) -> Floats | None:
        """Mean angle at the width of the model less ``angle``, in degrees, by the delta method; None: not requested."""
        return None if self.cosine_shift is None else self._degrees(-self.cosine_shift)

    def _degrees(self, change: Floats) -> Floats:
        """Return the change of the angles for a small change of the cosines; the caller sets the sign."""
        sine = np.sin(np.radians(self.angle))
        return np.asarray(np.degrees(change / np.where(sine > 0, sine, np.nan)))

    def _alone(self) -> Comparison:
        return Comparison(prediction=self)


@dataclass(frozen=True, repr=False)
class Measurement(_Geometry):
    """Measured geometry of pairs after every layer (see `initscope.measure`), over ``draws`` of the weights.

    ``cosine`` is the mean over draws; ``norm_ratio`` and ``rms_ratio`` are root mean squares, as in predictions.
    ``cosine_se`` and ``norm_ratio_se`` are standard errors over draws of the weights, per pair; ``mean_cosine_se`` and
    ``mean_norm_ratio_se`` are those of the mean over pairs, which share their weights. They are NaN with one draw.
    ``cosine_draws [rows, pairs]`` is the number of runs with a cosine: those in which neither output is zero or
    infinite.
    """

    cosine_se: Floats
    norm_ratio_se: Floats
    mean_cosine_se: Floats
    mean_norm_ratio_se: Floats
    draws: int
    seed: int
    cosine_draws: npt.NDArray[np.int64] | None = None
    gap: Floats | None = None
    """1 - cosine to full precision, from which angles are computed."""
    tokens: Tokens | None = None
    """Cosine of tokens and entropy of attention, for models with attention."""

    @property
    def mean_angle_se(self) -> Floats:
        """Standard error of the mean angle in degrees, by the delta method."""
        sine = mean_over_pairs(np.sqrt(1 - np.clip(self.cosine, -1, 1) ** 2))
        return np.asarray(np.degrees(self.mean_cosine_se / np.where(sine > 0, sine, np.nan)))

    def _alone(self) -> Comparison:
        return Comparison(measurement=self)


@dataclass(frozen=True, repr=False)
class Comparison(Result):
    """Prediction and measurement of the same pairs and the same model, row by row; either may be missing."""

    prediction: Prediction | None = None
    measurement: Measurement | None = None
    title: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if self.prediction is None and self.measurement is None:
            raise InputError("a comparison needs a prediction, a measurement, or both")
        if self.prediction is not None and self.measurement is not None:
            ours = [row.layer for row in self.prediction.rows]
            theirs = [row.layer for row in self.measurement.rows]
            if ours != theirs or self.prediction.cosine.shape != self.measurement.cosine.shape:
                raise InputError(
                    "prediction and measurement are not of the same model and pairs; run both on the same x, y"
                )

    @property
    def rows(self) -> tuple[Row, ...]:
        """Rows of the prediction, or of the measurement without a prediction."""
        source = self.prediction if self.prediction is not None else self.measurement
        assert source is not None
        return source.rows

    def table(self) -> list[dict[str, Any]]:
        """Return one dict per layer, with means over pairs and their standard errors over draws of the weights."""
        columns = self._columns()
        return [
            {"layer": row.layer, "kind": row.kind, "status": row.status}
            | {name: values[index] for name, values in columns.items()}
            | {"note": row.note}
            for index, row in enumerate(self.rows)
        ]

    def _columns(self) -> dict[str, list[float | None]]:
        nothing: list[float | None] = [None] * len(self.rows)
        predicted, measured = self.prediction, self.measurement
        columns: dict[str, list[float | None]] = {}
        for name in ("cosine", "angle", "norm_ratio", "rms_ratio"):
            for suffix, side in (("predicted", predicted), ("measured", measured)):
                columns[f"{name}_{suffix}"] = nothing if side is None else plain(mean_over_pairs(getattr(side, name)))
            if name == "cosine":
                spread = None if predicted is None else predicted.cosine_sd
                columns["cosine_sd_predicted"] = nothing if spread is None else plain(mean_over_pairs(spread))
                if predicted is not None and predicted.cosine_shift is not None:
                    columns["cosine_shift_predicted"] = plain(mean_over_pairs(predicted.cosine_shift))
            if name == "rms_ratio" and predicted is not None and predicted.rms_sd is not None:
                columns["rms_sd_predicted"] = plain(mean_over_pairs(predicted.rms_sd))
            if name in ("cosine", "norm_ratio"):
                columns[f"{name}_se"] = nothing if measured is None else plain(getattr(measured, f"mean_{name}_se"))
        columns.update(self._token_columns())
        if predicted is not None and predicted.gradient_ratio is not None:
            gradients = predicted.gradient_ratio
            columns["gradient_ratio_predicted"] = plain(gradients)
            columns["gradient_over_last_predicted"] = plain(over_last(gradients, last_gradient(gradients)))
        return columns

    def _token_columns(self) -> dict[str, list[float | None]]:
        """Return the columns of tokens; empty for models without attention."""
        sides = {"predicted": self.prediction, "measured": self.measurement}
        if all(side is None or side.tokens is None for side in sides.values()):
            return {}
        nothing: list[float | None] = [None] * len(self.rows)
        columns: dict[str, list[float | None]] = {}
        for column, name in (("token_cosine", "cosine"), ("attention_entropy", "entropy")):
            for suffix, side in sides.items():
                tokens = None if side is None else side.tokens
                columns[f"{column}_{suffix}"] = nothing if tokens is None else plain(getattr(tokens, name))
        return columns

    def pairs_table(self) -> list[dict[str, Any]]:
        """Return one dict per layer and pair."""
        result = []
        for index, row in enumerate(self.rows):
            source = self.prediction if self.prediction is not None else self.measurement
            assert source is not None
            for pair in range(source.cosine.shape[1]):
                entry: dict[str, Any] = {"layer": row.layer, "kind": row.kind, "status": row.status, "pair": pair}
                for suffix, geometry in (("predicted", self.prediction), ("measured", self.measurement)):
                    for name in ("cosine", "norm_ratio", "rms_ratio"):
                        value = None if geometry is None else float(getattr(geometry, name)[index, pair])
                        entry[f"{name}_{suffix}"] = plain(value) if value == value else None
                error = None if self.measurement is None else float(self.measurement.cosine_se[index, pair])
                entry["cosine_se"] = error if error == error else None
                result.append(entry)
        return result

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"rows": [...], "pairs": …, "draws": …}`` with means over pairs."""
        source = self.prediction if self.prediction is not None else self.measurement
        assert source is not None
        return {
            "rows": [plain(row) for row in self.table()],
            "pairs": int(source.cosine.shape[1]),
            "draws": None if self.measurement is None else self.measurement.draws,
            "halving_depth": self.halving_depth(),
        }

    def halving_depth(self, ratio: float = 0.5) -> str | None:
        """Return the first layer after which the median angle stays below ``ratio`` times the input angle, or None."""
        source = self.measurement if self.measurement is not None else self.prediction
        assert source is not None
        medians = median_over_pairs(source.angle)
        covered = covered_rows(source.angle)
        above = [number for number, row in enumerate(covered) if not medians[row] <= ratio * medians[covered[0]]]
        first = above[-1] + 1 if above else 0
        return self.rows[covered[first]].layer if first < len(covered) else None

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the mean angle after each layer: predicted as a line, measured as points with two standard errors."""
        axes: Axes = rendering_module().angle_figure(self, ax)
        return axes

    def _html(self) -> str:
        """Return a self-contained page with the headline, the figures and the table."""
        text: str = rendering_module().render_page(self)
        return text

    def _repr_html_(self) -> str:
        text: str = rendering_module().render_page(self, fragment=True)
        return text
