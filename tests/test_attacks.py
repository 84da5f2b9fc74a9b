"""A little of `benchmarks/attacks`: damaged files for every reader, a few kills for every writer."""

from __future__ import annotations

import importlib.util
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from initscope.errors import InputError

ATTACKS = Path(__file__).parents[1] / "benchmarks" / "attacks"
FILES = 25


def script(name):
    spec = importlib.util.spec_from_file_location(name, ATTACKS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.filterwarnings("ignore")
def test_damaged_files_are_read_or_refused(tmp_path, monkeypatch):
    """25 files for each of 28 readers: what one file in eight raises is seen with probability .96.

    The script in ``benchmarks`` takes 100,000, and so sees what one in 33,000 raises with probability .95.
    """
    monkeypatch.setenv("INITSCOPE_DATA", str(tmp_path))
    module, rng = script("readers"), np.random.default_rng(4)
    for reader in module.readers(tmp_path).values():
        path = tmp_path / reader.file
        for whole in () if reader.signed else reader.wholes:
            path.write_bytes(whole)
            reader.read(path)
        for _ in range(FILES):
            path.write_bytes(module.damaged(reader, rng))
            with suppress(InputError):
                reader.read(path)
        path.unlink()


def test_killed_writers_leave_whole_files(tmp_path):
    module, rng = script("kills"), np.random.default_rng(5)
    for title, writer in module.WRITERS.items():
        folder = tmp_path / title.split()[0]
        folder.mkdir()
        assert module.attack(writer, folder / "file", 3, rng)[0] == 0
