"""IS3: what depends on what: samples, tokens, masks, order, and the parameters that the loss reaches."""

from __future__ import annotations

import numpy as np

from initscope.inspection._checks.declaration import Hit, check
from initscope.inspection.evidence import Evidence
from initscope.inspection.finding import Level

_NEVER_MIXING = ("movement", "recurrent", "attention")
"""Roles of ops that act on single values, and so keep samples separate if they are used as intended."""
_MOST = 0.5
"""Share of the weights up to which frozen ones are reported as a mistake: fine-tuning freezes most weights."""
_NEEDED = 4.0
"""Standard deviations from which neighbors have similar targets, so that the targets depend on the inputs."""
_UNRELATED = 2.0
"""Standard deviations below which inputs and targets may be unrelated."""
_STRUCTURAL = {"learning": "info", "stuck": "error"}


def _listed(paths: tuple[str, ...]) -> dict[str, str]:
    """Return the fact ``more``: the number of further modules."""
    return {"more": f" (and {len(paths) - 1} more)" if len(paths) > 1 else ""}


@check(
    "IS301", "samples-mixed", "error", reads=("dependence",),
    message="The output of a sample depends on the other samples of its batch, from {at} on.",
    why="samples are independent; a wrong axis or shape lets one read another, and its label",
    advice="check which axis holds the samples there (batch_first=True, dim=1, permute before reshape)",
)  # fmt: skip
def _samples_mixed(evidence: Evidence, _: float) -> Hit | None:
    """In evaluation mode, an op mixes samples that it should keep separate, or outputs of all samples are equal."""
    return _mixed(evidence, by_statistics=False)


@check(
    "IS302", "batch-statistics", "info", reads=("dependence",),
    message="{at} computes statistics over the batch in evaluation mode, so that outputs depend on other samples.",
    why="results then depend on the batch that a sample is evaluated in",
)  # fmt: skip
def _batch_statistics(evidence: Evidence, _: float) -> Hit | None:
    """In evaluation mode, the output of a sample depends on other samples through statistics of the batch."""
    return _mixed(evidence, by_statistics=True)


def _mixed(evidence: Evidence, by_statistics: bool) -> Hit | None:
    dependence = evidence.depends
    if dependence.mixed is None:
        return None
    row = evidence.seen.rows[dependence.mixed]
    alone = len(row.reads) == 1 or row.traits.attention == "fused"
    moved = dependence.constant or (dependence.separate and row.role in _NEVER_MIXING and alone)
    return None if moved is by_statistics else Hit(dependence.mixed)


@check(
    "IS303", "future-tokens", "error", reads=("dependence", "targets"),
    message="Outputs depend on the next token of the sequence, which is their target, from {at} on.",
    why="a model that reads its target copies it, and has nothing to copy when it is used",
    advice="mask the attention so that a position sees only itself and earlier ones, or pad convolutions on one side",
    references=("Vaswani et al. 2017, section 3.2.3",),
)  # fmt: skip
def _future_tokens(evidence: Evidence, _: float) -> Hit | None:
    """Outputs at a position change with the next token, where the targets are the inputs shifted by one."""
    return None if evidence.depends.sees_next is None else Hit(evidence.depends.sees_next)


@check(
    "IS304", "unshifted-targets", "error", reads=("dependence", "targets", "parameters"),
    message="The target at each position is the token that the model reads there: the targets are not shifted by one.",
    why="copying the input solves the task, and nothing is learned about the next token",
    advice="compare output[:, :-1] with targets[:, 1:]",
)  # fmt: skip
def _unshifted_targets(evidence: Evidence, _: float) -> Hit | None:
    """The target at each position of a sequence is the input token at the same position."""
    asked = evidence.depends.forwards and evidence.facts.reading.own_tokens
    return Hit(evidence.signal.output) if asked else None


