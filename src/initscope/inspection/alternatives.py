"""`what_if`: the same network with other initial weights, batch norm, a leaky slope, other sizes, ranked by a score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from initscope._utils.progress import interrupted, kept_if_interrupted, steps
from initscope._utils.randomness import torch_generator
from initscope.errors import InputError, check_count
from initscope.geometry import Floats, Prediction, Row, median_angle, median_over_pairs
from initscope.graph import Graph, Inputs, trace
from initscope.graph.borrowing import copy_of
from initscope.initializers import Initializer, Present
from initscope.inspection._checks import Thresholds, reinitialized
from initscope.inspection.facts import facts_of
from initscope.inspection.finding import Fix
from initscope.inspection.judging import judge
from initscope.inspection.spending import Spending, multiplications
from initscope.inspection.variants import Variant, architecture_variants, initializer_variants, size_variants
from initscope.measurement.observation import Observation, observe
from initscope.measurement.stream import moved
from initscope.propagate import predict
from initscope.results import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["SCORE", "Alternative", "WhatIf", "start_score", "what_if", "what_is_kept"]

SCORE = (
    "Alternatives with findings in fewer samples of the weights come first, then those of higher score: score = scale "
    "× gradient × angle × nearness, each in (0, 1] and measured: scale of the outputs over that of the inputs, 1 at "
    "0.32 and 1/10 at ten times more or less; (largest/smallest layer gradient)^-0.3; min(1, median angle at the end "
    "over the input's)^0.3; max(1, how much more the angles of near samples grow than those of others)^-0.3. Scores "
    "that differ by less than two standard errors, or 5 %, are ties. Chosen on trained networks: docs, Checks"
)
_BEST_SIZE = -0.5
"""log10 of the scale of outputs over inputs at which the networks of the study trained best."""
_WEIGHT = 0.3
"""Weight, relative to the scale, of log10 of the spread of gradients, of the angle and of what near samples gain."""
_NEAR = 0.01
"""Norm of the change that makes a sample near another, over the norm of the sample."""
_LEAST_PAIRS = 4
_AGAIN = 3
"""Number of alternatives that are sampled more than once."""
_TIE = 0.05
"""Relative difference of scores below which the study of trained networks finds no difference in training."""


@dataclass(frozen=True)
class Alternative(Result):
    """One variant of the network, and its effect on the data.

    ``angle_ratio``, ``rms_ratio`` (of the last op), ``gradient_spread`` (largest over smallest gradient of the layers)
    and ``near_ratio`` (how much more the angles of near samples grow than those of others; None for tokens) are medians
    over ``draws`` samples of the weights; ``crossed`` says how many of them have which finding, ``failing`` how many
    have any. ``score`` is the mean over them, and ``score_error`` its standard error.
    ``angle_predicted`` is the limit of wide layers, by the method that ``status`` names. It is None for other sizes,
    batch norm and mirrored weights, and if predicting the model as it is takes more than closed forms of vectors:
    images, quadrature and sampling cost more than all measurements, and the ranking does not need them.
    """

    name: str
    score: float
    angle_ratio: float
    angle_predicted: float | None
    rms_ratio: float
    gradient_spread: float
    crossed: dict[str, int]
    failing: int
    draws: int
    status: str
    code: str | None
    """The suggested fix; None if the architecture has to be changed by hand, or nothing has to be changed."""
    advice: str = ""
    """What to do if one line of code is not enough."""
    initializer: Initializer | None = field(default=None, repr=False, compare=False)
    """The initializer, if only weights change."""
    near_ratio: float | None = None
    score_error: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return all fields but the initializer, which ``code`` spells out."""
        return {name: value for name, value in super().to_dict().items() if name != "initializer"}

    @property
    def findings(self) -> str:
        """Findings and the share of the samples that have them: ``collapse 2/3, rank-loss 3/3``, or ``none in 3``."""
        return (
            ", ".join(f"{name} {count}/{self.draws}" for name, count in self.crossed.items()) or f"none in {self.draws}"
        )


