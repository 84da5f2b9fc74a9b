"""`borrowed`: use a user's model and leave no trace: whatever runs inside, the model is as before afterwards."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from initscope.errors import InputError
from initscope.graph.interrupts import give_back, hear, pass_on, uninterrupted
from initscope.graph.process_state import keep_modes, keep_random_states
from initscope.graph.random_layers import NoDropoutCalls, without_dropout
from initscope.graph.saved_state import SavedState, ask_for_gradient
from initscope.graph.threads import one_thread
from initscope.graph.torch_code import OtherThreads, only_torch_code

__all__ = [
    "NoDropoutCalls",
    "at_leaving",
    "borrowed",
    "copy_of",
    "modules_of",
    "runnable",
    "snapshot",
    "unwrapped",
    "without_dropout",
]

_IS_META = attrgetter("is_meta")


def unwrapped(model: nn.Module) -> nn.Module:
    """Return the model inside wrappers that run it unchanged: data parallel wrappers and that of `torch.compile`.

    Compilers inspect the hooks and modes through which a run is observed, and compile or refuse these too; wrappers
    that copy the model to several devices hide its layers.

    Parameters
    ----------
    model : nn.Module
        Any model.

    Returns
    -------
    nn.Module
        The innermost model; the same object if it has no wrapper.

    >>> layer = nn.Linear(2, 2)
    >>> unwrapped(nn.DataParallel(layer)) is layer, unwrapped(layer) is layer
    (True, True)
    """
    while True:
        inside: Any = getattr(model, "_orig_mod", None)
        if isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
            inside = model.module
        if not isinstance(inside, nn.Module):
            return model
        model = inside


def runnable(model: Any, *, values: bool = True) -> nn.Module:
    """Return ``model`` ready to run: a module whose parameters have ``values``, without wrappers.

    Parameters
    ----------
    model : object
        What the user gave.
    values : bool
        Refuse parameters on the meta device.

    Returns
    -------
    nn.Module
    """
    if not isinstance(model, nn.Module):
        step = (
            f"load it first: initscope.models.load_model({model!r})"
            if isinstance(model, str)
            else "give a torch.nn.Module"
        )
        raise InputError(f"the model is of type {type(model).__name__}; {step}")
    if values and id(model) not in _borrowed and any(map(_IS_META, chain(model.parameters(), model.buffers()))):
        raise InputError(
            "the model is on the meta device, where weights have no values; build it on a device, or move it by "
            "model.to_empty(device='cpu') and fill it: initscope.initializers.he_(model)"
        )
    return unwrapped(model)


def copy_of(model: nn.Module) -> nn.Module:
    """Return a copy to draw weights in.

    Models whose layers do not own their weights, or that cannot be copied, are refused. Models whose layers do not own
    their weights, or that cannot be copied, are refused.

    Parameters
    ----------
    model : nn.Module
        The user's model.

    Returns
    -------
    nn.Module
    """
    for name, module in model.named_modules():
        if "weight" in vars(module) and not isinstance(module.weight, nn.Parameter):
            origins = [origin for origin in module._parameters if origin.startswith("weight_")]
            if origins:
                raise InputError(
                    f"the weight of {name or type(module).__name__} is computed from {' and '.join(origins)} before "
                    "each call, as by pruning or the old weight norm, so it cannot be drawn; make it a plain weight "
                    "(torch.nn.utils.prune.remove, remove_weight_norm), or measure the weights it has (draws=0)"
                )
    try:
        return copy.deepcopy(model)
    except Exception as error:  # modules may hold anything: locks, files, tensors inside of a graph
        cause = " ".join(str(error).split()) or type(error).__name__
        raise InputError(
            f"{type(model).__name__} cannot be copied to sample weights in it; measure the weights it has (draws=0), "
            f"or build it again. The cause: {cause}"
        ) from error


def borrowed(model: nn.Module) -> AbstractContextManager[None]:
    """Run the model freely inside, without gradients; afterwards, also after an exception, it is as before.

    Restored in the model: attributes (also those in ``__slots__``), hooks and modes of modules, values and version
    counters of parameters and buffers, values of tensors, arrays, byte arrays, generators, lists, dicts and sets that
    are attributes, ``requires_grad`` and ``grad``. Inside, buffers and other tensors of modules are copies: the user's
    own are not written. Parameters beyond 2 GiB are not copied: a ``forward`` that writes them is refused with an
    error. Attributes of other kinds are not restored.

    Restored in the process: the random states of torch, NumPy and Python, gradient mode, modes of torch functions,
    default dtype, deterministic algorithms, anomaly mode, and the number of torch threads, which is one inside (see
    `initscope.graph.threads`). Inference mode and autocast are off inside: the model runs in the precision that it has.
    Only one thread at a time can enter, and calls of the model from other threads fail. Ctrl-C stops the run, but not
    the restoring.

    A model that is already borrowed is not saved again: leaving the inner context restores the modes at its entry, and
    buffers and attributes as the outer context found them.

    Parameters
    ----------
    model : nn.Module
        The user's model, or a copy.

    Returns
    -------
    context manager
    """
    if id(model) in _borrowed:
        return _Borrowed(model)
    if any(map(is_lazy, [*model.parameters(), *model.buffers()])):
        raise InputError(
            f"{type(model).__name__} holds lazy layers, which have no weights yet; run it once on a batch: model(batch)"
        )
    return _Borrowed(model)


_COPIED = 1 << 31  # bytes of parameters
_lock = threading.RLock()
_borrowed: dict[int, _Loan] = {}  # models inside of a context, by id


def _renew_lock() -> None:
    """A child process starts with no thread inside, whatever the parent's threads did."""
    global _lock
    _lock = threading.RLock()
    _borrowed.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def modules_of(model: nn.Module) -> list[nn.Module]:
    """Return all modules of a model, each once; for a borrowed model the list already exists.

    Parameters
    ----------
    model : nn.Module
        Any model.

    Returns
    -------
    list of nn.Module
        Do not change it.
    """
    loan = _borrowed.get(id(model))
    return list(model.modules()) if loan is None else loan.modules


