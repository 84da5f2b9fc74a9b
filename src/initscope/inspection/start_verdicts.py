"""Verdicts on the start itself: weights that are equal, a loss that does not reach, logits and inputs of wrong size."""

from __future__ import annotations

from collections import Counter

import numpy as np

from initscope.inspection.declaration import Declaration, Finding
from initscope.inspection.evidence import Evidence

__all__ = ["START_VERDICTS"]

_TINY_INPUT = 1e-3
"""Root mean square below which inputs are lost beside biases."""
_MOST = 0.5
"""Share of the weights up to which frozen ones are taken for a mistake: fine-tuning freezes most of them."""
_HEAD_GAIN = 4.0
"""Size of the logits over that of what the head reads, beyond which the head makes them too large."""
_HOPELESS = 100.0
"""Times the threshold of the loss at the start beyond which it is a fault whatever makes the logits large."""
_UNDERFLOW = 0.5
"""Share of the gradients lost in half precision from which on loss scaling is worth a word."""


def _input_scale(evidence: Evidence, threshold: float) -> Finding | None:
    """Size of what enters the first weights: a norm or a division before them is fine."""
    data = evidence.facts.data
    if data is None or not np.isfinite(data.size):
        return None
    size = data.size * evidence.entering_size
    uneven = data.largest_column > threshold and evidence.entering_weights == evidence.start
    if size > threshold or size < _TINY_INPUT:
        code = "data = (data - data.mean(0)) / (data.std(0) + 1e-6)" if uneven else None
        return Finding(evidence.start, float(size), code=code)
    if uneven:
        told = f"column {data.column} is {data.largest_column:.3g} times as large as most others"
        return Finding(evidence.start, float(size), fault=False, words=told, measured=False)
    rows = evidence.seen.rows
    inputs = [index for index, row in enumerate(rows) if row.role == "input" and row.shape]
    for index, own in zip(inputs, data.sizes, strict=False):
        if own > threshold and any(row.role == "weights" and index in row.reads for row in rows):
            told = f"weights read {rows[index].layer} as it is, whose root mean square is {own:.3g}"
            return Finding(index, own, words=told, code="")
    if data.constant_channels:
        told = f"{data.constant_channels} of {data.channels} channels never change"
        return Finding(evidence.start, float(size), words=told, code="", measured=False)
    return None


def _clones(evidence: Evidence, _: float) -> Finding | None:
    weights = evidence.facts.weights
    if weights is not None and weights.repeated:
        layer, original = next(iter(weights.repeated.items()))
        words = f"the same module as {original}, so that they share their weights: [layer] * n makes no copies"
        return Finding(evidence.row_of(original), float(len(weights.repeated)), False, layer, words)
    if weights is None or not weights.clones:
        return None
    layer, original = next(iter(weights.clones.items()))
    copies = Counter(weights.clones.values()).most_common(1)[0][1]
    fault = copies > 1 or len(weights.clones) == 1  # two equal blocks train as well as others, see docs/verdicts.rst
    words = f"equal to {original}"
    return Finding(evidence.row_of(layer), float(len(weights.clones)), fault, layer, words)


def _symmetric(evidence: Evidence, _: float) -> Finding | None:
    """Equal units that other weights read; those that make outputs get gradients of their own, one by each target."""
    weights, learning = evidence.facts.weights, evidence.signal.before_weights
    shares = {} if weights is None else weights.symmetric
    told = {path: share for path, share in shares.items() if evidence.row_of(path) in learning}
    if not told:
        return None
    layer = next(iter(told))
    return Finding(evidence.row_of(layer), max(told.values()), layer=layer)


def _odd_layer(evidence: Evidence, threshold: float) -> Finding | None:
    weights = evidence.facts.weights
    odd = {} if weights is None else {path: max(ratio, 1 / ratio) for path, ratio in weights.odd.items()}
    beyond = [path for path, ratio in odd.items() if ratio > threshold]
    if not beyond or weights is None:
        return None
    told = f"its weights are {weights.odd[beyond[0]]:.2g} times as large as those of its peers"
    return Finding(evidence.row_of(beyond[0]), odd[beyond[0]], layer=beyond[0], words=told)


