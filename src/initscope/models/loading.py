"""`load_model`: a torch model from a specification: a factory, a file, or an architecture string.

Architecture strings are read in `initscope.models.architectures`; this file imports factories and loads weights.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from initscope._utils.tensors import read_tensors
from initscope.errors import InputError, check_seed, did_you_mean
from initscope.models.user_modules import FreshSource, importing

if TYPE_CHECKING:
    import torch

__all__ = ["is_architecture", "load_factory", "load_model", "load_weights"]

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
        an architecture string such as ``"conv3x3x64-relu*12"``, see `initscope.models.architectures.build`; or
        ``hf:NAME_OR_CONFIG`` and ``timm:NAME``, see `initscope.models.hub_models`.
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
        torch.manual_seed(check_seed("seed", seed))
        model = _build(spec, input_shape)
        if _is_lazy(model):
            _resolve(spec, model, input_shape)
    if weights is not None:
        load_weights(model, weights)
    return model


def _build(spec: str, input_shape: tuple[int, ...] | None) -> torch.nn.Module:
    if match := FILE.fullmatch(spec):
        return _from_module(spec, _import_file(Path(match["file"])), match["attribute"] or "")
    prefix, colon, name = spec.partition(":")
    if colon and prefix in ("hf", "timm"):
        from initscope.models.hub_models import BUILDERS

        model: torch.nn.Module = BUILDERS[prefix](name)
        return model
    if (match := DOTTED.fullmatch(spec)) and not LAYER.match(spec):
        return _from_module(spec, _import_module(match["module"]), match["attribute"])
    from initscope.models.architectures import build

    return build(spec, input_shape)


def is_architecture(spec: str) -> bool:
    """Return whether ``spec`` is an architecture string, which no file or library can change."""
    prefixed = spec.partition(":")[0] in ("hf", "timm") and ":" in spec
    return not (FILE.fullmatch(spec) or prefixed or (DOTTED.fullmatch(spec) and not LAYER.match(spec)))


def _import_module(name: str) -> ModuleType:
    try:
        # Users often start the command line in the folder of their code.
        with importing(Path.cwd()):
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise InputError(
                f"module {name!r} was not found; install its package or start initscope in its folder, "
                "or give the file: path/to/file.py:factory"
            ) from error
        raise InputError(f"module {name!r} needs {error.name!r}, which is not installed") from error
    except (Exception, SystemExit) as error:
        raise InputError(f"module {name!r} fails on import: {type(error).__name__}: {error}") from error


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        near = did_you_mean(str(path), map(str, path.parent.glob("*.py")))
        raise InputError(f"{path} is not a file{near or '; give path/to/file.py:factory'}")
    # A unique name, so that it replaces no other module.
    name = f"_initscope_model_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]}"
    spec = importlib.util.spec_from_file_location(name, path, loader=FreshSource(name, str(path)))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with importing(path.resolve().parent):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise InputError(f"{path} fails on import: {type(error).__name__}: {error}") from error
    return module


def load_factory(spec: str) -> Any:
    """Return the object that ``package.module:name`` or ``file.py:name`` names, without calling it.

    >>> load_factory("torch.nn:Linear").__name__
    'Linear'
    """
    if match := FILE.fullmatch(spec):
        return _named(spec, _import_file(Path(match["file"])), match["attribute"] or "")
    if match := DOTTED.fullmatch(spec):
        return _named(spec, _import_module(match["module"]), match["attribute"])
    raise InputError(f"{spec!r} is not a function; give file.py:factory or package.module:factory")


def _named(spec: str, module: ModuleType, attribute: str) -> Any:
    factory: Any = module
    for part in attribute.split(".") if attribute else ():
        factory = getattr(factory, part, None)
    if not attribute or factory is None:
        callables = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
        defined = [name for name in callables if getattr(vars(module)[name], "__module__", "") == module.__name__]
        listed = ", ".join((defined or callables)[:8]) or "no function or class"
        what = f"no factory {attribute!r}{did_you_mean(attribute, callables)}" if attribute else "no factory named"
        raise InputError(f"{spec}: {what}; it defines {listed}. Give {module.__file__ or module.__name__}:NAME")
    return factory


def _from_module(spec: str, module: ModuleType, attribute: str) -> torch.nn.Module:
    import torch

    factory = _named(spec, module, attribute)
    if isinstance(factory, torch.nn.Module):
        return factory
    if not callable(factory):
        raise InputError(f"{spec} is of type {type(factory).__name__}; give a function, a class or a torch.nn.Module")
    try:
        model = factory()
    except SystemExit as error:
        raise InputError(f"{spec}() ends the program (exit {error.code}) instead of returning a model") from error
    except Exception as error:
        raise InputError(
            f"{spec}() fails: {type(error).__name__}: {error}; a factory is called without arguments"
        ) from error
    if not isinstance(model, torch.nn.Module):
        raise InputError(f"{spec}() returns a value of type {type(model).__name__}; it must return a torch.nn.Module")
    return model


def _is_lazy(model: torch.nn.Module) -> bool:
    from torch.nn.parameter import is_lazy

    return any(is_lazy(value) for value in (*model.parameters(), *model.buffers()))


def _resolve(spec: str, model: torch.nn.Module, input_shape: tuple[int, ...] | None) -> None:
    """Run one zero input in evaluation mode, so that lazy modules get their shapes."""
    import torch

    if input_shape is None:
        raise InputError(f"{spec} has lazy modules, which need the shape of the input; give --input-shape 3x64x64")
    training = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            model(torch.zeros(1, *input_shape))
    except (Exception, SystemExit) as error:
        raise InputError(f"{spec} refuses an input of shape {tuple(input_shape)}: {error}") from error
    finally:
        for module, mode in training.items():
            module.training = mode


def load_weights(model: torch.nn.Module, path: str | os.PathLike[str]) -> None:
    """Load a state dict from a .pt or .pth file (``weights_only=True``) or from a .npz file of arrays, strictly.

    A dict with the state dict under ``state_dict`` or ``model``, and names that all begin with ``module.`` (saved from
    DataParallel), are understood. Values take the dtype of the model's parameters.
    """
    file = Path(path)
    state = _read_state(file)
    parameters = model.state_dict()
    missing = [name for name in parameters if name not in state and not name.endswith("num_batches_tracked")]
    unexpected = [name for name in state if name not in parameters]
    wrong = [
        f"{name} {tuple(state[name].shape)} in the file, {tuple(parameters[name].shape)} in the model"
        for name in parameters
        if name in state and state[name].shape != parameters[name].shape
    ]
    parts = (("missing in the file", missing), ("not in the model", unexpected), ("of another shape", wrong))
    few = {what: ", ".join(names[:3] + ["…"] * (len(names) > 3)) for what, names in parts}
    problems = [f"{len(names)} {what}: {few[what]}" for what, names in parts if names]
    if problems:
        raise InputError(f"weights {file} do not fit the model: {'; '.join(problems)}")
    model.load_state_dict(state, strict=False)


def _read_state(file: Path) -> dict[str, torch.Tensor]:
    import torch

    state = read_tensors(file, hint="save it by torch.save(model.state_dict(), FILE)")
    if file.suffix == ".npz":
        if odd := [name for name, value in state.items() if value.dtype.kind not in "biufc"]:
            raise InputError(f"weights {file}: {odd[0]} holds {state[odd[0]].dtype}, no numbers; save the state dict")
        state = {name: torch.from_numpy(value) for name, value in state.items()}
    for key in ("state_dict", "model"):
        if isinstance(state, Mapping) and isinstance(state.get(key), Mapping):
            state = state[key]
    tensors = state.values() if isinstance(state, Mapping) else ()
    if not tensors or not all(isinstance(value, torch.Tensor) for value in tensors):
        kind = type(state).__name__
        raise InputError(
            f"weights {file} holds a value of type {kind}, not a state dict of tensors; save model.state_dict()"
        )
    if all(name.startswith("module.") for name in state):
        return {name.removeprefix("module."): value for name, value in state.items()}
    return dict(state)
