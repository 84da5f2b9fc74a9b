"""A measuring tool leaves no trace: whatever runs inside these contexts, the user's model is as before afterwards."""

from __future__ import annotations

import copy
import os
import random
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode, _pop_mode

from initscope.errors import InputError
from initscope.graph.interrupts import give_back, hear, pass_on, uninterrupted
from initscope.graph.randomness import random_layers
from initscope.graph.saved_values import Held
from initscope.graph.threads import one_thread

__all__ = ["NoDropoutCalls", "at_leaving", "copy_of", "leaves_no_trace", "runnable", "snapshot", "without_dropout"]

_DROPOUTS = {F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, F.feature_alpha_dropout, torch.dropout}

_guarded: set[int] = set()  # models inside the context: of these the weights are kept


def runnable(model: Any, *, values: bool = True) -> nn.Module:
    """``model`` as it is to be run: a module whose parameters have ``values``, without the wrapper of `torch.compile`.

    Compilers look into the hooks and modes through which a run is watched, and compile or refuse these too.
    """
    if not isinstance(model, nn.Module):
        raise InputError(f"the model is a {type(model).__name__}; give a torch.nn.Module")
    if values and any(tensor.is_meta for tensor in [*model.parameters(), *model.buffers()]):
        raise InputError(
            "the model is on the meta device, where weights have no values; build it on a device, or move it by "
            "model.to_empty(device='cpu') and fill it: initscope.initializers.he_(model)"
        )
    original: nn.Module = getattr(model, "_orig_mod", model)
    return original


def copy_of(model: nn.Module) -> nn.Module:
    """A copy to draw weights in. Refused where the weights of a layer are not its own, or where it cannot be copied."""
    for name, module in model.named_modules():
        if "weight" in vars(module) and not isinstance(module.weight, nn.Parameter):
            origins = [origin for origin in module._parameters if origin.startswith("weight_")]
            if origins:
                raise InputError(
                    f"the weight of {name or type(module).__name__} is computed of {' and '.join(origins)} before each "
                    "call, as by pruning or the old weight norm, so it cannot be drawn; make it a plain weight "
                    "(torch.nn.utils.prune.remove, remove_weight_norm), or measure the weights it has (draws=0)"
                )
    try:
        return copy.deepcopy(model)
    except Exception as error:  # modules may hold anything: locks, files, tensors inside of a graph
        cause = " ".join(str(error).split()) or type(error).__name__
        raise InputError(
            f"{type(model).__name__} cannot be copied to draw weights in it; measure the weights it has (draws=0), "
            f"or build it anew. The cause: {cause}"
        ) from error


def leaves_no_trace(model: nn.Module) -> AbstractContextManager[None]:
    """Run the model freely inside, without gradients; afterwards, also after an exception, it is as before.

    Kept of the model: attributes, hooks and modes of modules, values of parameters and buffers and of tensors, arrays,
    generators, lists, dicts and sets that are attributes, ``requires_grad`` and ``grad``. Parameters beyond 2 GiB are
    not copied: a ``forward`` that writes them is told of. What attributes of other kinds hold is not kept.

    Kept of the process: the random states of torch, NumPy and Python, gradient mode, modes of torch functions, the
    number of torch threads, which is one inside (see `initscope.graph.threads`).
    Inference mode and autocast are off inside: the model runs in the precision that it has. One thread at a time is
    inside, and the model refuses to be called from others. Ctrl-C ends what runs, and waits for the restoring.
    """
    if any(is_lazy(tensor) for tensor in [*model.parameters(), *model.buffers()]):
        raise InputError(
            f"{type(model).__name__} holds lazy layers, which have no weights yet; run it once on a batch: model(batch)"
        )
    return _Guard(model)


_COPIED = 1 << 31  # bytes of parameters
_lock = threading.RLock()


def _renew_lock() -> None:
    """In a child process nobody is inside, whatever the parent's threads did."""
    global _lock
    _lock = threading.RLock()
    _guarded.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


class _Guard(AbstractContextManager[None]):
    """The context of `leaves_no_trace`. Whatever is changed is put back by ``_undo``, the last first."""

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
            self._undo.append(_process_state())
            self._undo.append(_random_states(self._model))
            if id(self._model) in _guarded:
                self._undo.append(snapshot(self._model))
            else:
                self._undo.append(self._kept())
                self._undo.append(partial(_guarded.discard, id(self._model)))
                _guarded.add(id(self._model))
                _refuse_other_threads(self._model)
            torch._C._set_grad_enabled(False)
            pass_on()
        except BaseException:
            self._leave()
            raise

    @uninterrupted
    def __exit__(self, *error: object) -> None:
        self._leave()
        pass_on()

    def _leave(self) -> None:
        with ExitStack() as stack:  # which goes on when one of them fails
            for undo in self._undo:
                stack.callback(undo)
            self._undo = []

    def _kept(self) -> Callable[[], None]:
        restore = snapshot(self._model, parameter_bytes=_COPIED)
        names = {id(parameter): name for name, parameter in self._model.named_parameters()}

        def put_back() -> None:
            lost = restore()
            if lost:
                told = ", ".join(names.get(id(tensor), "a tensor") for tensor in lost[:3])
                raise InputError(
                    f"the forward of {type(self._model).__name__} writes its own weights ({told}), of which there are "
                    f"too many to keep a copy; they are changed now. Load the model anew and give a copy of it"
                )

        return put_back


