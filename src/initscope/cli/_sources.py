"""MODEL and DATA on the command line: the options that commands share, and how they are loaded.

A command takes ``source: Source | None = None`` (its fields become options) and calls `load_pairs` or `load_sources`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, NamedTuple

from cyclopts import Parameter

from initscope.cli._help import DATA, MODEL
from initscope.cli._options import Seed, Whole
from initscope.cli._output import ask_of, say, user_code
from initscope.data.named import LOADERS
from initscope.errors import InputError, check_count
from initscope.results import counted

if TYPE_CHECKING:
    import torch

    from initscope.data import ImageSet
    from initscope.distributed import Blocks

__all__ = [
    "BlockOptions",
    "DataSource",
    "InspectSource",
    "ModelSource",
    "Sources",
    "build_model",
    "data_spec",
    "load_blocks",
    "load_data",
    "load_pairs",
    "load_sources",
    "parse_shape",
    "read_data",
]

DEFAULT_DATA = "photos"
DATA_HELP = (
    f"A name ({', '.join(LOADERS)}), if wanted with "
    "options (photos:crop=32,stride=16; fashion-mnist:split=test; gaussian:rho=0.5,shape=3x64x64; shapes:size=64), "
    "a folder of images (subfolders are classes), arrays (.npy, .npz, .pt, .safetensors), a table (.csv, .tsv, "
    ".parquet, .feather, .arrow, .jsonl), a WebDataset archive (.tar), or text and text:FILE for bytes as tokens. "
    "Default: photos."
)


@Parameter(name="*", group=DATA)
@dataclass(frozen=True, kw_only=True)
class DataSource:
    """Options that say which data to use, and which pairs of it."""

    data: Annotated[str | None, Parameter(help=DATA_HELP)] = None
    size: Annotated[
        str | None,
        Parameter(help="Images: crop and resize them to this side, or to HEIGHTxWIDTH. Text: tokens of a sequence."),
    ] = None
    target_column: Annotated[
        str | None, Parameter(help="Column of a table that holds the targets. Default: label, target, class or y.")
    ] = None
    columns: Annotated[
        str | None, Parameter(help="Columns of a table that are inputs, with commas. Default: all but the target.")
    ] = None
    tokenizer: Annotated[
        str | None, Parameter(help="Folder or cached name of a transformers tokenizer, for text. Default: bytes.")
    ] = None
    normalize: str | None = None
    """Normalization: imagenet, standardize, or MEAN,STD; default: none, values in [0, 1]."""
    limit: Whole | None = None
    """Use at most this number of images."""
    input_shape: str | None = None
    """Shape of one input, such as 3x64x64; without --data the inputs are then independent standard Gaussian."""
    pairs: Whole = 64
    """Number of pairs of images."""
    seed: Seed = 0
    """Seed of all random numbers."""


@Parameter(name="*", group=DATA)
@dataclass(frozen=True, kw_only=True)
class ModelSource(DataSource):
    """Options of commands that take a MODEL and data."""

    weights: Annotated[
        str | None, Parameter(group=MODEL, help="State dict for the model: .pt, .pth, .safetensors or .npz.")
    ] = None


@Parameter(name="*", group=DATA)
@dataclass(frozen=True, kw_only=True)
class InspectSource(ModelSource):
    """Model and data of `inspect`, with its own number of pairs."""

    pairs: Whole = 256
    """Number of pairs of images."""


@Parameter(name="*", group=DATA)
@dataclass(frozen=True, kw_only=True)
class BlockOptions:
    """Options for data larger than memory."""

    rows: Whole | None = None
    """Read this number of rows at a time: for .npy, Parquet and folders of any size."""
    dask: str | None = None
    """Address of a Dask scheduler, such as tcp://host:8786, whose workers compute the blocks."""

    @property
    def asked(self) -> bool:
        """Whether data are read block by block."""
        return self.rows is not None or self.dask is not None


class Sources(NamedTuple):
    """Model and data of the options; pair k is ``x[k], y[k]``."""

    model: torch.nn.Module
    x: torch.Tensor
    y: torch.Tensor


def parse_shape(text: str, *, option: str = "--input-shape", example: str = "3x64x64") -> tuple[int, ...]:
    """Return the sizes in ``AxBxC``; ``example`` is the example in the error message.

    >>> parse_shape("3x64x64")
    (3, 64, 64)
    """
    sides = text.lower().replace("×", "x").split("x")
    if not all(side.strip().isdecimal() and int(side) > 0 for side in sides):
        raise InputError(f"{option} {text!r}: give positive whole numbers joined by x, such as {example}")
    return tuple(map(int, sides))


