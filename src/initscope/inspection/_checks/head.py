"""IS2: head and loss: can these outputs reach a low loss at all, and where does it start?"""

from __future__ import annotations

from initscope.inspection._checks.declaration import Hit, check
from initscope.inspection.evidence import Evidence

_HEAD_GAIN = 4.0
"""Scale of the logits over that of what the head reads, beyond which the head makes them too large."""
_HOPELESS = 100.0
"""Times the threshold of the initial loss beyond which it is an error whatever makes the logits large."""


@check(
    "IS205", "step-fails", "error", reads=("gradients",),
    message="One step of training raises: {error}",
    why="what raises in the first step never trains",
    advice="run loss(model(inputs), targets).backward() on a few samples: check shapes, that classes count from 0 to "
    "the number of outputs less 1, and that nothing is overwritten in place which a gradient needs",
)  # fmt: skip
def _step_fails(evidence: Evidence, _: float) -> Hit | None:
    """Forward, loss or backward on a few samples raises; without a loss that is information."""
    step = evidence.facts.step
    if step is None or not step.failed:
        return None
    return Hit(evidence.signal.output, level=None if step.given else "info", facts={"error": step.failed})


@check(
    "IS206", "initial-loss", "error", threshold=8.0, unit="cross-entropy minus ln K, in nats", reads=("parameters",),
    message="The loss at initialization is {loss:.3g} where a uniform guess has {chance:.3g}: the logits of {at} are "
    "too large.",
    why="a network that knows nothing has cross-entropy ln K; the first steps only shrink the logits",
    advice="initialize the last layer smaller, or at zero; check that the labels are those of the outputs",
    fix='torch.nn.init.zeros_(model.get_submodule("{layer}").weight)', learning="warning", needs_norms=True,
    follows=("IS106", "IS601"),
)  # fmt: skip
def _initial_loss(evidence: Evidence, threshold: float) -> Hit | None:
    """The cross-entropy at initialization is far above ln K: an error if the last layer makes the logits large."""
    loss, chance = evidence.facts.reading.loss, evidence.facts.reading.chance
    if loss is None or chance is None or not loss - chance > threshold:
        return None
    excess = loss - chance
    error = excess > _HOPELESS * threshold or not evidence.head_gain <= _HEAD_GAIN
    place, weights = min(evidence.signal.head, evidence.signal.output), evidence.facts.weights
    tied = weights is not None and evidence.seen.rows[place].within in weights.tied
    fix = 'torch.nn.init.normal_(model.get_submodule("{layer}").weight, std=0.02)  # tied: changes the embedding too'
    facts = {"loss": loss, "chance": chance}
    return Hit(place, excess, level=None if error else "warning", fix=fix if tied else None, facts=facts)


@check(
    "IS207", "class-axis", "error", reads=("parameters", "loss"),
    message="The loss takes the second axis of the output for the classes, and {at} has them on the last one.",
    why="PyTorch's losses expect the classes on the second axis",
    advice="call output.transpose(1, 2) before the loss",
)  # fmt: skip
def _class_axis(evidence: Evidence, _: float) -> Hit | None:
    """The loss takes the classes from another axis than the last layer's, and both are equally long."""
    output = evidence.signal.output
    last = evidence.seen.rows[output].kind in ("Linear", "linear")
    return Hit(output) if evidence.facts.reading.second_axis and last else None


@check(
    "IS209", "double-softmax", "warning", stuck="error",
    message="{at} is a softmax of a softmax.",
    why="a softmax of probabilities is nearly uniform, whatever they are",
    advice="remove one of the two",
)  # fmt: skip
def _double_softmax(evidence: Evidence, _: float) -> Hit | None:
    """A softmax at the output reads a softmax."""
    rows, signal = evidence.seen.rows, evidence.signal
    output = signal.origin(signal.output)
    reads = rows[output].reads
    softmaxes = [rows[index].kind.lower() == "softmax" for index in (output, *map(signal.origin, reads[:1]))]
    return Hit(output) if len(softmaxes) == 2 and all(softmaxes) else None
