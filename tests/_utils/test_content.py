"""Digests: what differs has another one, and what is kept by one never answers for something else."""

import numpy as np
import pytest

from initscope._utils import content
from initscope._utils.content import array_digest, digest_of, sampled_digest


def test_digests_of_arrays_see_values_shapes_types_and_absence():
    zeros = np.zeros(4)
    others = [np.zeros((2, 2)), np.zeros(4, np.int64), np.array([0, 0, 0, 1.0]), np.zeros(8, np.float32)]
    assert len({array_digest(array) for array in [zeros, *others]} | {array_digest(None)}) == 6
    assert array_digest(zeros[::2]) == array_digest(np.zeros(2))
    assert digest_of(["ab", "c"]) != digest_of(["a", "bc"])


@pytest.mark.parametrize("size", [0, 10, 4096, 1_000_000])
def test_a_replaced_file_has_another_digest(tmp_path, size):
    path, rng = tmp_path / "x", np.random.default_rng(0)
    path.write_bytes(rng.bytes(size))
    first = sampled_digest(path)
    assert first == sampled_digest(path)
    path.unlink()
    path.write_bytes(rng.bytes(size + (size == 0)))
    assert sampled_digest(path) != first


def test_another_torch_is_other_code_and_another_build_is_not(monkeypatch):
    """Runs of a sweep and of `reproduce` that another torch computed were taken for those of this one."""
    digests = []
    for torch in ("2.13.0+cpu", "2.13.0+cu128", "2.14.0"):
        monkeypatch.setattr(content, "version", {"numpy": "2.0", "scipy": "1.13", "torch": torch}.__getitem__)
        digests.append(content.code_digest.__wrapped__())
    assert digests[0] == digests[1] != digests[2]


LOOP = """
from initscope._utils.compiled import compiled
from callee import double
from constants import OFFSET

@compiled
def loop(x):
    return double(x) + OFFSET
"""


def test_compiled_loops_follow_what_they_call(tmp_path, monkeypatch):
    """numba recognises its files by the time and size of the caller's file alone: an edited callee was not noticed."""
    pytest.importorskip("numba")
    import subprocess
    import sys

    (tmp_path / "loop.py").write_text(LOOP)

    def result(factor, offset):
        (tmp_path / "callee.py").write_text(
            f"from initscope._utils.compiled import compiled\n@compiled\ndef double(x):\n    return {factor} * x\n"
        )
        (tmp_path / "constants.py").write_text(f"OFFSET = {offset}\n")
        command = [sys.executable, "-B", "-c", "import loop; print(loop.loop(1.0))"]
        monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{':'.join(filter(None, sys.path))}")
        monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        return float(done.stdout)

    assert [result(2, 0), result(3, 0), result(3, 1)] == [2, 3, 4]