def _no_gradient(evidence: Evidence, _: float) -> Finding | None:
    """Layers that are not reached, dropout of everything, some frozen among many, unused ones while training."""
    step = evidence.facts.step
    if step is None:
        return None
    code: str | None = ""
    if step.frozen_share == 1 and step.given:
        words, layers, code = "no weight of the model asks for a gradient: nothing can learn", step.frozen, None
    elif step.unregistered:
        layers = tuple(step.unregistered)
        holder = step.unregistered[layers[0]]
        code = f"model.{layers[0]} = torch.nn.{holder}(model.{layers[0]})" if holder else ""
        words = "the model runs it, but its weights are not among model.parameters(): no optimiser sees them"
    elif step.made_anew:
        rows, words = evidence.seen.rows, "the model makes layers anew in every call: no optimiser sees them"
        calls = (row.layer for row in rows if row.role == "weights" and row.kind.islower())
        layers = (next(calls, rows[evidence.signal.output].layer),)
    elif step.detached:
        words, layers = "the loss does not reach it: it is detached on the way", step.detached
    elif step.dropout.all:
        words, layers = "it drops everything: nothing behind it learns of what is before it", step.dropout.all
        code = 'model.get_submodule("{layer}").p = 0.1'
    elif step.frozen and step.frozen_share < _MOST:
        words, layers = "its weights ask for no gradient while those of most layers do", step.frozen
        code = None
    elif step.unused:
        words, layers = "the model does not run it", step.unused
    elif step.mistaken_norms:
        layers = tuple(step.mistaken_norms)
        words = f"the model does not run it, and runs {step.mistaken_norms[layers[0]]} more than once"
    elif step.dropout.nearly_all:
        words, layers = (
            "it drops more than nine in ten values: is its probability that of keeping?",
            step.dropout.nearly_all,
        )
    elif step.aside:
        words, layers = "it runs, but what the loss is of does not depend on it", step.aside
    else:
        return None
    meant = layers in (step.aside, step.dropout.nearly_all) or (layers is step.unused and evidence.seen.mode == "eval")
    return Finding(evidence.row_of(layers[0]), float(len(layers)), not meant, layers[0], words, code)


def _step_fails(evidence: Evidence, _: float) -> Finding | None:
    """A fault where a loss is given, which says that the model is to be trained."""
    step = evidence.facts.step
    if step is None or not step.failed:
        return None
    return Finding(evidence.signal.output, 1.0, step.given, words=f"one step of training raises: {step.failed}")


def _loss_at_start(evidence: Evidence, threshold: float) -> Finding | None:
    """A fault if the head makes the logits large, or if nothing can be learned beside them.

    Logits that grow with the signal through all layers cost a part of the training, which seldom fails for it.
    """
    loss, chance = evidence.facts.reading.loss, evidence.facts.reading.chance
    if loss is None or chance is None or not loss - chance > threshold:
        return None
    excess = loss - chance
    fault = excess > _HOPELESS * threshold or not evidence.head_gain <= _HEAD_GAIN
    words = f"cross-entropy {loss:.3g} where a uniform guess has {chance:.3g}"
    place, weights = min(evidence.signal.head, evidence.signal.output), evidence.facts.weights
    tied = weights is not None and evidence.seen.rows[place].within in weights.tied
    code = 'torch.nn.init.normal_(model.get_submodule("{layer}").weight, std=0.02)' if tied else None
    return Finding(place, excess, fault, words=words, code=code)


def _target_scale(evidence: Evidence, threshold: float) -> Finding | None:
    size = evidence.facts.reading.target_size
    return Finding(evidence.signal.output, size) if size > threshold else None


