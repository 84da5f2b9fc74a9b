"""The declaration of a sweep: ``sweep.toml`` is read and checked before anything runs; errors give the line."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import string
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from initscope._utils.content import code_digest
from initscope._utils.files import read_small
from initscope.distributed.runs import QUANTITIES
from initscope.errors import InputError, check_between, check_count, check_seed, did_you_mean

__all__ = ["Options", "Sweep", "SweepRun", "read_sweep"]

AXES = ("architecture", "width", "depth", "initializer", "activation", "data", "seed", "quantity")
IN_ARCHITECTURES = ("width", "depth", "activation")
DEFAULTS: dict[str, list[Any]] = {"initializer": ["present"], "seed": [0], "quantity": ["predict", "measure"]}
MOST_RUNS = 1_000_000
_LARGEST_FILE = 1 << 20
_HINT = "see the examples in the documentation of sweeps"


@dataclass(frozen=True)
class Options:
    """``[run]``: what all runs of a sweep share.

    Attributes
    ----------
    pairs, draws : int
        Number of pairs of inputs, and of random initializations.
    steps, rate, batch
        Settings of the training: number of batches, the learning rate of Adam (which decays linearly to 0) and the
        batch size.
    normalize, limit
        As ``--normalize`` and ``--limit`` of the commands.
    """

    pairs: int = 100
    draws: int = 4
    steps: int = 100
    rate: float = 1e-3
    batch: int = 64
    normalize: str | None = None
    limit: int | None = None


@dataclass(frozen=True)
class SweepRun:
    """One row of the grid; None if the run does not use an axis. ``model`` is the architecture filled in."""

    architecture: str
    width: int | None
    depth: int | None
    initializer: str
    activation: str | None
    data: str
    seed: int
    quantity: str
    model: str

    def id(self, options: Options, contents: Contents) -> str:
        """Return a name from everything that the result depends on, sources and the version of torch included."""
        text = json.dumps([asdict(self), asdict(options), asdict(contents), code_digest()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:20]


@dataclass(frozen=True)
class Contents:
    """Digests of the data and model of a run; empty if the name determines the content.

    This is so for synthetic data and architecture strings.
    """

    data: str = ""
    model: str = ""


@dataclass(frozen=True)
class Sweep:
    """The runs in the order of the grid, the last axis fastest, and the settings that they share.

    ``data`` and ``models`` (by model and data) hold digests of content that may change under the same name.
    """

    runs: tuple[SweepRun, ...]
    options: Options
    data: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def contents(self, run: SweepRun) -> Contents:
        """Return digests of the data and the model of a run."""
        return Contents(self.data.get(run.data, ""), self.models.get((run.model, run.data), ""))

    def by_id(self) -> dict[str, SweepRun]:
        """Return the runs by name, in order."""
        return {run.id(self.options, self.contents(run)): run for run in self.runs}


class _Text:
    """The file's text, from which errors take their line."""

    def __init__(self, path: str | os.PathLike[str], text: str) -> None:
        self.path, self.lines = path, text.splitlines()

    def error(self, table: str, key: str | None, problem: object, value: object = None) -> InputError:
        """Return an error with the line of ``value``, or else of its key or its table."""
        return InputError(f"{self.path}, line {self._line(table, key, value)}: {problem}")

    def _line(self, table: str, key: str | None, value: object) -> int:
        start = self._after(rf"\s*\[\s*{re.escape(table)}\s*\]", 0)
        if key is not None:
            dotted = self._after(rf"\s*{re.escape(table)}\s*\.\s*[\"']?{re.escape(key)}", 0)
            start = self._after(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=", start) if start or not dotted else dotted
        if value is not None:
            start = self._after(f".*{re.escape(str(value))}", start)
        return start + 1

    def _after(self, pattern: str, start: int) -> int:
        return next((line for line in range(start, len(self.lines)) if re.match(pattern, self.lines[line])), start)


def read_sweep(path: str | os.PathLike[str]) -> Sweep:
    """Read and check a declaration; this runs nothing, but loads the data and builds models without memory.

    Raises
    ------
    InputError
        The message gives the line: unknown keys, empty lists, values of a wrong type, axes that no architecture uses,
        models that do not fit the data, sizes that do not fit into memory.
    """
    raw = read_small(path, "a sweep", _HINT, _LARGEST_FILE)
    try:
        content = tomllib.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # TOMLDecodeError says the line; a text that is no UTF-8
        raise InputError(f"{path} is not TOML: {error}; {_HINT}") from error
    text = _Text(path, raw.decode("utf-8"))
    for table, value in content.items():
        if table not in ("grid", "run") or not isinstance(value, dict):
            raise text.error(table, None, f"unknown {table!r}; a sweep has the tables [grid] and [run]")
    options = _options(content.get("run", {}), text)
    grid = _grid(content.get("grid", {}), text)
    return _with_contents(Sweep(tuple(_runs(grid, text)), options), text)


def _unknown(key: str, known: tuple[str, ...]) -> str:
    return f"unknown key {key!r}{did_you_mean(key, known)}; known: {', '.join(known)}"


def _options(given: Mapping[str, Any], text: _Text) -> Options:
    known = tuple(field.name for field in fields(Options))
    checks: dict[str, Callable[[str, Any], Any]] = {
        "pairs": lambda name, value: check_count(name, value, most=1_000_000),
        "draws": lambda name, value: check_count(name, value, most=100_000),
        "steps": lambda name, value: check_count(name, value, most=10_000_000),
        "batch": lambda name, value: check_count(name, value, most=1_000_000),
        "limit": lambda name, value: check_count(name, value),
        "rate": lambda name, value: check_between(name, value, 0, 1e6),
        "normalize": _text,
    }
    for key, value in given.items():
        if key not in known:
            raise text.error("run", key, _unknown(key, known))
        try:
            checks[key](key, value)
        except InputError as error:
            raise text.error("run", key, error) from error
    return Options(**given)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise InputError(f"{name} = {value!r} must be a nonempty string")
    return value


def _grid(given: Mapping[str, Any], text: _Text) -> dict[str, list[Any]]:
    """Return the lists, checked value by value; axes that are not given have their default, or [None]."""
    for key, values in given.items():
        if key not in AXES:
            raise text.error("grid", key, _unknown(key, AXES))
        if not isinstance(values, list) or not values:
            raise text.error("grid", key, f"{key} = {values!r} must be a list with at least one value")
        for number, value in enumerate(values):
            try:
                _CHECKS[key](key, value)
            except InputError as error:
                raise text.error("grid", key, error, value) from error
            if value in values[:number]:
                raise text.error("grid", key, f"{key} holds {value!r} twice", value)
    for key in ("architecture", "data"):
        if key not in given:
            raise text.error("grid", None, f"[grid] has no {key}; give a list, {key} = [...]")
    return {axis: given.get(axis, DEFAULTS.get(axis, [None])) for axis in AXES}


def _architecture(name: str, value: Any) -> None:
    _text(name, value)
    for filled in _fields(value):
        if filled not in IN_ARCHITECTURES:
            raise InputError(
                f"architecture {value!r} has {{{filled}}}; fields are {{width}}, {{depth}}, {{activation}}"
            )


def _fields(architecture: str) -> set[str]:
    """Return the names in braces."""
    try:
        parts = list(string.Formatter().parse(architecture))
    except ValueError as error:
        raise InputError(f"architecture {architecture!r}: {error}; braces hold width, depth or activation") from error
    return {f"{name}:{form}" if form or conversion else name for _, name, form, conversion in parts if name is not None}


def _activation(name: str, value: Any) -> None:
    from initscope.models.architectures import activation_names

    if _text(name, value).partition(":")[0] not in activation_names():
        raise InputError(f"{name} {value!r} is not known; known: {', '.join(activation_names())}")


def _initializer(name: str, value: Any) -> None:
    from initscope.initializers import named

    named(_text(name, value))


def _quantity(name: str, value: Any) -> None:
    if value not in QUANTITIES:
        raise InputError(f"{name} {value!r} is not known; known: {', '.join(QUANTITIES)}")


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "architecture": _architecture,
    "width": lambda name, value: check_count(name, value, most=10_000_000),
    "depth": lambda name, value: check_count(name, value, most=5_000),
    "initializer": _initializer,
    "activation": _activation,
    "data": _text,
    "seed": check_seed,
    "quantity": _quantity,
}


