"""`coordinates`: RMS values of a model at several widths, predicted, and measured over a few optimizer steps."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from initscope._utils.randomness import torch_generator
from initscope.errors import InputError, check_count
from initscope.graph import Graph, Node, bind, hides_attention, trace
from initscope.propagate import predict
from initscope.scaling.coordinate_results import SCORES, CoordinateCheck, CoordinateRow, Floats, width_findings
from initscope.theory.attention import growth_exponent

__all__ = [
    "AtSize",
    "Factory",
    "OptimizerFactory",
    "checked_data",
    "coordinates",
    "fitted",
    "predicted_exponent",
    "predicted_sizes",
]

Factory = Callable[[int], nn.Module]
OptimizerFactory = Callable[[nn.Module], torch.optim.Optimizer]
_LEAST_PREDICTIONS = 4


def coordinates(
    factory: Factory,
    x: Any,
    *,
    widths: Sequence[int],
    targets: Any = None,
    optimizer: OptimizerFactory | None = None,
    steps: int = 5,
    draws: int = 2,
    tolerance: float = 0.2,
    seed: int = 0,
) -> CoordinateCheck:
    """Check how the scale of every row grows with the width, at initialization and after steps of the optimizer.

    This is the coordinate check of [Yang2021]_. If scales after a few steps do not depend on the width, hyperparameters
    of a narrow model transfer to a wide one.

    Parameters
    ----------
    factory : callable
        ``factory(width)`` returns the initialized model.
    x : tensor ``[samples, ...]``
        One batch. The prediction uses pairs of a sample of the first half and a sample of the second half.
    widths : sequence of int
        At least two. Four widths, each twice the one before, give exponents to about 0.05.
    targets : tensor, optional
        Classes (int) or values, with the shape that the loss needs. None: random classes of the last axis.
    optimizer : callable, optional
        ``optimizer(model)`` returns the optimizer. None: Adam as in μP, with learning rate
        0.01 · (smallest width) / width for hidden matrices, and 0.01 for embeddings, biases and norms.
    steps : int
        Number of optimizer steps; 0 checks only the initialization.
    draws : int
        Models per width to average over. Standard errors of exponents need at least two. Predictions average over at
        least four, because they use the empirical variances of the weights.
    tolerance : float
        Largest exponent, in absolute value, that passes.
    seed : int
        Seed of the weights and targets.

    Returns
    -------
    CoordinateCheck
    """
    widths = tuple(check_count("widths", width) for width in widths)
    if len(set(widths)) < 2:
        raise InputError(f"widths = {widths}: an exponent needs at least two different widths")
    steps, draws = check_count("steps", steps, least=0), check_count("draws", draws)
    data = checked_data(x)
    models = [AtSize(factory, width, data, targets, optimizer, min(widths)) for width in widths]
    runs = [[model.run(steps, seed + draw) for draw in range(draws)] for model in models]
    names = runs[0][0][1]
    if any(other != names for run in runs for _, other in run):
        raise InputError("the ops of the model differ between widths; build it with the same layers at every width")
    squares = np.stack([[size**2 for size, _ in run] for run in runs])  # [widths, draws, steps + 1, rows]
    predicted = predicted_sizes(models, names, draws, seed)
    rows = tuple(
        CoordinateRow(
            name.layer,
            name.kind,
            name.role,
            *predicted_exponent(widths, predicted[:, :, index]),
            *fitted(widths, squares[..., index]),
        )
        for index, name in enumerate(names)
    )
    reads = [name.reads for name in names]
    # With the same number of heads at every width, their size grows with the width.
    wider = frozenset(index for index in models[0].heads if len({model.heads.get(index) for model in models}) == 1)
    sizes = np.sqrt(squares.mean(axis=1))
    return CoordinateCheck(widths, steps, tolerance, rows, sizes, width_findings(rows, reads, tolerance, wider))


def checked_data(x: Any) -> Tensor:
    """Return the batch as a tensor of at least two samples."""
    data = torch.as_tensor(x)
    if len(data) < 2:
        raise InputError(f"x of shape {tuple(data.shape)} must hold at least two samples")
    return data


def predicted_exponent(sizes: Sequence[int], values: Floats) -> tuple[float, float]:
    """Return the exponent of ``values [draws, sizes]``, root mean squares over draws, and its standard error."""
    (slope,), (error,) = fitted(sizes, values.T[:, :, None] ** 2)
    return slope, error


def fitted(widths: Sequence[int], squares: Floats) -> tuple[tuple[float, ...], tuple[float, ...]]:
    r"""Return exponents of root mean squares after every step, and their errors, from ``[widths, draws, steps + 1]``.

    The slope is :math:`\sum_i w_i\log s_i` with :math:`w_i = (x_i-\bar x)/\sum_j(x_j-\bar x)^2` of the logarithms
    x of the widths. Its variance is :math:`\sum_i w_i^2\,\mathrm{Var}\log s_i`, by the jackknife over the draws at each
    width: narrow models vary more than wide ones. Of two draws that differ much, a derivative of the logarithm at their
    mean gives an error that is 10 to 20 % too small. NaN with one draw.
    """
    logs = np.log(np.asarray(widths, dtype=np.float64))
    weights = (logs - logs.mean()) / ((logs - logs.mean()) ** 2).sum()
    draws, means = squares.shape[1], squares.mean(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        others = (squares.sum(axis=1, keepdims=True) - squares) / np.float64(draws - 1)
        of_logs = (draws - 1) * (np.log(others) / 2).var(axis=1)  # s = √⟨r²⟩
    errors = np.sqrt((weights[:, None] ** 2 * of_logs).sum(axis=0))
    slopes = [float(growth_exponent(widths, values)) for values in np.sqrt(means).T]
    return tuple(slopes), tuple(errors.tolist())


class RowName(NamedTuple):
    """A row of the model, the same at every size; ``reads`` are the indices of its input rows."""

    layer: str
    kind: str
    role: str
    reads: tuple[int, ...]


class AtSize:
    """Builds the model at one size and trains it for a few steps.

    ``size`` is the width or the depth of the comparison, by default the width. It is part of the seed of the weights:
    otherwise small models would use the first random numbers of large ones, and their errors would be correlated.
    Targets are the same at all sizes.
    """

    def __init__(
        self,
        factory: Factory,
        width: int,
        data: Tensor,
        targets: Any,
        optimizer: OptimizerFactory | None,
        least: int,
        size: int | None = None,
    ) -> None:
        if not _takes_width(factory):
            raise InputError(
                f"{getattr(factory, '__name__', factory)} has no parameter for "
                "the width; coordinates need factory(width)"
            )
        self.factory, self.width, self.data, self.targets = factory, width, data, targets
        self.size = width if size is None else size
        self.optimizer = optimizer or (lambda model: _adam(model, least))
        self.heads: dict[int, int] = {}
        """Number of heads of the rows that hold scores, by the index of the row."""

    def build(self, seed: int) -> nn.Module:
        """Return the initialized model; the same seed gives the same weights."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(torch_generator(seed, f"weights at size {self.size}").initial_seed())
            model = self.factory(self.width)
        if not isinstance(model, nn.Module):
            raise InputError(
                f"the factory returned {type(model).__name__} for width {self.width}; it must return a torch.nn.Module"
            )
        return model.eval()

    def run(self, steps: int, seed: int) -> tuple[Floats, list[RowName]]:
        """Return the RMS ``[steps + 1, rows]`` of every row after every step, and the rows."""
        model = self.build(seed)
        try:
            with torch.no_grad():
                model(self.data)
        except Exception as error:
            raise bind(model, self.data).refused(error) from error
        optimizer = self.optimizer(model)
        traced = trace(model, self.data[:2], opened=hides_attention(model))
        sizes, names = [], list[RowName]()
        for step in range(steps + 1):
            seen, names, self.heads = _sizes(traced, self.data)
            sizes.append(seen)
            if step < steps:
                optimizer.zero_grad()
                _loss(model(self.data), self.targets, seed).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
        return np.stack(sizes), names