def _precision(evidence: Evidence, threshold: float) -> Finding | None:
    """Values beyond float16 on rows that carry the signal; gradients below it are information."""
    over = evidence.overflow
    found = np.flatnonzero(over > threshold)
    if len(found):
        return Finding(int(found[0]), float(np.nanmax(over)), words="values beyond 65504, the largest of float16")
    step = evidence.facts.step
    if step is None or step.gradients is None:
        return None
    under = float(step.gradients.shares()[1][0])
    if under > _UNDERFLOW:
        words = "of the weights' gradients vanish in float16: scale the loss, or use bfloat16"
        return Finding(evidence.start, under, fault=False, words=words, measured=False)
    return None


START_VERDICTS: tuple[Declaration, ...] = (
    Declaration(
        "input-scale",
        _input_scale,
        source="LeCun et al. 1998, section 4.3: inputs should have mean 0 and size about 1",
        advice="normalise the data: divide by 255, or subtract the mean and divide by the standard deviation",
        threshold=20.0,
        threshold_is="root mean square of what enters the first weights",
        code="data = (data - data.mean()) / data.std()",
        of_the_start=False,
    ),
    Declaration(
        "clones",
        _clones,
        source="layers that start equal see like inputs and move alike; nn.TransformerEncoder copies one layer",
        advice="draw every layer anew: call reset_parameters or an initializer after the layers were copied",
        on_constant_data=True,
        code="initscope.initializers.{law}(model)",
    ),
    Declaration(
        "symmetric",
        _symmetric,
        source="units that start equal get equal gradients and stay equal (Goodfellow et al. 2016, section 8.4)",
        advice="draw the weights of this layer at random",
        on_constant_data=True,
        code='torch.nn.init.{fill}(model.get_submodule("{layer}").weight)',
    ),
    Declaration(
        "odd-layer",
        _odd_layer,
        source="one layer out of many of the same shape was started otherwise",
        advice="start it as its peers, or say in the code why it differs",
        threshold=2.5,
        threshold_is="deviation of a layer's weights over that of all layers of its name and shape, or the inverse",
        on_constant_data=True,
        code='torch.nn.init.{fill}(model.get_submodule("{layer}").weight)',
    ),
    Declaration(
        "no-gradient",
        _no_gradient,
        source="what the loss does not reach does not learn",
        advice="remove the detach, no_grad, requires_grad_(False) or Dropout(1) on the way, unless it is meant; "
        "hold layers in nn.ModuleList or nn.ModuleDict, weights in nn.Parameter",
        on_constant_data=True,
        code='model.get_submodule("{layer}").requires_grad_(True)',
        of_the_start=False,
    ),
    Declaration(
        "step-fails",
        _step_fails,
        source="what raises in the first step never trains",
        advice="try loss(model(inputs), targets).backward() on a few samples: check shapes, that classes count from 0 "
        "to the number of outputs less 1, and that no value is written over in place which a gradient needs",
        on_constant_data=True,
        of_the_start=False,
    ),
    Declaration(
        "loss-at-start",
        _loss_at_start,
        source="a network that knows nothing has cross-entropy ln K; more means logits that are too large",
        advice="start the last layer smaller, or at zero; check that the labels are those of the outputs",
        threshold=8.0,
        threshold_is="cross-entropy minus ln K, in nats, if the last layer has a gain above 4; a hundred times that in "
        "any case; else it is told and no fault",
        on_constant_data=True,
        code='torch.nn.init.zeros_(model.get_submodule("{layer}").weight)',
        needs_norms=True,
        of_the_start=False,  # its own line changes the last layer alone, and trials have no targets to see it by
    ),
    Declaration(
        "target-scale",
        _target_scale,
        source="steps move outputs by about the learning rate: targets far beyond them are not reached",
        advice="divide the targets by their standard deviation, and multiply the outputs by it when they are used",
        threshold=1e3,
        threshold_is="root mean square of the targets over that of the outputs",
        on_constant_data=True,
        of_the_start=False,
    ),
    Declaration(
        "precision",
        _precision,
        source="float16 holds sizes from 6e-8 to 65504; Micikevicius et al. 2018",
        advice="use smaller weights or normalisation, or bfloat16, which holds what float32 does",
        threshold=1e-6,
        threshold_is="share of a row's values that float16 cannot hold",
        on_constant_data=True,
        needs_norms=True,
    ),
)
