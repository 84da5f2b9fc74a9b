"""``initscope hash fit`` and ``hash encode``: learn a code from data, and encode data with it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from cyclopts import App

from initscope.cli._help import WORK, examples
from initscope.cli._options import Seed, Whole
from initscope.cli._output import say
from initscope.cli._sources import BlockOptions, DataSource, load_blocks
from initscope.cli._vectors import Codes, VectorSource, load_vectors, write_codes
from initscope.errors import InputError

__all__ = ["app"]

app = App(
    name="hash",
    help="Fit a hash to data and encode data as binary codes that preserve similarity.",
    help_epilogue=examples("hash"),
    group_parameters=WORK,
)


@app.command(help_epilogue=examples("hash fit"))
def fit(
    out: Path,
    source: VectorSource | None = None,
    *,
    method: str = "random",
    bits: Whole = 64,
    layers: Whole | None = None,
    directions: Literal["uniform", "data"] | None = None,
    seed: Seed = 0,
) -> None:
    """Fit a hash and write it to OUT.

    Parameters
    ----------
    out
        File for the fitted hash (arrays with a checksum, nothing to unpickle).
    method
        random, itq and agh do without labels; diffhash, ssh, ksh and learned need them (folders: one per class).
    bits
        Length of the code.
    layers
        Layers of agh (1 or 2, default 2) and learned (default 1).
    directions
        Directions of random: all alike (uniform, default) or with the covariance of the data, which usually finds more.
    seed
        Seed of everything random.
    """
    from initscope._utils.disk import check_space
    from initscope.embed._base import SupervisedHasher
    from initscope.embed.persistence import hasher_class, save_hasher

    check_space(out)
    chosen = hasher_class(method)
    known = chosen().get_params()
    asked = {name: value for name, value in (("layers", layers), ("directions", directions)) if value is not None}
    for name, value in asked.items():
        if name not in known:
            raise InputError(
                f"--{name} {value}: --method {method} has no {name}; leave it out; --help shows which methods have it"
            )
    parameters = {name: value for name, value in {"center": True, "random_state": seed}.items() if name in known}
    data = load_vectors(source or VectorSource())
    if issubclass(chosen, SupervisedHasher) and data.labels is None:
        raise InputError(f"--method {method} learns from labels and {data.name} has none; use random, itq or agh")
    hasher = chosen(bits=bits, **parameters, **asked).fit(data.images, data.labels)
    save_hasher(hasher, out)
    say(f"{out}: {hasher} fitted to {len(data)} rows of {data.images.shape[1]} numbers")


@app.command(help_epilogue=examples("hash encode"))
def encode(fitted: Path, out: Path, source: VectorSource | None = None, blocks: BlockOptions | None = None) -> None:
    """Encode data with a fitted hash and write the codes to OUT (.npz: codes, bits, labels).

    Parameters
    ----------
    fitted
        File written by hash fit.
    out
        File for the codes; with --rows or --dask a name in .npy holds the bare codes.
    """
    from initscope._utils.disk import check_space
    from initscope.embed.codes import code_bytes
    from initscope.embed.persistence import load_hasher

    if blocks is not None and blocks.asked:
        _encode_blocks(fitted, out, source or VectorSource(), blocks)
        return
    hasher = load_hasher(fitted)
    data = load_vectors(source or VectorSource())
    if data.images.shape[1] != hasher.n_features_in_:
        raise InputError(
            f"{data.name} has rows of {data.images.shape[1]} numbers, {fitted} was fitted to {hasher.n_features_in_}; "
            "use the same --size and --describe"
        )
    check_space(out, len(data) * code_bytes(hasher.bits))
    codes = hasher.transform(data.images)
    write_codes(out, Codes(codes, hasher.bits, data.labels))
    say(f"{out}: {len(codes)} codes of {hasher.bits} bits")


def _encode_blocks(fitted: Path, out: Path, source: VectorSource, options: BlockOptions) -> None:
    from initscope.distributed import encode_blocks

    if source.describe != "values":
        raise InputError(f"--describe {source.describe} needs all images at once; leave out --rows and --dask")
    blocks = load_blocks(DataSource(data=source.data, size=source.size, limit=source.limit), options)
    count, bits = encode_blocks(fitted, blocks, out, dask=options.dask)
    say(f"{out}: {count} codes of {bits} bits")
