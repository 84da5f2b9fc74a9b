"""Kinds of data by name, path and suffix, decided before anything is read and before torch is imported."""

from __future__ import annotations

from pathlib import Path

from initscope.data.named import names
from initscope.data.text import is_text
from initscope.errors import InputError, did_you_mean

__all__ = ["FILES", "check_source", "file_kind"]

FILES = {
    **dict.fromkeys((".npy", ".npz", ".pt", ".pth", ".safetensors"), "arrays:load_array"),
    **dict.fromkeys((".csv", ".tsv"), "csv_files:read_csv"),
    **dict.fromkeys((".parquet", ".pq", ".feather", ".arrow", ".ipc"), "arrow_tables:read_arrow"),
    **dict.fromkeys((".jsonl", ".ndjson"), "json_lines:read_json_lines"),
    **dict.fromkeys((".tar", ".tgz", ".tar.gz"), "webdataset:load_tar"),
    **dict.fromkeys((".txt", ".md"), "text:text_set"),
}
"""Suffix of a file → the function that reads it."""
_ADVICE = {
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "save the sheet as CSV (in Excel: Save as, CSV UTF-8)"),
    **dict.fromkeys(
        (".pkl", ".pickle", ".joblib"), "a pickle runs code; save arrays by numpy.savez, tables as Parquet"
    ),
    **dict.fromkeys((".h5", ".hdf5", ".mat"), "save the arrays by numpy.savez"),
    **dict.fromkeys((".gz", ".zip", ".bz2", ".xz", ".zst"), "unpack it first"),
    **dict.fromkeys((".json",), "save it as .jsonl, one object in each line"),
    **dict.fromkeys((".jpg", ".jpeg", ".png", ".webp"), "give the folder that holds the images"),
}


def file_kind(path: Path) -> str:
    """Return the key of `FILES` for a file name, or raise `InputError` that says what to do instead."""
    suffix = _suffix(path)
    if suffix not in FILES:
        advice = _ADVICE.get(suffix, f"give one of {', '.join(FILES)}")
        raise InputError(f"{path}: files of type {suffix!r} are not supported; {advice}")
    return suffix


def _suffix(path: Path) -> str:
    name = path.name.lower()
    return ".tar.gz" if name.endswith(".tar.gz") else path.suffix.lower()


def check_source(spec: str) -> None:
    """Raise `InputError` unless ``spec`` is a name, an existing folder or an existing file of a known kind.

    Parameters
    ----------
    spec
        What a user gives as data. Nothing is read.
    """
    known = (*names(), "text")
    if not spec:
        raise InputError(f"data is empty; give a name ({', '.join(known)}), a folder or a file")
    name, path = spec.partition(":")[0], Path(spec)
    if name in names() or is_text(spec):
        return
    if "\0" not in spec and path.is_dir():
        return
    if "\0" in spec or not path.exists():
        if _suffix(path) in FILES and "\0" not in spec:
            raise InputError(f"{spec} is not a file{did_you_mean(spec, _siblings(path)) or '; check the path'}")
        raise InputError(
            f"data {spec!r} is neither a name ({', '.join(known)}) nor a folder or file"
            + (did_you_mean(name, [*known, *_siblings(path)]) or "; check the spelling")
        )
    file_kind(path)


def _siblings(path: Path) -> list[str]:
    """Return the paths in the folder of a missing path."""
    try:
        return [str(other) for other in path.parent.iterdir()]
    except (OSError, ValueError):  # no such folder, or not a valid path
        return []