def _runs(grid: dict[str, list[Any]], text: _Text) -> Iterator[SweepRun]:
    """Yield all combinations; an axis that an architecture does not use does not multiply its runs."""
    used = {architecture: _fields(architecture) for architecture in grid["architecture"]}
    for axis in IN_ARCHITECTURES:
        missing = [architecture for architecture, names in used.items() if axis in names and grid[axis] == [None]]
        if missing:
            raise text.error("grid", "architecture", f"{missing[0]!r} needs {axis}; give a list of them", missing[0])
        if grid[axis] != [None] and not any(axis in names for names in used.values()):
            raise text.error("grid", axis, f"no architecture has {{{axis}}}; write it where {axis} belongs")
    total = 0
    for architecture, names in used.items():
        lists = {axis: [None] if axis in IN_ARCHITECTURES and axis not in names else grid[axis] for axis in AXES[1:]}
        size = 1
        for values in lists.values():
            size *= len(values)
        total += size
        if total > MOST_RUNS:
            raise text.error("grid", None, f"the grid has more than {MOST_RUNS} runs; divide it into several sweeps")
        for chosen in itertools.product(*lists.values()):
            row = dict(zip(lists, chosen, strict=True))
            filled = architecture.format(**{axis: row[axis] for axis in names})
            yield SweepRun(architecture=architecture, **row, model=filled)


