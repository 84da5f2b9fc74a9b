"""`Folder`: results of a sweep on disk. ``pandas.read_parquet(folder)`` reads it at any time, also after a crash.

``results.parquet`` holds the compacted runs, and ``tasks/`` one file per run that finished since; each run is in
exactly one of them. Names that begin with ``_`` or ``.`` are not data: the lock, the summary page, files that are being
written.
"""

from __future__ import annotations

import os
import shutil
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from initscope._utils.files import atomic_path, exclusive, reading
from initscope._utils.libraries import library
from initscope.errors import InputError

__all__ = ["Folder", "opened"]

_TEXT = ("run", "architecture", "model", "initializer", "activation", "data", "quantity", "status", "error")
_WHOLE = ("width", "depth", "seed", "row")
_LAYER = ("layer", "kind", "method", "note", "verdicts")
_VALUES = (
    *("cosine", "cosine_se", "angle", "norm_ratio", "norm_ratio_se", "rms_ratio", "mean_width", "mean_width_se"),
    *("accuracy", "accuracy_se", "loss"),
)
_HINT = "remove the folder or give another with --out"
_RESULTS, _NEW, _TASKS, _OLD, _LOCK = "results.parquet", "_results.parquet", "tasks", "_tasks", "_lock"
_THREADS = 4  # that wait for the disk
_PENDING = 64  # results that are not on the disk yet, at most
_REMEMBERED = 10_000  # results of this process that need not be read again to be compacted


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[Folder]:
    """Open the folder, or create it, for this process alone; if another process holds it, `InputError` is raised."""
    destination = Path(path)
    try:
        destination.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be made ({reason}); give the name of a folder with --out") from error
    _check_ours(destination)
    with exclusive(destination / _LOCK, f"{path} is in use by another sweep; wait for it, or give another --out"):
        folder = Folder(destination)
        try:
            yield folder
        finally:
            folder.close()


class Folder:
    """Rows by run; ``run`` is the name of a run, see `initscope.distributed.declaration.SweepRun.id`. See `opened`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.results, self.tasks = path / _RESULTS, path / _TASKS
        self._new, self._old = path / _NEW, path / _OLD
        self._threads, self._pending = ThreadPoolExecutor(_THREADS), deque[Future[None]]()
        self._written: dict[str, Any] = {}
        self._repair()
        self.tasks.mkdir(exist_ok=True)

    def status(self) -> dict[str, str]:
        """Return ``done`` or ``failed`` for every run in the folder; files that a power cut damaged are removed."""
        states: dict[str, str] = {}
        for table in self._tables(["run", "status"]):
            states |= dict(zip(table["run"].to_pylist(), table["status"].to_pylist(), strict=True))
        return states

    def rows(self) -> list[dict[str, Any]]:
        """Return all rows, of runs as they were compacted."""
        return [row for table in self._tables(None) for row in table.to_pylist()]

    def add(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Store the rows of one run, completely or not at all.

        Threads bring the file to the disk and then give it its name: whoever adds need not wait for the disk.
        """
        name, table = f"{rows[0]['run']}.parquet", _table(rows)
        temporary = self.tasks / f".{name}"
        content = _small_file(table)
        with self._write_errors(temporary):
            temporary.write_bytes(content)
        if len(self._written) < _REMEMBERED:
            self._written[name] = table
        self._pending.append(self._threads.submit(self._keep, temporary, self.tasks / name))
        while len(self._pending) > _PENDING or (self._pending and self._pending[0].done()):
            self._pending.popleft().result()

    def _keep(self, temporary: Path, target: Path) -> None:
        with self._write_errors(temporary):
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
            temporary.replace(target)

    @contextmanager
    def _write_errors(self, temporary: Path) -> Iterator[None]:
        """Turn failures of the disk into `InputError`, without leaving a partial file."""
        try:
            yield
        except OSError as error:
            with suppress(OSError):
                temporary.unlink()
            raise InputError(
                f"{self.path}: a result cannot be written ({error.strerror or error}); what is finished is kept, "
                "free some disk space and start again"
            ) from error

    def settle(self) -> None:
        """Wait until all that was added is on the disk."""
        while self._pending:
            self._pending.popleft().result()

    def close(self) -> None:
        """Settle, and end the threads."""
        try:
            self.settle()
        finally:
            self._threads.shutdown()

    def forget(self, runs: Iterable[str]) -> None:
        """Take runs out, to be run again."""
        gone = set(runs)
        if gone:
            self.compact(gone=gone)

    def compact(self, order: Mapping[str, int] | None = None, gone: Iterable[str] = ()) -> None:
        """Merge all rows into ``results.parquet``, runs in ``order``, without the runs in ``gone``.

        Two renames do this. If a kill hits between them, ``tasks/`` is hidden, and the next start completes the
        compaction.
        """
        pa = library("pyarrow")

        tables = [*self._tables(None)]
        table = pa.concat_tables(tables) if tables else _table([])
        leaving, position = set(gone), order or {}
        keys = [
            (position.get(run, len(position)), run, row, number)
            for number, (run, row) in enumerate(zip(table["run"].to_pylist(), table["row"].to_pylist(), strict=True))
            if run not in leaving
        ]
        table = table.take(pa.array([number for *_, number in sorted(keys)], pa.int64()))
        with atomic_path(self._new) as temporary, temporary.open("wb") as file:
            library("pyarrow.parquet").write_table(table, file)
        try:
            self.tasks.rename(self._old)
            self._new.replace(self.results)
        except OSError as error:
            raise InputError(f"{self.path}: results cannot be moved ({error.strerror or error})") from error
        self._written.clear()
        self._repair()
        self.tasks.mkdir(exist_ok=True)

    def _repair(self) -> None:
        """Complete a compaction that a kill interrupted, and remove leftovers of killed writers."""
        if self._old.exists():
            if self._new.exists():
                self._new.replace(self.results)
            shutil.rmtree(self._old)
        self._new.unlink(missing_ok=True)
        for left in self.tasks.glob(".*.parquet") if self.tasks.exists() else ():
            left.unlink()

    def _tables(self, columns: list[str] | None) -> Iterator[Any]:
        pa = library("pyarrow")

        self.settle()
        if self.results.exists():
            yield self._read(self.results, columns)
        for file in sorted(file for file in self.tasks.glob("*.parquet") if not file.name.startswith(".")):
            known = self._written.get(file.name)
            try:
                yield self._read(file, columns) if known is None else known.select(columns or known.column_names)
            except (InputError, pa.ArrowException):
                file.unlink()  # never of a killed writer: a disk lost it; its run is run again

    def _read(self, file: Path, columns: list[str] | None) -> Any:
        with reading(file, "a file of results", _HINT):
            table = library("pyarrow.parquet").ParquetFile(file).read(columns)
            if columns is None and not table.schema.equals(_schema()):
                raise InputError(f"{file} has other columns than results of this version; {_HINT}")
            return table


