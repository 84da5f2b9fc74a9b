"""Reading of .npy, .npz, .pt, .pth and .safetensors files; nothing is executed, and sizes are checked before unpacking.

`read_tensors` reads a whole file. `stored_arrays` reads only the headers of .npy and .npz files; `StoredArray.read`
then reads the rows that are needed.
"""

from __future__ import annotations

import math
import pickle
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from initscope._utils.files import check_memory, open_regular, reading
from initscope.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["TENSOR_SUFFIXES", "StoredArray", "read_tensors", "stored_arrays"]

_NPY, _ZIP, _PICKLE = b"\x93NUMPY", b"PK", b"\x80"
_BEGINNINGS = {
    ".npy": (_NPY,),
    ".npz": (_ZIP,),
    ".pt": (_ZIP, _PICKLE),
    ".pth": (_ZIP, _PICKLE),
    ".safetensors": (b"",),  # begins with the length of its header
}
TENSOR_SUFFIXES = tuple(_BEGINNINGS)
_CHUNK = 1 << 20


@dataclass(frozen=True)
class StoredArray:
    """An array in a .npy file, or the ``member`` of a .npz file, that is read on demand."""

    file: Path
    member: str | None
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    by_columns: bool
    start: int
    hint: str

    @property
    def row_bytes(self) -> int:
        """Return the bytes of one entry along the first axis."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    def read(self, rows: NDArray[np.integer[Any]] | None = None) -> NDArray[Any]:
        """Return the array, or only the given rows (increasing indices); other rows are not held in memory."""
        import numpy as np

        count = math.prod(self.shape[:1]) if rows is None else len(rows)
        whole = rows is None or self.by_columns
        check_memory(self.file, math.prod(self.shape[:1]) * self.row_bytes if whole else count * self.row_bytes, _FEWER)
        with _read_errors(self.file, self.hint), _opened(self.file, self.member) as stream:
            if whole:
                values = np.empty(self.shape, self.dtype, order="F" if self.by_columns else "C")
                _fill(stream, values.reshape(-1, order="A"), self.start)
                values = values if rows is None else values[rows]
            else:
                assert rows is not None
                values = np.empty((count, *self.shape[1:]), self.dtype)
                breaks = np.flatnonzero(np.diff(rows) != 1) + 1
                for first, last in zip([0, *breaks.tolist()], [*breaks.tolist(), count] if count else []):
                    _fill(stream, values[first:last].reshape(-1), self.start + int(rows[first]) * self.row_bytes)
            return values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))


_FEWER = "ask for fewer rows (--limit on the command line)"


def stored_arrays(file: Path, *, hint: str) -> StoredArray | dict[str, StoredArray]:
    """Return the array of a .npy file, or the arrays of a .npz file by name; the suffix does not matter.

    Only the headers are read, and compared with the size of the file.
    """
    with _read_errors(file, hint), open_regular(file) as stream:
        beginning = stream.read(8)
        stream.seek(0)
        if beginning.startswith(_NPY):
            return _described(file, None, stream, file.stat().st_size, hint)
        with zipfile.ZipFile(stream) as archive:
            return {
                info.filename.removesuffix(".npy"): _described(file, info.filename, member, info.file_size, hint)
                for info, member in _members(archive)
            }


def _members(archive: zipfile.ZipFile) -> Iterator[tuple[zipfile.ZipInfo, IO[bytes]]]:
    """Yield the arrays of an archive, each open at its beginning; other members are skipped."""
    for info in archive.infolist():
        with archive.open(info) as member:
            begins = member.read(len(_NPY)) == _NPY
        if begins:
            with archive.open(info) as member:
                yield info, member


def read_tensors(file: Path, *, hint: str) -> Any:
    """Return the content of ``file``: an array (.npy), dict of arrays (.npz) or tensors (.safetensors), or saved value.

    Damaged files are refused, and so are objects other than dense tensors and plain containers
    (``weights_only=True``, ``allow_pickle=False``). ``hint`` ends the message. Tensors in .safetensors files and in
    the zip format of ``torch.save`` are memory-mapped.
    """
    check_kind(file)
    if file.suffix == ".safetensors":
        with _read_errors(file, hint):
            return _read_safetensors(file)
    if file.suffix in (".pt", ".pth"):
        with _read_errors(file, hint):
            return _read_torch(file, hint)
    arrays = stored_arrays(file, hint=hint)
    return arrays.read() if isinstance(arrays, StoredArray) else {name: array.read() for name, array in arrays.items()}


def check_kind(file: Path) -> None:
    """Raise `InputError` if a file is missing or has another suffix."""
    if not file.is_file() and not file.exists():
        raise InputError(f"{file} is not a file; give a {', '.join(TENSOR_SUFFIXES)} file")
    if file.suffix not in TENSOR_SUFFIXES:
        raise InputError(f"{file}: files of type {file.suffix!r} are not supported; give {', '.join(TENSOR_SUFFIXES)}")


@contextmanager
def _read_errors(file: Path, hint: str) -> Iterator[None]:
    """Call `reading`, with a separate message for files that can only be read by executing code."""
    suffix = file.suffix if file.suffix in TENSOR_SUFFIXES else ".npy or .npz"
    with reading(file, f"a {suffix} file", hint):
        try:
            with open_regular(file) as stream:
                if file.suffix in TENSOR_SUFFIXES and not stream.read(8).startswith(_BEGINNINGS[file.suffix]):
                    raise ValueError("the first bytes do not fit the suffix of the file")
            yield
        except (pickle.UnpicklingError, RuntimeError) as error:
            # torch raises the same exception for damaged files and for TorchScript programs.
            if isinstance(error, pickle.UnpicklingError) or "TorchScript" in str(error):
                raise InputError(
                    f"{file} holds Python objects, which cannot be read without executing them; {hint}"
                ) from error
            raise


@contextmanager
def _opened(file: Path, member: str | None) -> Iterator[BinaryIO]:
    with open_regular(file) as stream:
        if member is None:
            yield stream
            return
        with zipfile.ZipFile(stream) as archive, archive.open(member) as inner:
            yield inner  # type: ignore[misc]


def _described(file: Path, member: str | None, stream: Any, size: int, hint: str) -> StoredArray:
    """Return the array whose header is at the beginning of the stream; it must fit into ``size`` bytes."""
    from numpy.lib import format as npy

    version = npy.read_magic(stream)
    shape, by_columns, dtype = (npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0)(stream)
    if dtype.hasobject:
        raise pickle.UnpicklingError(f"an array of {dtype}")
    start = stream.tell()
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize > size - start:
        raise ValueError(f"{shape} values of type {dtype} do not fit into {size} bytes")
    return StoredArray(file, member, shape, dtype, bool(by_columns and len(shape) > 1), start, hint)


def _fill(stream: BinaryIO, values: NDArray[Any], start: int) -> None:
    """Fill a contiguous array with the bytes from ``start`` on, in chunks."""
    import numpy as np

    if isinstance(stream, zipfile.ZipExtFile):  # its own `seek` reads 16 MB at a time
        while stream.tell() < start and stream.read(min(_CHUNK, start - stream.tell())):
            pass
    stream.seek(start)
    if values.nbytes == 0:
        return
    target = values.view(np.uint8)
    done = 0
    while done < len(target):
        piece = stream.read(min(_CHUNK, len(target) - done))
        if not piece:
            raise EOFError(f"{done} of {len(target)} bytes")
        target[done : done + len(piece)] = np.frombuffer(piece, dtype=np.uint8)
        done += len(piece)


_SAFETENSORS = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2", "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U64": "uint64",
    "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip
"""Names of dtypes in the header of a .safetensors file, and in torch."""


def _read_safetensors(file: Path) -> dict[str, Any]:
    """Return the tensors of a file: eight bytes with the length of the header, the header as JSON, the values."""
    import json

    import torch

    size = file.stat().st_size
    with open_regular(file) as stream:
        length = int.from_bytes(stream.read(8), "little")
        if not 2 <= length <= min(size - 8, 100 * _CHUNK):
            raise ValueError(f"a header of {length} bytes in a file of {size}")
        header = json.loads(stream.read(length))
    values = torch.from_file(str(file), shared=False, size=size, dtype=torch.uint8)[8 + length :]
    header.pop("__metadata__", None)
    tensors = {}
    for name, about in header.items():
        dtype, (start, end) = getattr(torch, _SAFETENSORS[about["dtype"]]), about["data_offsets"]
        if not 0 <= start <= end <= len(values) or math.prod(about["shape"]) * dtype.itemsize != end - start:
            raise ValueError(f"tensor {name} does not fit into the file")
        part = values[start:end]
        aligned = part if part.data_ptr() % dtype.itemsize == 0 else part.clone()
        tensors[name] = aligned.view(dtype).reshape(about["shape"])
    return tensors


def _read_torch(file: Path, hint: str) -> Any:
    import torch

    on_disk = zipfile.is_zipfile(file)
    if on_disk:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise ValueError("torch.save compresses nothing")
        if sum(member.file_size for member in members) > file.stat().st_size:
            raise ValueError("the parts are larger than the file")
    else:
        check_memory(file, file.stat().st_size, hint)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns about old storage types
        if on_disk:
            content = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
        else:
            with open_regular(file) as stream:
                content = torch.load(stream, map_location="cpu", weights_only=True)
    _check_dense(file, content, hint)
    return content


def _check_dense(file: Path, value: Any, hint: str) -> None:
    """Raise `InputError` for tensors that are not dense arrays, and for those that do not fit into memory."""
    import torch

    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple, set)):
        for item in value:
            _check_dense(file, item, hint)
    if not isinstance(value, torch.Tensor):
        return
    if value.is_quantized or value.is_nested or value.layout != torch.strided or value.device.type != "cpu":
        kind = "quantized" if value.is_quantized else "nested" if value.is_nested else str(value.layout)[6:]
        raise InputError(f"{file} holds a {kind} tensor; save a dense one: tensor.dequantize() or tensor.to_dense()")
    size = value.numel() * value.element_size()
    if size > value.untyped_storage().nbytes():  # an expanded tensor
        check_memory(file, size, hint)
