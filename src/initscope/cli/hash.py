"""``initscope hash fit`` and ``hash encode``: learn a code from data, and encode data with it."""

from __future__ import annotations

from pathlib import Path

from cyclopts import App

from initscope.cli._output import say
from initscope.cli._vectors import Codes, VectorSource, load_vectors, write_codes
from initscope.errors import InputError

__all__ = ["app"]

app = App(name="hash", help="Binary codes that keep similarity: fit a hash to data, encode data with it.")


@app.command
def fit(
    out: Path,
    source: VectorSource | None = None,
    *,
    method: str = "random",
    bits: int = 64,
    layers: int | None = None,
    seed: int = 0,
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
        Of agh (1 or 2, default 2) and learned (default 1).
    seed
        Seed of everything random.
    """
    from initscope.embed._base import SupervisedHasher
    from initscope.embed.persistence import hasher_class, save_hasher

    chosen = hasher_class(method)
    wanted = {"center": True, "layers": layers, "random_state": seed}
    known = chosen().get_params()
    if layers is not None and "layers" not in known:
        raise InputError(f"--layers {layers}: --method {method} has no layers; leave it out, or use agh or learned")
    parameters = {name: value for name, value in wanted.items() if name in known and value is not None}
    data = load_vectors(source or VectorSource())
    if issubclass(chosen, SupervisedHasher) and data.labels is None:
        raise InputError(f"--method {method} learns from labels and {data.name} has none; use random, itq or agh")
    hasher = chosen(bits=bits, **parameters).fit(data.images, data.labels)
    save_hasher(hasher, out)
    say(f"{out}: {hasher} fitted to {len(data)} rows of {data.images.shape[1]} numbers")


@app.command
def encode(fitted: Path, out: Path, source: VectorSource | None = None) -> None:
    """Encode data with a fitted hash and write the codes to OUT (.npz: codes, bits, labels).

    Parameters
    ----------
    fitted
        File written by hash fit.
    out
        File for the codes.
    """
    from initscope.embed.persistence import load_hasher

    hasher = load_hasher(fitted)
    data = load_vectors(source or VectorSource())
    if data.images.shape[1] != hasher.n_features_in_:
        raise InputError(
            f"{data.name} has rows of {data.images.shape[1]} numbers, {fitted} was fitted to {hasher.n_features_in_}; "
            "use the same --size and --describe"
        )
    codes = hasher.transform(data.images)
    write_codes(out, Codes(codes, hasher.bits, data.labels))
    say(f"{out}: {len(codes)} codes of {hasher.bits} bits")