def _takes_width(factory: Any) -> bool:
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL) for p in parameters)


def _adam(model: nn.Module, least: int) -> torch.optim.Optimizer:
    """Return Adam with learning rates ∝ 1/fan-in for hidden matrices and constant rates for other parameters."""
    tables = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    groups = []
    for parameter in model.parameters():
        inside = parameter.dim() > 1 and id(parameter) not in tables
        groups.append({"params": [parameter], "lr": 0.01 * (least / parameter.shape[1] if inside else 1.0)})
    return torch.optim.Adam(groups)


def _loss(output: Any, targets: Any, seed: int) -> Tensor:
    """Return the cross-entropy over the last axis for classes, the mean squared error for values."""
    items = output.values() if hasattr(output, "keys") else output
    values: Tensor = output if isinstance(output, Tensor) else next(iter(items))
    flat = values.flatten(0, -2)
    if targets is None:
        generator = torch_generator(seed, "targets")
        return F.cross_entropy(flat, torch.randint(flat.shape[-1], (len(flat),), generator=generator))
    wanted = torch.as_tensor(targets)
    return F.mse_loss(values, wanted) if wanted.is_floating_point() else F.cross_entropy(flat, wanted.flatten())


@torch.no_grad()
def _sizes(graph: Graph, data: Tensor) -> tuple[Floats, list[RowName], dict[int, int]]:
    """Return the RMS of all rows and of attention scores, the rows, and the number of heads by the row of scores."""
    seen: dict[Any, list[tuple[str, str, float]]] = {}
    heads_of: dict[Any, int] = {}

    def watch(node: Node, args: Any, kwargs: Any, output: Any) -> None:
        tensor = output[0] if isinstance(output, (tuple, list)) and output else output
        if not isinstance(tensor, Tensor) or not tensor.is_floating_point():
            return
        seen[node] = [(node.kind, str(node.role), _rms(tensor))]
        scores = _scores(node, args, kwargs)
        if scores is not None:
            seen[node].append((SCORES, SCORES, _rms(scores)))
            heads_of[node] = scores.shape[-3]

    graph.execute(bind(graph.model, data), watch)
    indices: dict[Any, int] = {}
    names, sizes, heads_at = list[RowName](), list[float](), dict[int, int]()
    for node in graph.nodes:
        before = tuple(indices[parent] for parent in node.inputs if parent in indices)
        for kind, role, size in seen.get(node, ()):
            if kind != SCORES:
                indices[node] = len(names)
            else:
                heads_at[len(names)] = heads_of[node]
            names.append(RowName(node.name, kind, role, before))
            sizes.append(size)
    return np.array(sizes), names, heads_at