def _parameters(modules: list[nn.Module]) -> list[nn.Parameter]:
    """Return the parameters of modules, each once."""
    parameters: dict[int, nn.Parameter] = {}
    for module in modules:
        for parameter in module._parameters.values():
            if parameter is not None:
                parameters[id(parameter)] = parameter
    return list(parameters.values())


class _Loan:
    """A borrowed model: its saved state, once per model."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.modules = list(model.modules())
        parameters = _parameters(self.modules)
        self.cuda = {parameter.device for parameter in parameters if parameter.is_cuda}
        self._gradients = [(parameter, parameter.grad, parameter.requires_grad) for parameter in parameters]
        self._modes = [module.training for module in self.modules]
        self._own_code = not only_torch_code(self.modules)
        if self._own_code:
            size = sum([parameter.numel() * parameter.element_size() for parameter in parameters])
            self._saved = SavedState(self.modules, min(_COPIED, size), swap=True)
        else:  # torch's own layers write nothing but their buffers
            buffers = [module._buffers for module in self.modules if module._buffers]
            hooks = [model._forward_pre_hooks, model._forward_pre_hooks_with_kwargs]
            self._saved = SavedState((), swap=True, containers=[*buffers, *hooks])

    def refuse_other_threads(self) -> None:
        """Let calls of the model from other threads fail, because its modes and buffers change in the meantime."""
        model = self.model
        if isinstance(model, (torch.jit.ScriptModule, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)):
            return  # the one takes no hooks, the others run otherwise with one
        model.register_forward_pre_hook(OtherThreads(type(model).__name__))  # the hooks that were there are put back
        self._saved.note_inside()

    def give_back(self) -> None:
        """Put everything back."""
        lost = self._saved.restore()
        self._set_modes(self._modes)
        for parameter, gradient, needs_gradient in self._gradients:
            if parameter.grad is not gradient:
                parameter.grad = gradient
            if not self._own_code and parameter.requires_grad is not needs_gradient:
                ask_for_gradient(parameter, needs_gradient)
        if lost:
            names = {id(parameter): name for name, parameter in self.model.named_parameters()}
            shown = ", ".join(names.get(id(tensor), "a tensor") for tensor in lost[:3])
            raise InputError(
                f"the forward of {type(self.model).__name__} changes its own weights ({shown}), which are too large "
                f"to be copied and restored; they are changed now. Load the model again, and pass a copy of it"
            )

    def inner(self) -> Callable[[], None]:
        """Return a function that restores, at the end of an inner context, what may have changed inside it."""
        modes = [module.training for module in self.modules]

        def reset() -> None:
            self._saved.reset() if self._own_code else self._saved.reset_copies()
            self._set_modes(modes)

        return reset

    def _set_modes(self, modes: list[bool]) -> None:
        for module, mode in zip(self.modules, modes, strict=True):
            if module.training is not mode:
                module.training = mode


class _Borrowed(AbstractContextManager[None]):
    """The context of `borrowed`. Whatever is changed is put back by ``_undo``, the last first."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._undo: list[Callable[[], Any]] = []

    @uninterrupted
    def __enter__(self) -> None:
        lock = _lock
        lock.acquire()
        self._undo.append(lock.release)
        self._undo.append(partial(_inside.remove, self))
        _inside.append(self)
        try:
            if hear():
                self._undo.append(give_back)
            self._undo.append(one_thread())
            self._undo.append(keep_modes())
            loan = _borrowed.get(id(self._model))
            if loan is not None:
                self._undo.append(keep_random_states(loan.cuda))
                self._undo.append(loan.inner())
            else:
                loan = _Loan(self._model)
                self._undo.append(keep_random_states(loan.cuda))
                self._undo.append(loan.give_back)
                self._undo.append(partial(_borrowed.pop, id(self._model), None))
                _borrowed[id(self._model)] = loan
                loan.refuse_other_threads()
            torch._C._set_grad_enabled(False)
            pass_on()
        except BaseException:
            self._leave_and_pass_on()
            raise

    @uninterrupted
    def __exit__(self, *error: object) -> None:
        self._leave_and_pass_on()

    def _leave_and_pass_on(self) -> None:
        try:
            self._leave()
        finally:  # an interrupt that waits belongs to this call, not to the next one
            pass_on(3)

    def _leave(self) -> None:
        with ExitStack() as stack:  # which goes on when one of them fails
            for undo in self._undo:
                stack.callback(undo)
            self._undo = []


def at_leaving(undo: Callable[[], Any]) -> None:
    """Call ``undo`` also when the outermost context of this thread is left: an interrupt may hinder other ways."""
    if _inside:
        _inside[0]._undo.append(undo)


_inside: list[_Borrowed] = []  # of the one thread that may be inside, the outermost first


def snapshot(model: nn.Module) -> Callable[[], list[Tensor]]:
    """Return a function that restores a model of our own, except for the values of its parameters.

    Parameters
    ----------
    model : nn.Module
        A copy, whose weights are drawn.

    Returns
    -------
    callable
        May be called again and again.
    """
    return SavedState(modules_of(model)).restore
