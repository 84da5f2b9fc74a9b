"""`load_model`: a torch model from one word, as on the command line: a factory, a file, or an architecture string.

Architecture strings are read in `initscope.architectures`; this file imports factories and loads weights.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import pickle
import re
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from initscope.errors import InputError

if TYPE_CHECKING:
    import torch

__all__ = ["load_model", "load_weights"]

FILE = re.compile(r"(?P<file>.+\.py)(?::(?P<attribute>.*))?", re.DOTALL)
DOTTED = re.compile(r"(?P<module>[^\W\d][\w.]*):(?P<attribute>[^\W\d][\w.]*)")
LAYER = re.compile(r"(conv|dense)\d")


def load_model(
    spec: str,
    *,
    weights: str | os.PathLike[str] | None = None,
    input_shape: tuple[int, ...] | None = None,
    seed: int = 0,
) -> torch.nn.Module:
    """Build the model that ``spec`` names.

    Parameters
    ----------
    spec
        ``package.module:factory`` or ``file.py:factory`` (a function or class without required arguments, or a Module),
        or an architecture string such as ``"conv3x3x64-relu*12"``, see `initscope.architectures.build`.
    weights
        State dict to load: a .pt or .pth file, or a .npz file of arrays with state-dict names.
    input_shape
        Shape of one input, for example ``(3, 64, 64)``; architecture strings need it, and lazy modules
        (``torch.nn.LazyConv2d`` …) are given their shapes by it.
    seed
        Seed of the initial weights. The global random state is left as it was.

    Examples
    --------
    >>> model = load_model("dense100-relu*2", input_shape=(8,))
    >>> [name for name, _ in model.named_children()]
    ['dense1', 'relu1', 'dense2', 'relu2']
    """
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = _build(spec, input_shape)
        if input_shape is not None and _is_lazy(model):
            _resolve(model, input_shape)
    if weights is not None:
        load_weights(model, weights)
    return model


def _build(spec: str, input_shape: tuple[int, ...] | None) -> torch.nn.Module:
    if match := FILE.fullmatch(spec):
        return _from_module(spec, _import_file(Path(match["file"])), match["attribute"] or "")
    if (match := DOTTED.fullmatch(spec)) and not LAYER.match(spec):
        return _from_module(spec, _import_module(match["module"]), match["attribute"])
    from initscope.architectures import build

    return build(spec, input_shape)


def _import_module(name: str) -> ModuleType:
    try:
        # The command line is started in the folder of the user's code as often as not.
        with _searching(Path.cwd()):
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise InputError(
                f"module {name!r} was not found; install its package or start initscope in its folder, "
                "or give the file: path/to/file.py:factory"
            ) from error
        raise InputError(f"module {name!r} needs {error.name!r}, which is not installed") from error
    except Exception as error:
        raise InputError(f"module {name!r} fails on import: {type(error).__name__}: {error}") from error


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise InputError(f"{path} is not a file; give path/to/file.py:factory")
    # A name of its own, so that no module of the same name is replaced by it.
    name = f"_initscope_model_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with _searching(path.resolve().parent):
            spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise InputError(f"{path} fails on import: {type(error).__name__}: {error}") from error
    return module


@contextmanager
def _searching(folder: Path) -> Iterator[None]:
    """Let imports find modules of ``folder``, and put the search path back afterwards."""
    before = list(sys.path)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path[:] = before


def _from_module(spec: str, module: ModuleType, attribute: str) -> torch.nn.Module:
    import torch

    factory: Any = module
    for part in attribute.split(".") if attribute else ():
        factory = getattr(factory, part, None)
    if not attribute or factory is None:
        callables = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
        own = [name for name in callables if getattr(vars(module)[name], "__module__", "") == module.__name__]
        found = ", ".join((own or callables)[:8]) or "nothing that can be called"
        what = f"no factory {attribute!r}" if attribute else "no factory named"
        raise InputError(f"{spec}: {what}; it defines {found}. Give {spec.partition('.py')[0]}…:NAME")
    if isinstance(factory, torch.nn.Module):
        return factory
    if not callable(factory):
        raise InputError(f"{spec} is a {type(factory).__name__}; give a function, a class or a torch.nn.Module")
    try:
        model = factory()
    except Exception as error:
        raise InputError(
            f"{spec}() fails: {type(error).__name__}: {error}; a factory is called without arguments"
        ) from error
    if not isinstance(model, torch.nn.Module):
        raise InputError(f"{spec}() returns a {type(model).__name__}; it must return a torch.nn.Module")
    return model


def _is_lazy(model: torch.nn.Module) -> bool:
    from torch.nn.parameter import is_lazy

    return any(is_lazy(value) for value in (*model.parameters(), *model.buffers()))


def _resolve(model: torch.nn.Module, input_shape: tuple[int, ...]) -> None:
    """Run one zero input, in evaluation mode, so that lazy modules learn their shapes."""
    import torch

    training = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            model(torch.zeros(1, *input_shape))
    except Exception as error:
        raise InputError(f"the model refuses an input of shape {tuple(input_shape)}: {error}") from error
    finally:
        for module, mode in training.items():
            module.training = mode


def load_weights(model: torch.nn.Module, path: str | os.PathLike[str]) -> None:
    """Load a state dict from a .pt or .pth file (``weights_only=True``) or from a .npz file of arrays, strictly.

    A dict with the state dict under ``state_dict`` or ``model``, and names that all begin with ``module.`` (saved from
    DataParallel), are understood. Values take the dtype of the model's parameters.
    """
    import torch

    file = Path(path)
    if not file.is_file():
        raise InputError(f"weights {file}: no such file; give a .pt, .pth or .npz file")
    state = _read_state(file)
    own = model.state_dict()
    missing = [name for name in own if name not in state and not name.endswith("num_batches_tracked")]
    unexpected = [name for name in state if name not in own]
    wrong = [
        f"{name} {tuple(state[name].shape)} in the file, {tuple(own[name].shape)} in the model"
        for name in own
        if name in state and state[name].shape != own[name].shape
    ]
    parts = (("missing in the file", missing), ("not in the model", unexpected), ("of another shape", wrong))
    problems = [f"{len(names)} {what}: {', '.join(names[:3])}" for what, names in parts if names]
    if problems:
        more = ", …" if any(len(names) > 3 for _, names in parts) else ""
        raise InputError(f"weights {file} do not fit the model: {'; '.join(problems)}{more}")
    with torch.no_grad():
        for name, value in state.items():
            own[name].copy_(value)


def _read_state(file: Path) -> dict[str, torch.Tensor]:
    import numpy as np
    import torch

    state: Any
    try:
        if file.suffix == ".npz":
            with np.load(file, allow_pickle=False) as arrays:
                state = {name: torch.from_numpy(arrays[name]) for name in arrays.files}
        else:
            state = torch.load(file, map_location="cpu", weights_only=True)
    except (OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile, pickle.UnpicklingError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(
            f"weights {file} is not a file of plain tensors ({reason}); save it by torch.save(model.state_dict(), FILE)"
        ) from error
    for key in ("state_dict", "model"):
        if isinstance(state, Mapping) and isinstance(state.get(key), Mapping):
            state = state[key]
    if (
        not isinstance(state, Mapping)
        or not state
        or not all(isinstance(value, torch.Tensor) for value in state.values())
    ):
        kind = type(state).__name__
        raise InputError(
            f"weights {file} holds a {kind}, not a state dict; save it by torch.save(model.state_dict(), FILE)"
        )
    if all(name.startswith("module.") for name in state):
        return {name.removeprefix("module."): value for name, value in state.items()}
    return dict(state)
