"""Kernels of initscope beside neural-tangents', which gets an environment of its own: made here, once.

    python benchmarks/neural_tangents/compare.py              # both, side by side
    python benchmarks/neural_tangents/compare.py --reference  # also write the values that the tests compare with

``NT_PYTHON`` names an interpreter that has neural-tangents; otherwise the environment is made in ``.venv`` beside this
file (jax 0.5.3 is the last that neural-tangents 0.6.5 runs with).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
REFERENCE = HERE.parents[1] / "tests" / "propagate" / "kernels" / "neural_tangents.json"
NEEDS = ("jax==0.5.3", "neural-tangents==0.6.5")


def python() -> str:
    """The interpreter with neural-tangents."""
    return os.environ.get("NT_PYTHON") or environment(HERE / ".venv", NEEDS)


def environment(folder: Path, needs: Sequence[str]) -> str:
    """The interpreter of an environment with ``needs``, made if it is not there or holds something else."""
    found, stamp = folder / "bin" / "python", folder / "installed"
    wanted = "\n".join(needs)
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        print(f"setting up {', '.join(needs)} (once) …", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([found, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *needs], check=True)
        stamp.write_text(wanted, encoding="utf-8")  # last: one that was interrupted is made again
    return str(found)


def peer(*arguments: object) -> dict:
    """What ``peer.py`` prints."""
    command = [python(), str(HERE / "peer.py"), *map(str, arguments)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)


def ours(*arguments: object) -> dict:
    """What ``ours.py`` prints."""
    command = [sys.executable, str(HERE / "ours.py"), *map(str, arguments)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def inputs() -> np.ndarray:
    """Four images of two digits behind the point, which a text file holds exactly."""
    return np.random.default_rng(17).standard_normal((4, 3, 8, 8)).round(2).astype(np.float32)


def values() -> dict:
    """Kernels of the networks by neural-tangents, in float64."""
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/inputs.npy", inputs())
        return peer("values", f"{folder}/inputs.npy")


def differences(found: dict) -> dict[tuple[str, str], float]:
    """For each network and kind of kernel the largest difference, over the largest entry."""
    from networks import LAW, NETWORKS

    import initscope

    result = {}
    for name, build in NETWORKS.items():
        for kind in ("nngp", "ntk"):
            theirs = np.array(found[name][kind])
            k = initscope.kernel(build(), inputs(), initializer=LAW, kind=kind, normalize=False)
            result[name, kind] = float(np.abs(k - theirs).max() / theirs.max())
    return result


def main() -> None:
    found = values()
    for (name, kind), difference in differences(found).items():
        print(f"{name:20} {kind:5} {difference:.1e}")
    if "--reference" in sys.argv:
        texts = {"inputs": [round(float(value), 2) for value in inputs().ravel()], "kernels": found}
        REFERENCE.write_text(json.dumps(texts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
