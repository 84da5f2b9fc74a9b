"""`train`: a small training run with checkpoints at chosen test errors, which can resume after a crash."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from initscope._utils.content import array_digest, digest_of
from initscope._utils.files import atomic_path
from initscope._utils.palette import line_color
from initscope._utils.randomness import generator
from initscope.class_geometry.augmentation import Augmentation
from initscope.class_geometry.labeled import Labeled, labeled
from initscope.class_geometry.objectives import Objective
from initscope.errors import InputError, check_between, check_count, check_seed
from initscope.graph.borrowing import runnable
from initscope.models.training_loop import Loop, seeded
from initscope.results import Result, make_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["SMALL_CNN", "Checkpoint", "Milestone", "Training", "nearest_class_mean", "train"]

SMALL_CNN = (
    "conv3x3x32:zeros-maxpool2-bn-relu-conv3x3x64:zeros-maxpool2-bn-relu-conv3x3x128:zeros-bn-relu-"
    "conv3x3x128:zeros-maxpool2-bn-relu-conv3x3x256:zeros-bn-relu-maxpool4-flatten-dense10"
)
"""A CNN for 32×32 images of ten classes, 24 million products a pass, for `initscope.models.architectures.build`.

It reaches 18 % test error on CIFAR-10 in about ten epochs, each under two minutes on one core.
"""

_STATE = "state.pt"
_MEAN_SAMPLES = 5000
"""Training samples whose outputs make the class means when a metric is learned and no classifier."""


@dataclass(frozen=True)
class Milestone:
    """One evaluation: mean loss since the previous evaluation, and the share of misclassified test samples."""

    epoch: float
    step: int
    loss: float
    test_error: float


@dataclass(frozen=True)
class Checkpoint:
    """The first evaluation at or below ``target``; ``file`` holds the state dict ('' if nothing is written)."""

    target: float
    test_error: float
    epoch: float
    file: str


@dataclass(frozen=True)
class Training(Result):
    """Result of `train`: every evaluation, the checkpoints, and whether all requested test errors were reached."""

    history: tuple[Milestone, ...]
    checkpoints: tuple[Checkpoint, ...]
    missed: tuple[float, ...]

    @property
    def test_error(self) -> float:
        """Test error at the end."""
        return self.history[-1].test_error

    def table(self) -> list[dict[str, Any]]:
        """Return one row per evaluation."""
        return [vars(evaluation) for evaluation in self.history]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Test error against epochs, checkpoints marked."""
        ax = make_axes(ax)
        ax.plot([row.epoch for row in self.history], [row.test_error for row in self.history], marker=".")
        for mark in self.checkpoints:
            ax.plot(mark.epoch, mark.test_error, "o", mfc="none", color=line_color(3))
            ax.annotate(f"{mark.target:.0%}", (mark.epoch, mark.test_error), xytext=(4, 4), textcoords="offset points")
        ax.set(xlabel="epoch", ylabel="test error", ylim=(0, None))
        return ax