def _check_ours(path: Path) -> None:
    """Refuse a folder with foreign files before anything in it is changed, because a sweep removes its leftovers.

    Links are refused too, for they lead to files of others. Folders of sweeps hold a lock since they were made.
    """
    foreign = [item.name for item in path.iterdir() if item.name not in (_RESULTS, _TASKS) and item.name[0] not in "_."]
    folders = [path / name for name in (_TASKS, _OLD) if (path / name).is_dir()]
    foreign += [f"{folder.name}/{item.name}" for folder in folders for item in folder.iterdir()
                if item.suffix != ".parquet" and not (item.name[0] == "." and item.is_file())]  # fmt: skip
    foreign += [name for name in (_RESULTS, _NEW, _TASKS, _OLD, _LOCK) if (path / name).is_symlink()]
    if not (path / _LOCK).exists():
        foreign += [name for name in (_NEW, _TASKS, _OLD) if (path / name).exists()]
    if foreign:
        raise InputError(f"{path} holds {foreign[0]}, which does not belong to a sweep; give a new folder with --out")


def _small_file(table: Any) -> Any:
    """Return a few rows as the bytes of a Parquet file.

    Built in memory, without the features that only help for many rows.
    """
    pa = library("pyarrow")

    stream = pa.BufferOutputStream()
    library("pyarrow.parquet").write_table(
        table, stream, use_dictionary=False, write_statistics=False, compression="none"
    )
    return stream.getvalue()


@cache
def _schema() -> Any:
    pa = library("pyarrow")

    types = {pa.string(): (*_TEXT, *_LAYER), pa.int64(): _WHOLE, pa.float64(): _VALUES}
    kinds = {name: kind for kind, names in types.items() for name in names}
    order = ("run", "architecture", "width", "depth", "initializer", "activation", "data", "seed", "quantity", "model")
    rest = ("status", "error", "row", *_LAYER, *_VALUES)
    return pa.schema([(name, kinds[name]) for name in (*order, *rest)])


def _table(rows: Sequence[Mapping[str, Any]]) -> Any:
    pa = library("pyarrow")

    schema = _schema()
    columns = [pa.array([row.get(name) for row in rows], kind) for name, kind in zip(schema.names, schema.types)]
    return pa.Table.from_arrays(columns, schema=schema)
