"""Kernels against neural-tangents' values, which ``benchmarks/neural_tangents/compare.py --reference`` wrote."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from initscope.propagate.kernels import kernel, matrix

REFERENCE = json.loads(Path(__file__).with_name("neural_tangents.json").read_text(encoding="utf-8"))
SCRIPT = Path(__file__).parents[3] / "benchmarks" / "neural_tangents" / "networks.py"
SPEC = importlib.util.spec_from_file_location("neural_tangents_networks", SCRIPT)
NETWORKS = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(NETWORKS)
INPUTS = np.array(REFERENCE["inputs"], np.float32).reshape(4, 3, 8, 8)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("kind", ["nngp", "ntk"])
@pytest.mark.parametrize("name", NETWORKS.NETWORKS)
def test_kernels_are_those_of_neural_tangents(name, kind, compiled, monkeypatch):
    """Float64 there; here float32 in the loops, where these are used, else the inputs' precision."""
    if compiled:
        pytest.importorskip("numba")
        monkeypatch.setattr(matrix, "_WORTH_COMPILING", 0)
    expected = np.array(REFERENCE["kernels"][name][kind])
    found = kernel(NETWORKS.NETWORKS[name](), INPUTS, initializer=NETWORKS.LAW, kind=kind, normalize=False)
    assert np.abs(found - expected).max() < 3e-6 * expected.max()
    assert not np.allclose(expected, expected.mean())


def test_every_network_is_compared():
    assert REFERENCE["kernels"].keys() == NETWORKS.NETWORKS.keys()