def train(
    model: nn.Module,
    images: Any,
    labels: Any = None,
    *,
    objective: str | Callable[[Tensor, Tensor], Tensor] = "cross-entropy",
    stop_at_errors: Sequence[float] = (),
    out: str | os.PathLike[str] | None = None,
    seed: int = 0,
    test: Any = None,
    epochs: int = 12,
    batch: int = 256,
    optimizer: str = "sgd",
    learning_rate: float | None = None,
    weight_decay: float = 5e-4,
    label_smoothing: float = 0.0,
    flip: bool = False,
    shift: int = 0,
    margin: float = 0.5,
    metric_weight: float = 1.0,
    evaluations: int = 1,
    progress: bool = False,
) -> Training:
    r"""Train ``model`` in place and write a checkpoint at the first evaluation at or below each test error asked for.

    Source: the checkpoints at 25, 21 and 18 % of [Bronstein2016]_, and its 'DNNs as metric learners'.

    Optimizers, losses and the schedule (one cycle of the learning rate) are torch's own. The same seed, data, initial
    weights and number of threads give the same run, bit for bit, even if it was killed and restarted.

    Parameters
    ----------
    model : torch.nn.Module
        Training starts at the present weights and leaves the model in evaluation mode.
    images, labels
        Array or tensor and one label each, or an `ImageSet`. The label -1 means unknown: metric criteria use such
        samples only as similar to their own second augmented view and unlike other samples.
    objective : str or callable
        ``"cross-entropy"``; ``"triplet"`` or ``"contrastive"`` with the outputs as embeddings; the sums
        ``"cross-entropy+triplet"`` or ``"cross-entropy+contrastive"``, with the inputs of the last Linear layer as
        embeddings; or any ``loss(embeddings, labels)``, such as the losses of pytorch-metric-learning.
    stop_at_errors : sequence of float
        Test errors in (0, 1), for example ``(.25, .21, .18)``; the run ends when all are reached, or after ``epochs``.
        A checkpoint chosen by its test error is no estimate of the error on fresh data.
    out : path, optional
        Folder for the checkpoints (``error-25.pt``: a state dict) and for ``state.pt``. A killed run continues from
        ``state.pt`` and loses at most the time since the last evaluation.
    seed : int
        Seed of the order of the samples, augmentation and dropout.
    test : ImageSet, or a pair of images and labels, optional
        Images on which the test error is measured; by default a tenth of the samples, drawn by ``seed`` and not trained
        on.
    epochs, batch, weight_decay, label_smoothing : training
    optimizer : "sgd" (Nesterov momentum) or "adam" (AdamW)
    learning_rate : float, optional
        Highest rate of the cycle; by default 0.1 for sgd, 0.003 for adam.
    flip, shift : bool, int
        Augmentation: mirror half of the images; shift each by up to this many pixels.
    margin, metric_weight : float
        Margin of the metric criterion on embeddings of length 1, and its weight relative to cross-entropy.
    evaluations : int
        Test errors measured per epoch; the state is written as often. 0: at the end only.
    progress : bool
        Show a bar on stderr.

    Returns
    -------
    Training
        The errors over time and the checkpoints that were written.

    Examples
    --------
    >>> from initscope.data import load
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    >>> run = train(model, load("digits"), epochs=3, batch=64)
    >>> len(run.history), run.test_error < 0.2
    (3, True)
    """
    model = runnable(model)
    seed = check_seed("seed", seed)
    targets = [check_between("stop_at_errors", error, 0.0, 1.0) for error in sorted(stop_at_errors, reverse=True)]
    data = labeled(images, labels, unlabeled=True)
    held_out, data = _test_set(data, test, seed)
    goal = Objective(
        _laid_out(model, data.images),
        data.images,
        torch.from_numpy(data.classes),
        Augmentation(data.images.shape, flip=flip, shift=shift),
        objective,
        check_between("margin", margin, 0.0, 2.0),
        metric_weight,
        label_smoothing,
    )
    batch = min(check_count("batch", batch, least=2), goal.items)
    per_epoch = -(-goal.items // batch)
    steps = check_count("epochs", epochs) * per_epoch
    every = -(-per_epoch // evaluations) if check_count("evaluations", evaluations, least=0) else steps
    rate = check_between("learning_rate", learning_rate or (0.1 if optimizer == "sgd" else 3e-3), 0.0, 1e3)
    with seeded(seed):
        chosen = _optimizer(optimizer, model, rate, weight_decay)
        schedule = torch.optim.lr_scheduler.OneCycleLR(chosen, max_lr=rate, total_steps=steps, pct_start=0.25)
        loop = Loop(model, goal, items=goal.items, batch=batch, optimizer=chosen, schedule=schedule)
        settings = {
            "objective": objective if isinstance(objective, str) else _described(objective),
            "seed": seed, "test errors": targets, "epochs": epochs, "batch": batch, "optimizer": optimizer,
            "learning rate": rate, "weight decay": weight_decay, "label smoothing": label_smoothing, "flip": flip,
            "shift": shift, "margin": margin, "metric weight": metric_weight, "evaluations": evaluations,
            "model": _structure(model),
            "starting weights": _digest(model.state_dict().values()),
            "data": _digest([data.images, goal.classes, held_out.images, torch.from_numpy(held_out.classes)]),
        }  # fmt: skip
        run = _Run(loop, None if out is None else Path(out), settings, targets)
        run.finish(steps, every, per_epoch, lambda: _test_error(model, goal, data, held_out), progress)
    model.eval()
    return run.result()


class _Run:
    """The loop with its history, its checkpoints, and the file that both are kept in."""

    def __init__(self, loop: Loop, folder: Path | None, settings: dict[str, Any], targets: list[float]) -> None:
        self.loop, self.folder, self.settings, self.targets = loop, folder, settings, targets
        self.history: list[Milestone] = []
        self.checkpoints: list[Checkpoint] = []

    @property
    def done(self) -> int:
        return self.history[-1].step if self.history else 0

    def resume(self) -> None:
        """Continue a run with the same settings that stopped, if the folder holds one."""
        if self.folder is None or not (self.folder / _STATE).exists():
            return
        saved = torch.load(self.folder / _STATE, weights_only=True)
        differ = [name for name, value in self.settings.items() if saved["settings"].get(name) != value]
        if differ:
            raise InputError(
                f"{self.folder / _STATE} belongs to a run that differs in {', '.join(differ)}; choose another folder "
                "for this run, or remove that file"
            )
        self.loop.load(saved["loop"])
        self.history = [Milestone(**row) for row in saved["history"]]
        self.checkpoints = [Checkpoint(**row) for row in saved["checkpoints"]]

    def finish(self, steps: int, every: int, per_epoch: int, test_error: Callable[[], float], progress: bool) -> None:
        """Continue training until all test errors are reached or ``steps`` are done."""
        from tqdm import tqdm

        self.resume()
        model = self.loop.network
        with tqdm(total=steps, initial=self.done, desc="training", unit="step", disable=not progress) as bar:
            while self.done < steps and not (self.targets and len(self.checkpoints) == len(self.targets)):
                until = min((self.done // every + 1) * every, steps)
                model.train()
                losses = []
                for _ in range(until - self.done):
                    losses.append(self.loop.step())
                    bar.update()
                loss = float(torch.stack(losses).mean())
                if not np.isfinite(loss):
                    rate = self.settings["learning rate"]
                    raise InputError(f"training diverged: the loss is {loss} at learning_rate = {rate:g}; lower it")
                self.history.append(Milestone(until / per_epoch, until, loss, test_error()))
                bar.set_postfix(loss=f"{loss:.3f}", test_error=f"{self.history[-1].test_error:.3f}")
                self._save()

    def _save(self) -> None:
        """Write the checkpoints first and then the state that lists them.

        A kill in between only repeats the last part.
        """
        now = self.history[-1]
        for target in self.targets[len(self.checkpoints) :]:
            if now.test_error > target:
                break
            file = "" if self.folder is None else str(self.folder / f"error-{100 * target:g}.pt")
            if file:
                with atomic_path(file) as temporary:
                    torch.save(self.loop.network.state_dict(), temporary)
            self.checkpoints.append(Checkpoint(target, now.test_error, now.epoch, file))
        if self.folder is None:
            return
        state = {
            "settings": self.settings,
            "loop": self.loop.state(),
            "history": [vars(row) for row in self.history],
            "checkpoints": [vars(row) for row in self.checkpoints],
        }
        with atomic_path(self.folder / _STATE) as temporary:
            torch.save(state, temporary)

    def result(self) -> Training:
        return Training(tuple(self.history), tuple(self.checkpoints), tuple(self.targets[len(self.checkpoints) :]))


def _test_set(data: Labeled, test: Any, seed: int) -> tuple[Labeled, Labeled]:
    """Return the test samples and the training samples."""
    if test is None:
        order = generator(seed, "held-out tenth").permutation(np.flatnonzero(data.classes >= 0))
        held = order[: max(len(order) // 10, 1)]
        return data.pick(held), data.pick(np.setdiff1d(np.arange(len(data)), held))
    pair = test if isinstance(test, tuple) else (test, None)
    held_out = labeled(*pair, name="test images")
    unknown = sorted(set(held_out.names) - set(data.names))
    if unknown:
        raise InputError(f"the test images have classes that are not trained on: {', '.join(unknown[:5])}")
    number = np.array([data.names.index(name) for name in held_out.names])
    return Labeled(held_out.images, number[held_out.classes], data.names), data


def _laid_out(model: nn.Module, images: Tensor) -> nn.Module:
    """Return the model in the memory layout that is fastest for convolutions of images; its values do not change."""
    if images.dim() == 4:
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model


def _optimizer(name: str, model: nn.Module, rate: float, weight_decay: float) -> torch.optim.Optimizer:
    if name == "sgd":
        return torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, nesterov=True, weight_decay=weight_decay)
    if name == "adam":
        return torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=weight_decay)
    raise InputError(f"optimizer = {name!r} is unknown; choose 'sgd' or 'adam'")


def _test_error(model: nn.Module, goal: Objective, data: Labeled, held_out: Labeled) -> float:
    """Return the share of misclassified test samples, by the largest output or by the nearest class mean."""
    outputs = _outputs(model, held_out.images)
    if goal.classifies:
        guessed = outputs.argmax(axis=1)
    else:
        some = goal.labeled[:: -(-len(goal.labeled) // _MEAN_SAMPLES)].numpy()
        guessed = nearest_class_mean(_outputs(model, data.images[some]), data.classes[some], outputs)
    return float((guessed != held_out.classes).mean())


def nearest_class_mean(rows: np.ndarray, classes: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Return the class whose mean over ``rows`` is nearest to each query."""
    labels = np.unique(classes)
    means = np.stack([rows[classes == label].mean(axis=0, dtype=np.float64) for label in labels])
    return np.asarray(labels[((means**2).sum(axis=1) - 2 * (queries @ means.T)).argmin(axis=1)])


@torch.no_grad()
def _outputs(model: nn.Module, images: Tensor) -> np.ndarray:
    model.eval()
    return np.concatenate([model(part).flatten(1).float().numpy() for part in torch.split(images, 1000)])


def _described(loss: Callable[..., Any]) -> str:
    """Return a loss of the caller's own: its name, or its attributes if it is a module, and its code."""
    function = loss if hasattr(loss, "__code__") else getattr(type(loss), "forward", type(loss).__call__)
    shown = repr(loss) if isinstance(loss, nn.Module) else getattr(loss, "__qualname__", type(loss).__qualname__)
    return f"{shown} {_code(function)}"


def _structure(model: nn.Module) -> str:
    """Return a digest of a model's modules, of their settings and of the code of their forward passes."""
    kinds = {type(module): None for module in model.modules()}
    return digest_of([repr(model), *(_code(kind.forward) for kind in kinds)])


def _code(function: Any) -> str:
    """Return a digest of a Python function's code, independent of its position in the file.

    Empty for compiled functions.
    """
    code = getattr(function, "__code__", None)
    if code is None:
        return ""
    constants = [value for value in code.co_consts[1:] if not hasattr(value, "co_code")]  # the first is the docstring
    return digest_of([code.co_code, repr(code.co_names), repr(constants)])


def _digest(tensors: Iterable[Tensor]) -> str:
    """Return a text that differs between tensors that differ."""
    return array_digest(*(tensor.detach().numpy() for tensor in tensors))