@check(
    "IS305", "order-ignored", "warning", reads=("dependence",), learning="info",
    message="Tokens in another order give the same output: nothing encodes their positions.",
    why="attention treats tokens as a set",
    advice="add position embeddings, unless the order does not matter",
    references=("Vaswani et al. 2017, section 3.5",),
)  # fmt: skip
def _order_ignored(evidence: Evidence, _: float) -> Hit | None:
    """A model with attention over tokens gives the same output if the tokens are in another order."""
    return Hit(evidence.start) if evidence.depends.orderless else None


@check(
    "IS306", "random-evaluation", "warning", reads=("dependence",),
    message="{at} drops values in evaluation mode too, so that outputs are random.",
    why="F.dropout drops by default; nn.Dropout follows the mode of the model",
    advice="pass training=self.training to F.dropout, or use nn.Dropout",
)  # fmt: skip
def _random_evaluation(evidence: Evidence, _: float) -> Hit | None:
    """Dropout makes outputs random in evaluation mode."""
    if not evidence.depends.dropping:
        return None
    calls = [index for index, row in enumerate(evidence.seen.rows) if row.traits.drops]
    return Hit(calls[0] if calls else evidence.start)


@check(
    "IS307", "constant-output", "error", reads=("dependence",), on_constant_data=False, learning="info",
    message="The output is the same for all samples, although the inputs differ.",
    why="a model whose output does not depend on its input can learn only a constant",
    advice="look for the first layer whose values no longer depend on the input",
    follows=("IS101", "IS105", "IS109", "IS811", "IS103", "IS203", "IS503"), reinitialize=True,
)  # fmt: skip
def _constant_output(evidence: Evidence, _: float) -> Hit | None:
    """Outputs are equal for all samples although inputs differ and the last layer is not zero."""
    zero_head = evidence.facts.weights is not None and evidence.head_is_zero
    return Hit(evidence.signal.output) if evidence.depends.constant and not zero_head else None


@check(
    "IS308", "all-frozen", "error", reads=("parameters",),
    message="No weight of the model requires a gradient, so that nothing can learn.",
    why="an optimizer moves only what requires a gradient",
    advice="call model.requires_grad_(True)", fix="model.requires_grad_(True)",
)  # fmt: skip
def _all_frozen(evidence: Evidence, _: float) -> Hit | None:
    """No parameter requires a gradient. Without a known loss this is a warning: the model may be frozen on purpose."""
    step = evidence.step
    if step.frozen_share < 1 or not step.frozen:
        return None
    level: Level | None = None if evidence.facts.loss_name else "warning"
    return Hit(evidence.row_of(step.frozen[0]), layer=step.frozen[0], level=level, layers=step.frozen)


@check(
    "IS309", "frozen-layers", "warning", reads=("parameters",), stuck="error", learning="info",
    message="{at} requires no gradient while other layers do{more}.",
    why="random weights that stay as they are limit what the rest can learn",
    advice="unfreeze it unless its weights are pretrained",
    fix="{unfreeze}",
)  # fmt: skip
def _frozen_layers(evidence: Evidence, _: float) -> Hit | None:
    """Some layers require no gradient while others do. Frozen copies of trained layers are intended."""
    step = evidence.step
    if not step.frozen or step.frozen_share == 1 or (step.frozen_share >= _MOST and not evidence.frozen_random):
        return None
    unfreeze = f'model.get_submodule("{step.frozen[0]}").requires_grad_(True)'
    facts = _listed(step.frozen) | {"unfreeze": unfreeze if len(step.frozen) == 1 else "model.requires_grad_(True)"}
    row, count = evidence.row_of(step.frozen[0]), float(len(step.frozen))
    return Hit(row, count, step.frozen[0], facts=facts, layers=step.frozen)