def at_leaving(undo: Callable[[], Any]) -> None:
    """Call ``undo`` also when the outermost context of this thread is left: an interrupt may hinder other ways."""
    if _inside:
        _inside[0]._undo.append(undo)


_inside: list[_Guard] = []  # of the one thread that may be inside, the outermost first


def _process_state() -> Callable[[], None]:
    """Leaves inference mode and autocast; returns what puts these, gradient mode and the modes of functions back."""
    devices = [name for name in ("cpu", "cuda", "mps", "xpu") if torch.is_autocast_enabled(name)]
    modes, gradients = torch._C._len_torch_function_stack(), torch.is_grad_enabled()
    outside = torch._C._InferenceMode(False) if torch.is_inference_mode_enabled() else None
    if outside is not None:
        outside.__enter__()  # type: ignore[no-untyped-call]
    for name in devices:
        torch.set_autocast_enabled(name, False)

    def restore() -> None:
        while torch._C._len_torch_function_stack() > modes:  # an interrupt may have hindered a mode from leaving
            _pop_mode()  # type: ignore[no-untyped-call]
        for name in devices:
            torch.set_autocast_enabled(name, True)
        if outside is not None:
            outside.__exit__(None, None, None)
        torch._C._set_grad_enabled(gradients)

    return restore


def _random_states(model: nn.Module) -> Callable[[], None]:
    """Puts the random states of torch, Python and NumPy back."""
    python_state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002  (the state users may rely on)
    torch_state = torch.get_rng_state()
    cuda = {tensor.device for tensor in model.parameters() if tensor.is_cuda}
    cuda_states = {device: torch.cuda.get_rng_state(device) for device in cuda}

    def restore() -> None:
        random.setstate(python_state)
        np.random.set_state(numpy_state)  # noqa: NPY002
        torch.set_rng_state(torch_state)
        for device, state in cuda_states.items():
            torch.cuda.set_rng_state(state, device)

    return restore


def _refuse_other_threads(model: nn.Module) -> None:
    """Let calls of the model from other threads fail, which would see its modes and buffers change under them."""
    if isinstance(model, (torch.jit.ScriptModule, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)):
        return  # the one takes no hooks, the others run otherwise with one
    ours = threading.get_ident()

    def refuse(*call: Any) -> None:
        if threading.get_ident() != ours:
            raise InputError(
                f"this {type(model).__name__} is being measured in another thread; wait for it, or give it a copy"
            )

    model.register_forward_pre_hook(refuse)  # the hooks that were there are put back


def snapshot(model: nn.Module, parameter_bytes: int = 0) -> Callable[[], list[Tensor]]:
    """What puts back all that `leaves_no_trace` keeps of the model itself; may be called again and again.

    Values of parameters are kept up to ``parameter_bytes``; those that changed beyond them are returned.
    """
    gradients = [(parameter, parameter.grad) for parameter in model.parameters()]
    if _only_reads_weights(model):
        parameter_bytes = 0
    held = Held(min(parameter_bytes, sum(p.numel() * p.element_size() for p in model.parameters())))
    for module in model.modules():
        if isinstance(module, (nn.Embedding, nn.EmbeddingBag)) and module.max_norm is not None:
            held.hold(module.weight)  # which looking up rescales
    for module in model.modules():
        held.hold(vars(module))

    def restore() -> list[Tensor]:
        lost = held.restore()
        for parameter, gradient in gradients:
            parameter.grad = gradient
        return lost

    return restore


def _only_reads_weights(model: nn.Module) -> bool:
    """Whether no code but torch's own layers' runs when the model does: these do not write parameters."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return all(
        type(module).__module__.startswith("torch.nn.modules.")
        and getattr(module, "max_norm", None) is None  # an embedding that rescales what it looks up
        and "forward" not in vars(module)
        and not any(vars(module).get(name) for name in hooks)
        for module in model.modules()
    )


class without_dropout(AbstractContextManager[None]):
    """Run the model without dropout and its kin, whether modules do it or ``forward`` calls it, in any mode.

    Its kin are modules whose class is called after dropout, drop path, stochastic depth, drop block or drop connect,
    and masks drawn by ``bernoulli_`` with one probability: these become the probability, which the model divides by.

    No generator: one that an interrupt has left behind would go on when it is collected, in the middle of other things.
    """

    def __init__(self, model: nn.Module) -> None:
        self._modules = random_layers(model)
        self._modes: list[bool] = []
        self._calls = NoDropoutCalls()

    def __enter__(self) -> None:
        self._modes = [module.training for module in self._modules]
        for module in self._modules:
            module.training = False
        self._calls.__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, *error: object) -> None:
        modes = torch._C._len_torch_function_stack()
        if modes and torch._C._get_function_stack_at(modes - 1) is self._calls:
            self._calls.__exit__(*error)
        for module, mode in zip(self._modules, self._modes, strict=True):
            module.training = mode


class NoDropoutCalls(TorchFunctionMode):
    """Calls of dropout as a function return their input, and random masks their mean."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _DROPOUTS:
            return args[0] if args else kwargs["input"]
        if func is Tensor.bernoulli_:
            probability = args[1] if len(args) > 1 else (kwargs or {}).get("p", 0.5)
            if isinstance(probability, (int, float)):
                return args[0].fill_(probability)
        if func is F.scaled_dot_product_attention:
            args, kwargs = (
                args[:4],
                {**dict(zip(("dropout_p", "is_causal"), args[4:])), **(kwargs or {}), "dropout_p": 0.0},
            )
        return func(*args, **(kwargs or {}))
