"""MODEL and DATA on the command line: the options that commands share, and what they stand for.

A command takes ``source: Source | None = None`` (its fields become options) and calls `load_pairs` or `load_sources`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, NamedTuple

from cyclopts import Parameter

from initscope.cli._options import Seed, Whole
from initscope.cli._output import say, user_code
from initscope.data.named import LOADERS
from initscope.errors import InputError, check_count
from initscope.results import counted

if TYPE_CHECKING:
    import torch

    from initscope.data import ImageSet

__all__ = ["DataSource", "ModelSource", "Sources", "load_data", "load_pairs", "load_sources", "parse_shape"]

DEFAULT_DATA = "photos"
DATA_HELP = (
    f"A name ({', '.join(LOADERS)}), if wanted with "
    "options (photos:crop=32,stride=16; fashion-mnist:split=test; gaussian:rho=0.5,shape=3x64x64; shapes:size=64), "
    "a folder of images, a .npy, .npz or .pt file, or text and text:FILE for bytes as tokens. Default: photos."
)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class DataSource:
    """Options that say which data to use, and which pairs of it."""

    data: Annotated[str | None, Parameter(help=DATA_HELP)] = None
    size: Annotated[
        str | None, Parameter(help="Folders: crop and resize the images to this side, or to HEIGHTxWIDTH.")
    ] = None
    normalize: str | None = None
    """imagenet, standardize, or MEAN,STD; default: values as they are, in [0, 1]."""
    limit: Whole | None = None
    """Use at most so many images."""
    input_shape: str | None = None
    """Shape of one input, such as 3x64x64; without --data the inputs are then independent standard Gaussian."""
    pairs: Whole = 200
    """Number of pairs of images."""
    seed: Seed = 0
    """Seed of everything random."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ModelSource(DataSource):
    """Options of commands that take a MODEL and data."""

    weights: str | None = None
    """State dict for the model: .pt, .pth or .npz."""


class Sources(NamedTuple):
    """What the options stand for; pair k is ``x[k], y[k]``."""

    model: torch.nn.Module
    x: torch.Tensor
    y: torch.Tensor


def parse_shape(text: str, *, option: str = "--input-shape", example: str = "3x64x64") -> tuple[int, ...]:
    """Sides of ``AxBxC``; ``example`` is what the message advises.

    >>> parse_shape("3x64x64")
    (3, 64, 64)
    """
    sides = text.lower().replace("×", "x").split("x")
    if not all(side.strip().isdecimal() and int(side) > 0 for side in sides):
        raise InputError(f"{option} {text!r}: give positive whole numbers joined by x, such as {example}")
    return tuple(map(int, sides))


def load_data(source: DataSource) -> ImageSet:
    """The images that the options name; what they are is said on stderr."""
    from initscope.data import load_any

    size: int | tuple[int, int] | None = None
    if source.size is not None:
        example = "64 or 48x64"
        height, *rest = parse_shape(source.size, option="--size", example=example)
        if len(rest) > 1:
            raise InputError(f"--size {source.size!r}: give one side or HEIGHTxWIDTH, such as {example}")
        size = (height, rest[0]) if rest else height
    check_count("pairs", source.pairs)
    spec, limit = DEFAULT_DATA if source.data is None else source.data, source.limit
    if source.data is None and source.input_shape is not None:
        spec = f"gaussian:rho=0,shape={'x'.join(map(str, parse_shape(source.input_shape)))}"
    name, _, options = spec.partition(":")
    if name == "gaussian" and limit is None:
        limit = 2 * source.pairs
    if name in ("gaussian", "shapes") and "seed=" not in options:
        spec = f"{name}:{options},seed={source.seed}"
    data = load_any(spec, size=size, normalize=source.normalize, limit=limit)
    if source.input_shape is not None and data.shape != parse_shape(source.input_shape):
        raise InputError(
            f"--input-shape {source.input_shape} but {data.name} has inputs of {'x'.join(map(str, data.shape))}; "
            "leave --input-shape out, or give --size for a folder"
        )
    say(f"data: {data.summary}")
    return data


def load_pairs(source: DataSource) -> tuple[torch.Tensor, torch.Tensor]:
    """The pairs that the options ask for, as tensors ``[pairs, …]``: float32, none zero or NaN, or int64 indices."""
    import torch

    from initscope.data import check_images, random_pairs, within_class_pairs

    data = load_data(source)
    check_images(data.images, name=data.name, zeros=data.images.dtype.kind == "i")
    in_twos = data.name == "gaussian"
    different = len(data) // 2 if in_twos else len(data) * (len(data) - 1) // 2
    if 0 < different < source.pairs:
        found = counted(different, "different pair")
        say(f"{len(data)} images make {found}, not {source.pairs}: each of them is used once")
    draw = within_class_pairs if in_twos else random_pairs
    x, y, _ = draw(data, min(source.pairs, max(different, 1)), source.seed)
    return torch.from_numpy(x), torch.from_numpy(y)


def load_sources(model: str, source: ModelSource) -> Sources:
    """The model and the pairs; the model is built for the shape of the data."""
    from initscope.models import load_model

    x, y = load_pairs(source)
    with user_code():
        built = load_model(model, weights=source.weights, input_shape=tuple(x.shape[1:]), seed=source.seed)
    return Sources(built, x, y)