@check(
    "IS310", "unregistered-weights", "error", reads=("parameters",),
    message="The weights of {at} are used but are not in model.parameters(){more}.",
    why="an optimizer that is given model.parameters() never moves them",
    advice="hold layers in nn.ModuleList or nn.ModuleDict, and weights in nn.Parameter",
)  # fmt: skip
def _unregistered_weights(evidence: Evidence, _: float) -> Hit | None:
    """The loss depends on weights that are not registered, for example layers in a plain list or dict."""
    held = evidence.step.unregistered
    if not held:
        return None
    layers = tuple(held)
    fix = f"model.{layers[0]} = torch.nn.{held[layers[0]]}(model.{layers[0]})" if held[layers[0]] else ""
    row = evidence.row_of(layers[0])
    return Hit(row, float(len(layers)), layers[0], fix=fix, facts=_listed(layers), layers=layers)


@check(
    "IS311", "layers-made-in-forward", "error", reads=("parameters",),
    message="forward creates new layers in every call ({at}): their weights are random each time.",
    why="no optimizer updates these weights, and nothing that they learn lasts",
    advice="create the layers in __init__",
)  # fmt: skip
def _layers_made_in_forward(evidence: Evidence, _: float) -> Hit | None:
    """The loss depends on parameters that the model does not contain."""
    if not evidence.step.created_in_forward:
        return None
    rows = evidence.seen.rows
    calls = (index for index, row in enumerate(rows) if row.role == "weights" and not row.traits.weight_names)
    return Hit(next(calls, evidence.signal.output), float(evidence.step.created_in_forward))


@check(
    "IS312", "detached", "error", reads=("parameters",),
    message="The loss does not reach the weights of {at} although the output depends on them{more}.",
    why="a detach, no_grad, .data or NumPy call on the way cuts the gradient",
    advice="remove the detach, torch.no_grad or .data between this layer and the loss, unless it is meant",
)  # fmt: skip
def _detached(evidence: Evidence, _: float) -> Hit | None:
    """The loss does not reach weights that the output depends on. Straight-through estimators do not count."""
    cut = evidence.step.detached
    if not cut:
        return None
    return Hit(evidence.row_of(cut[0]), float(len(cut)), cut[0], facts=_listed(cut), layers=cut)


@check(
    "IS313", "unused-layer", "warning", reads=("parameters",), learning="info",
    message="{at} is never called{more}.",
    why="a layer that does not run was probably forgotten in forward",
    advice="call it in forward, or delete it",
)  # fmt: skip
def _unused_layer(evidence: Evidence, _: float) -> Hit | None:
    """A layer with weights is never called. In evaluation mode this is information."""
    unused, level = evidence.step.unused, "info" if evidence.seen.mode == "eval" else None
    if not unused:
        return None
    row, facts = evidence.row_of(unused[0]), _listed(unused)
    return Hit(row, float(len(unused)), unused[0], level=level, facts=facts, layers=unused)  # type: ignore[arg-type]


@check(
    "IS314", "repeated-norm", "warning", reads=("parameters",), **_STRUCTURAL,
    message="{at} is never called while {other} is called twice: probably a copy-paste slip.",
    why="two positions then share one norm's statistics and scale",
    advice="call {at} at the second position",
)  # fmt: skip
def _repeated_norm(evidence: Evidence, _: float) -> Hit | None:
    """A norm is never called while an equal one next to it is called more than once."""
    mistaken = evidence.step.mistaken_norms
    if not mistaken:
        return None
    layer = next(iter(mistaken))
    return Hit(evidence.row_of(layer), float(len(mistaken)), layer, facts={"other": mistaken[layer]})


@check(
    "IS315", "outside-loss", "warning", reads=("parameters",), **_STRUCTURAL,
    message="{at} runs, but nothing in {what} depends on it{more}.",
    why="the result was probably overwritten or forgotten; another loss may use other outputs",
    advice="check that forward uses what this layer returns",
)  # fmt: skip
def _outside_loss(evidence: Evidence, _: float) -> Hit | None:
    """A layer with weights runs, but the loss does not depend on it. If another output does, this is information."""
    dropped, level = evidence.step.dropped, None if evidence.step.dropped else "info"
    layers = dropped or evidence.step.aside
    if not layers:
        return None
    facts = _listed(layers) | {"what": "the output" if dropped else "the loss"}
    row = evidence.row_of(layers[0])
    return Hit(row, float(len(layers)), layers[0], level=level, facts=facts, layers=layers)  # type: ignore[arg-type]