def _with_contents(sweep: Sweep, text: _Text) -> Sweep:
    """Load every data set once, and build every architecture for it without memory for weights."""
    from initscope.distributed.runs import images_digest, load_images

    shapes: dict[str, tuple[int, ...]] = {}
    labeled: dict[str, bool] = {}
    data: dict[str, str] = {}
    models: dict[tuple[str, str], str] = {}
    options = sweep.options
    for run in sweep.runs:
        if run.data not in shapes:
            try:
                images = load_images(run.data, run.seed, options.pairs, options.normalize, options.limit)
            except InputError as error:
                raise text.error("grid", "data", error, run.data) from error
            shapes[run.data], labeled[run.data] = images.shape, images.labels is not None
            data[run.data] = images_digest(run.data, images)
        if run.quantity == "train" and not labeled[run.data]:
            raise text.error("grid", "quantity", f"train needs labels, and {run.data} has none", "train")
    for model, architecture, name in {(run.model, run.architecture, run.data): None for run in sweep.runs}:
        try:
            models[model, name] = _checked_model(model, shapes[name])
        except InputError as error:
            raise text.error("grid", "architecture", error, architecture) from error
    return replace(sweep, data=data, models=models)


def _checked_model(model: str, shape: tuple[int, ...]) -> str:
    """Refuse a model that cannot be built for inputs of ``shape``, or whose weights would not fit into memory.

    Return the digest of its structure, see `initscope.distributed.runs.structure_digest`.
    """
    import torch

    from initscope._utils.files import memory_limit
    from initscope.distributed.runs import structure_digest
    from initscope.models import load_model

    try:
        with torch.device("meta"):
            built = load_model(model, input_shape=shape)
    except RuntimeError as error:  # sizes that overflow
        raise InputError(f"{model!r} cannot be built: {error}") from error
    bytes_ = 3 * sum(value.numel() * value.element_size() for value in built.parameters())
    if bytes_ > memory_limit():
        raise InputError(
            f"{model!r} has weights of {bytes_ / 3e9:.3g} GB, and a run holds three copies; the limit is "
            f"{memory_limit() / 1e9:.3g} GB (INITSCOPE_MEMORY=GB changes it); make it narrower"
        )
    return structure_digest(model, built)