def _scores(node: Node, args: Any, kwargs: Any) -> Tensor | None:
    """Return the scores that the softmax of attention reads, ``[…, heads, queries, keys]``; None for other nodes."""
    if node.traits.attention == "fused" and len(args) > 1:
        queries, keys = args[0], args[1]
        scale = kwargs.get("scale") or queries.shape[-1] ** -0.5
        shared = keys.repeat_interleave(queries.shape[-3] // keys.shape[-3], dim=-3)  # grouped-query attention
        return scale * (queries @ shared.mT)  # type: ignore[no-any-return]
    if node.traits.attention == "weights" and args and isinstance(args[0], Tensor) and args[0].dim() > 2:
        return torch.where(args[0] > -1e9, args[0], 0.0)
    return None


def _rms(values: Tensor) -> float:
    return float(values.double().square().mean().sqrt())


def predicted_sizes(models: Sequence[AtSize], names: Sequence[RowName], draws: int, seed: int) -> Floats:
    """Return predicted RMS at initialization, ``[draws, models, rows]``, with at least four draws; NaN if unknown."""
    result = np.full((max(draws, _LEAST_PREDICTIONS), len(models), len(names)), np.nan)
    for draw, (index, at_size) in itertools.product(range(len(result)), enumerate(models)):
        model, half = at_size.build(seed + draw), len(at_size.data) // 2
        prediction = predict(model, at_size.data[:half], at_size.data[half : 2 * half], seed=seed + draw)
        input_rms = _input_rms(model, at_size.data)
        by_name = {
            row.layer: float(prediction.rms_ratio[row_index].mean()) for row_index, row in enumerate(prediction.rows)
        }
        for row_index, name in enumerate(names):
            if name.kind != SCORES:
                result[draw, index, row_index] = by_name.get(name.layer, np.nan) * input_rms
    return result


def _input_rms(model: nn.Module, data: Tensor) -> float:
    """Return the RMS that ratios refer to: that of real inputs, or of the embedding of indices."""
    if data.is_floating_point():
        return _rms(data)
    table = next((module for module in model.modules() if isinstance(module, nn.Embedding)), None)
    return float("nan") if table is None else _rms(table(data).detach())