@check(
    "IS316", "masked-diagonal", "warning", **_STRUCTURAL,
    message="No token attends to itself at {at}: the mask may be inverted.",
    why="an inverted mask shows each token what it must not see, and hides what it should see",
    advice="check whether True means masked or visible; let every token see itself unless the diagonal is masked on "
    "purpose",
)  # fmt: skip
def _masked_diagonal(evidence: Evidence, _: float) -> Hit | None:
    """No token gives itself any attention."""
    blind = np.flatnonzero(evidence.attention_self == 0)
    return Hit(int(blind[0]), 0.0) if len(blind) else None


@check(
    "IS317", "softmax-axis", "error", learning="info",
    message="The attention weights at {at} do not sum to 1 over the keys: the softmax runs over the wrong axis.",
    why="the values are then not averaged, but added up or mixed between queries",
    advice="take the softmax over the axis of the keys: dim=-1 if the scores have the shape [queries, keys]",
)  # fmt: skip
def _softmax_axis(evidence: Evidence, _: float) -> Hit | None:
    """The weights of an attention do not sum to 1 over the keys."""
    rows, origin = evidence.seen.rows, evidence.signal.origin
    products = [row.reads[0] for row in rows if row.traits.product and row.reads]
    permuted = [origin(index) for index in products if rows[index].traits.permutes_axes]  # sums run over another axis
    sums = evidence.attention_sums.copy()
    sums[permuted] = np.nan
    wrong = np.flatnonzero(sums > 1 + 1e-2)
    return Hit(int(wrong[0]), float(evidence.attention_sums[wrong[0]])) if len(wrong) else None


@check(
    "IS318", "stuck-zeros", "error", reads=("parameters",),
    message="{at} and the factor that multiplies it are both zero, so neither ever gets a gradient.",
    why="the product of two zeros has zero slope in both factors",
    advice="initialize one of the two factors at random",
    fix='torch.nn.init.normal_(model.get_parameter("{layer}"), std=0.02)', reinitialize=True,
)  # fmt: skip
def _stuck_zeros(evidence: Evidence, _: float) -> Hit | None:
    """A matrix of zeros gets no gradient in five steps, because the factor that multiplies it is zero too."""
    stuck = evidence.step.stuck
    if not stuck:
        return None
    row = evidence.row_of(stuck[0].rpartition(".")[0])
    return Hit(row, float(len(stuck)), stuck[0], facts={"all": stuck}, layers=stuck)


@check(
    "IS320", "input-ignored", "warning", reads=("dependence",), on_constant_data=False, threshold=0.1,
    unit="share of the input's values that the output does not depend on",
    message="The output does not depend on {percent:.0f} % of the input's values{why}.",
    why="a wrong index, stride or slice hides a part of the data from the model",
    advice="check which steps, channels or pixels are read: output[:, -1] instead of output[:, 0], the stride, slices",
)  # fmt: skip
def _input_ignored(evidence: Evidence, threshold: float) -> Hit | None:
    """A part of the input has no effect on the output: an error if only that part determines the targets.

    If the model learns, and no test shows that the targets depend on the unused part, it is information.
    """
    dependence = evidence.depends
    if not dependence.ignored > threshold:
        return None
    relation, used = dependence.ignored_relation or 0.0, dependence.used_relation or 0.0
    needed = relation > _NEEDED and used < _UNRELATED
    level = "error" if needed else "info" if evidence.harm == "none" else None
    why = ", and the targets depend on these values and not on the others" if needed else ""
    facts = {"percent": 100 * dependence.ignored, "why": why, "relation": relation, "used_relation": used}
    return Hit(evidence.start, dependence.ignored, level=level, facts=facts)  # type: ignore[arg-type]