_UNKNOWN = float("nan")
_AS_IT_IS = Alternative("as it is", _UNKNOWN, _UNKNOWN, None, _UNKNOWN, _UNKNOWN, {}, 0, 0, "not tried", None)


@dataclass(frozen=True)
class WhatIf(Result):
    """Alternatives, best first; ``current`` is the network as it is, ``skipped`` lists what was not tried, and why.

    If nothing was tried, ``untried`` says why, and ``best`` is the network as it is, without a suggested fix.
    """

    alternatives: tuple[Alternative, ...]
    current: str
    skipped: dict[str, str] = field(default_factory=dict)
    score_is: str = SCORE
    untried: str = ""

    @property
    def ties(self) -> tuple[Alternative, ...]:
        """Alternatives whose scores are not measurably below the first one's: those that change only weights first."""
        if not self.alternatives:
            return ()
        first = self.alternatives[0]
        share = first.failing / first.draws

        def is_tie(item: Alternative) -> bool:
            error = 2 * np.hypot(first.score_error or 0.0, item.score_error or 0.0)
            return item.failing / item.draws <= share and first.score - item.score <= max(_TIE * first.score, error)

        tied = [item for item in self.alternatives if is_tie(item)]
        # in an order that does not depend on scores, which differ by chance
        return tuple(sorted(tied, key=lambda item: (item.name != self.current, item.initializer is None, item.name)))

    @property
    def best(self) -> Alternative:
        """The first of the ties."""
        return self.ties[0] if self.alternatives else _AS_IT_IS

    @property
    def helps(self) -> bool:
        """Whether the best alternative is not the present one and has no finding in some sample of its weights."""
        return self.best.name != self.current and self.best.failing < self.best.draws

    @property
    def fixes(self) -> tuple[Fix, ...]:
        """The ties as fixes, with the scores before and after, then what is better than the network as it is."""
        if not self.helps:
            return ()
        before = next((item for item in self.alternatives if item.name == self.current), None)
        share, score = (1.0, None) if before is None else (before.failing / before.draws, before.score)
        names = {item.name for item in self.ties}
        others = [item for item in self.alternatives if item.name not in names and item.failing / item.draws < share]
        return tuple(
            Fix(item.name, item.code, item.advice or f"re-initialize the weights: {item.name}", score, item.score,
                len(names) > 1 and item.name in names, initializer=item.initializer)
            for item in (*self.ties, *others)
        )  # fmt: skip

    def table(self) -> list[dict[str, Any]]:
        """Return one dict per alternative, best first."""
        return [alternative.to_dict() for alternative in self.alternatives]

    def summary(self) -> list[dict[str, Any]]:
        """Return the table without the code, for a terminal."""
        tied = {item.name for item in self.ties}
        return [
            {
                "initialization": item.name,
                "score": round(item.score, 3),
                "tie": "tie" if len(tied) > 1 and item.name in tied else "",
                "angle ratio": item.angle_ratio,
                "scale ratio": item.rms_ratio,
                "gradient spread": item.gradient_spread,
                "near pairs": item.near_ratio,
                "predicted": item.angle_predicted,
                "findings of samples": item.findings,
            }
            for item in self.alternatives
        ]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the scores as bars, with the network as it is marked."""
        from initscope.rendering.figures import new_axes

        ax = new_axes(7.0, 0.35 * len(self.alternatives) + 1.2) if ax is None else ax
        names = [item.name for item in self.alternatives]
        bars = ax.barh(names, [item.score for item in self.alternatives])
        for bar, name in zip(bars, names, strict=True):
            if name == self.current:
                bar.set_hatch("//")
        ax.invert_yaxis()
        ax.set_xlim(0, 1)
        ax.set_xlabel("score (hatched: as it is)")
        return ax


def what_if(
    model: nn.Module,
    x: torch.Tensor,
    y: torch.Tensor,
    *,
    seed: int = 0,
    pairs: int = 12,
    draws: int = 3,
    mode: Literal["train", "eval"] | None = None,
    thresholds: Thresholds | None = None,
    prediction: Prediction | None = None,
    progress: Callable[[list[Any]], Iterable[Any]] | None = None,
) -> WhatIf:
    """Try alternative initializations of ``model`` on a few of the pairs; the model itself does not change.

    Each alternative is measured in a copy for one sample of its weights, and predicted if theory covers it. At finite
    width samples differ, so the best of those without a finding are sampled ``draws`` times. Models of more than 10⁸
    multiplications a sample are tried on one sample of the weights and fewer pairs, and not wider. All trials have a
    budget (`Spending`), and ``skipped`` names what it leaves out.

    Parameters
    ----------
    model : torch.nn.Module
        The model; only copies of it are changed.
    x, y : Tensor ``[pairs, ...]``
        Both sides of the pairs.
    seed : int
        Seed of all weights that are sampled.
    pairs : int
        Number of pairs to use, the first ones; at least 4 of large models.
    draws : int
        Samples of the weights of the best alternatives.
    mode : "train", "eval" or None
        Mode of batch norm; None: as the model is.
    thresholds : Thresholds, optional
        Bounds of the checks.
    prediction : Prediction, optional
        Of the model as it is on these pairs, if it is already known.
    progress : callable, optional
        Wraps the list of alternatives and passes its items on, as ``tqdm`` does.

    Returns
    -------
    WhatIf
        The alternatives, best first, and the reasons for those that were left out.
    """
    draws = check_count("draws", draws)
    trials = _Trials(model, x, y, pairs, seed, mode, thresholds, prediction)
    as_it_is = Variant("as it is", None, None, is_random=False)
    trials.run(as_it_is)
    variants = [*initializer_variants(model, trials.rows), *architecture_variants(model, trials.rows), *size_variants()]
    with kept_if_interrupted():
        first = steps(variants, "trying alternative initializations") if progress is None else progress(variants)
        for variant in first:
            trials.run(variant)
        if not trials.seen:
            raise InputError("no alternative could be run on this model; look at its rows for the reason")
        again = [(variant, draw) for variant in trials.hopeful() for draw in range(1, draws)]
        for variant, draw in steps(again, "sampling the best again") if progress is None else progress(again):
            trials.run(variant, draw)
    if interrupted():
        missing = [v for v in variants if v not in trials.seen and v.name not in trials.skipped]
        trials.skipped |= {variant.name: "interrupted" for variant in missing}
    ranked = sorted(map(trials.alternative, trials.seen), key=lambda item: (item.failing / item.draws, -item.score))
    return WhatIf(tuple(ranked), as_it_is.name, trials.skipped)


@dataclass(frozen=True)
class _Sample:
    """What one sample of the weights of a variant does, in numbers, and the names of its findings."""

    angle: float
    size: float
    spread: float
    near: float
    faults: tuple[str, ...]

    @property
    def score(self) -> float:
        return start_score(self.angle, self.size, self.spread, self.near)


class _Trials:
    """Runs variants of one model and records what each of them does."""

    def __init__(
        self,
        model: nn.Module,
        x: torch.Tensor,
        y: torch.Tensor,
        pairs: int,
        seed: int,
        mode: Literal["train", "eval"] | None,
        thresholds: Thresholds | None,
        prediction: Prediction | None,
    ) -> None:
        self.model, self.seed, self.mode, self.thresholds = model, seed, mode, thresholds
        self.as_it_is = prediction
        self.device = next((p.device for p in model.parameters()), torch.device("cpu"))
        self.spending = Spending.on(multiplications(self._copied(), Inputs((x[:2],))), len(x))
        fewer = max(_LEAST_PAIRS, int(min(pairs, len(x)) * self.spending.share))
        self.x, self.y = x[:fewer], y[:fewer]
        self.seen: dict[Variant, list[_Sample]] = {}
        self.predicted: dict[Variant, tuple[float | None, str]] = {}
        self.skipped: dict[str, str] = {}
        self.rows: tuple[Row, ...] = ()  # of the model as it is
        self.quick = True  # as long as predictions are closed forms of vectors; the ranking does not need others
        self._refilled: nn.Module | None = None  # one copy for all initializers, which overwrite each other's weights
        self._known: Graph | None = None  # the ops of that copy, if no weight decides what they are

    def run(self, variant: Variant, draw: int = 0) -> None:
        """Measure a sample of the weights of a variant, or note why it is left out."""
        name = f"more draws of {variant.name}" if draw else variant.name
        if reason := self.spending.refuses(variant, self.model, len(self.x)):
            self.skipped[name] = reason
            return
        try:
            changed = self._traced(self._sampled(variant, self.seed + draw))
            seen = self._observed(changed, self.seed + draw)
        except (InputError, ValueError, RuntimeError) as error:
            # A change that does not fit this architecture (batch norm on tokens, say) is no alternative for it.
            self.skipped[name] = str(error).strip().splitlines()[0] if str(error).strip() else "it fails"
            return
        self.rows = self.rows or seen.rows
        sample = self._numbers(seen, changed, self.seed + draw)
        if not draw:
            self.predicted[variant] = self._prediction(variant, changed)
        self.seen.setdefault(variant, []).append(sample)  # last, so that an interrupt leaves nothing half done

    def hopeful(self) -> list[Variant]:
        """Return the best variants whose first sample has no finding, or the best of all, if more samples are cheap."""
        if reason := self.spending.refuses_again():
            self.skipped["more draws"] = reason
            return []
        random = [variant for variant in self.seen if variant.is_random]
        well = [variant for variant in random if not self.seen[variant][0].faults]
        return sorted(well or random, key=lambda variant: -self.alternative(variant).score)[:_AGAIN]

    def alternative(self, variant: Variant) -> Alternative:
        """Return the measurements of a variant."""
        samples = self.seen[variant]
        names = ("angle", "size", "spread", "near")
        angle, size, spread, near = (_median([getattr(sample, name) for sample in samples]) for name in names)
        crossed = Counter(name for sample in samples for name in sample.faults)
        predicted, status = self.predicted[variant]
        failing, scores = sum(bool(sample.faults) for sample in samples), [sample.score for sample in samples]
        return Alternative(
            variant.name, float(np.mean(scores)), angle, predicted, size, spread, dict(crossed), failing, len(samples),
            status, variant.code, variant.advice, variant.initializer if variant.change is None else None,
            near_ratio=near if np.isfinite(near) else None,
            score_error=float(np.std(scores, ddof=1) / len(scores) ** 0.5) if len(scores) > 1 else None,
        )  # fmt: skip

    def _copied(self) -> nn.Module:
        copied = copy_of(self.model)
        return copied if self.mode is None else copied.train(self.mode == "train")

    def _sampled(self, variant: Variant, seed: int) -> nn.Module:
        """Return a copy of the model, changed and filled; all initializers of the same architecture share one copy."""
        generator = torch_generator(seed, "weights", self.device)
        if variant.change is None and variant.initializer is not None:
            changed = self._refilled = self._refilled or self._copied()
        else:
            changed = self._copied()
        if variant.change is not None:
            variant.change(changed, self.x, generator)
        return changed if variant.initializer is None else variant.initializer.fill_(changed, generator=generator)

    def _traced(self, changed: nn.Module) -> Graph:
        """Trace a copy once for all pairs that it is run on, and once for all initializers if the trace is symbolic."""
        if self._known is None or self._known.model is not changed:
            few = moved(changed)(torch.cat([self.x[:2], self.y])[:2])
            traced = trace(changed, few, opened=True)
            if changed is not self._refilled or traced.symbolic is None:
                return traced
            self._known = traced
        return self._known

    def _observed(self, changed: Graph, seed: int) -> Observation:
        pairs = torch.cat([self.x, self.y])
        return observe(changed, pairs, pairs=len(self.x), seed=seed, shuffle=False)

    def _numbers(self, seen: Observation, changed: Graph, seed: int) -> _Sample:
        facts = facts_of(changed.model, seen)
        findings = judge(seen, self.thresholds, facts)
        faults = tuple(f.name for f in findings if f.level != "info" and reinitialized(f))
        first = next(iter(self.seen.values()), ())  # of the model as it is
        is_cloned = any("equal-layers" in sample.faults for sample in first)
        if is_cloned and facts.weights is not None and facts.weights.clones and "equal-layers" not in faults:
            faults += ("equal-layers",)  # a variant with fewer copies still has copies, even below the threshold
        angle, size, spread = what_is_kept(seen)
        near = self._near(changed, seed)
        return _Sample(angle, size, spread, near / angle if angle > 0 else float("nan"), faults)

    def _near(self, changed: Graph, seed: int) -> float:
        """Return the angle ratio of samples and others near them; NaN if a sample cannot change a bit."""
        if not self.x.is_floating_point():
            return float("nan")
        added = torch.randn(self.x.shape, generator=torch_generator(seed, "near samples")).to(self.x)
        sizes = [values.flatten(1).norm(dim=1).reshape(-1, *[1] * (values.dim() - 1)) for values in (self.x, added)]
        pairs = torch.cat([self.x, self.x + _NEAR * sizes[0] / sizes[1] * added])
        options: dict[str, Any] = {"seed": seed, "shuffle": False, "gradients": False, "units": False}
        return _ratio(median_angle(observe(changed, pairs, pairs=len(self.x), **options).angle))

    def _prediction(self, variant: Variant, changed: Graph) -> tuple[float | None, str]:
        """Return the angle ratio in wide layers, if theory has the last op at little cost."""
        resized = variant.change is not None and variant.initializer is None
        batched = any(isinstance(module, _BatchNorm) and module.training for module in changed.model.modules())
        if resized or batched or not self.quick:
            return None, "measured"
        try:
            predicted = None if variant.initializer is not None else self.as_it_is
            predicted = predicted or predict(changed, self.x, self.y, variant.initializer or Present())
        except InputError:
            return None, "measured"
        status = predicted.rows[-1].status
        self.quick = all(row.status == "closed form" and len(row.shape) == 1 for row in predicted.rows)
        angles = predicted.angle[:, : len(self.x)]
        return (_ratio(median_over_pairs(angles)), status) if np.isfinite(angles[-1]).any() else (None, "measured")


def _median(values: Any) -> float:
    """Return the median of the values that are numbers; NaN without any."""
    finite = np.asarray(values)[~np.isnan(values)]
    return float(np.median(finite)) if len(finite) else float("nan")


def what_is_kept(seen: Observation) -> tuple[float, float, float]:
    """Return the ratios of median angle and scale (output / input), and the largest over the smallest gradient."""
    layers = median_over_pairs(seen.gradient_ratio)
    layers = layers[np.isfinite(layers)]
    spread = float(layers.max() / layers.min()) if len(layers) and layers.min() > 0 else float("inf")
    return _ratio(median_angle(seen.angle)), float(median_over_pairs(seen.rms_ratio[-1:])[0]), spread


def _ratio(medians: Floats) -> float:
    """Return the angle at the end over the angle where values begin, NaN if pairs start parallel."""
    before = next(iter(medians[np.isfinite(medians)]), 0.0)
    return float(medians[-1] / before) if before > 0 else float("nan")


def start_score(angle: float, size: float, spread: float, near: float = 1.0) -> float:
    """Return the score of an initialization, from `what_is_kept` and the growth of near angles; see ``SCORE``."""
    if not (angle > 0 and 0 < size < float("inf") and spread < float("inf")):
        return 0.0
    apart = np.log10(near) if near > 1 else 0.0
    off = abs(np.log10(size) - _BEST_SIZE) + _WEIGHT * (np.log10(spread) - min(0.0, np.log10(angle)) + apart)
    return float(10**-off)