def _size(text: str | None) -> int | tuple[int, int] | None:
    if text is None:
        return None
    example = "64 or 48x64"
    height, *rest = parse_shape(text, option="--size", example=example)
    if len(rest) > 1:
        raise InputError(f"--size {text!r}: give one side or HEIGHTxWIDTH, such as {example}")
    return (height, rest[0]) if rest else height


def load_data(source: DataSource) -> ImageSet:
    """Return the data that the options select, and print a summary to stderr."""
    from initscope.data.checks import check_set

    data = read_data(source)
    if source.input_shape is not None and data.shape != parse_shape(source.input_shape):
        raise InputError(
            f"--input-shape {source.input_shape} but {data.name} has inputs of {'x'.join(map(str, data.shape))}; "
            "leave --input-shape out, or give --size for a folder"
        )
    check_set(data)
    say(f"data: {data.summary}")
    ask_of(
        data={"source": data_spec(source), "name": data.name, "samples": len(data), "shape": list(data.shape)},
        seed=source.seed,
    )
    return data


def read_data(source: DataSource) -> ImageSet:
    """Return the data that the options select, with missing values and without a summary."""
    import warnings

    from initscope.data.sources import load, seeded

    spec, limit = data_spec(source), source.limit
    check_count("pairs", source.pairs)
    if spec.partition(":")[0] == "gaussian" and limit is None:
        limit = 2 * source.pairs
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", UserWarning)
        data = load(
            seeded(spec, source.seed),
            size=_size(source.size),
            normalize=source.normalize,
            limit=limit,
            target_column=source.target_column,
            columns=None if source.columns is None else [name.strip() for name in source.columns.split(",")],
            tokenizer=source.tokenizer,
        )
    for warning in warned:
        say(f"warning: {warning.message}")
    return data


def data_spec(source: DataSource) -> str:
    """Return the name or path of the data, after a check that it exists and is of a known kind; nothing is read."""
    from initscope.data.kinds import check_source

    if source.data is None and source.input_shape is not None:
        return f"gaussian:rho=0,shape={'x'.join(map(str, parse_shape(source.input_shape)))}"
    spec = DEFAULT_DATA if source.data is None else source.data
    check_source(spec)
    return spec


def load_blocks(source: DataSource, options: BlockOptions, *, rows: int | None = None) -> Blocks:
    """Return the data of the options as blocks, of ``rows`` rows unless the options set another number."""
    from initscope.distributed import open_blocks

    if source.data is None or source.limit is not None:
        what = "no --data" if source.data is None else "--limit"
        raise InputError(
            f"{what} cannot be combined with --rows or --dask, which read a whole file or folder; give only --data"
        )
    if source.data.partition(":")[0] in LOADERS:
        raise InputError(
            f"--data {source.data} fits into memory and is not read in blocks; leave --rows and --dask out"
        )
    shape = None if source.input_shape is None else parse_shape(source.input_shape)
    rows = rows if options.rows is None else options.rows
    loaded = open_blocks(source.data, rows=rows, size=_size(source.size), shape=shape, normalize=source.normalize)
    say(f"data: {loaded.summary}")
    ask_of(data={"source": source.data, "name": loaded.name, "shape": list(loaded.shape)}, seed=source.seed)
    return loaded


def load_pairs(source: DataSource) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the pairs that the options select, as tensors ``[pairs, …]``: float32 (none zero or NaN) or int64."""
    import torch

    from initscope.data.sources import pairs_of

    data = load_data(source)
    x, y, _ = pairs_of(data, source.pairs, source.seed)
    if len(x) < source.pairs:
        loaded = counted(len(x), "different pair")
        say(f"{len(data)} images make {loaded}, not {source.pairs}: each of them is used once")
    return torch.from_numpy(x), torch.from_numpy(y)


def load_sources(model: str, source: ModelSource) -> Sources:
    """Return the model, built for the shape of the data, and the pairs."""
    x, y = load_pairs(source)
    with user_code():
        built = build_model(model, source, tuple(x.shape[1:]))
    return Sources(built, x, y)


def build_model(model: str, source: ModelSource, shape: tuple[int, ...], weights: str | None = None) -> torch.nn.Module:
    """Load the model for inputs of ``shape``, with the weights of the options or of another file.

    Its JSON names both.
    """
    from initscope.models import load_model

    ask_of(model=model, weights=source.weights)
    built: torch.nn.Module = load_model(model, weights=weights or source.weights, input_shape=shape, seed=source.seed)
    return built
