"""The environment that benchmarks make for a peer: from an index, here a folder with one small package."""

import importlib.util
import subprocess
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def compare():
    path = ROOT / "benchmarks" / "neural_tangents" / "compare.py"
    spec = importlib.util.spec_from_file_location("compare", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def wheel(folder, version):
    """A package that knows its version, as pip installs it."""
    name = f"small_peer-{version}"
    with zipfile.ZipFile(folder / f"{name}-py3-none-any.whl", "w") as file:
        file.writestr("small_peer.py", f"version = {version!r}\n")
        file.writestr(f"{name}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: small-peer\nVersion: {version}\n")
        file.writestr(f"{name}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{name}.dist-info/RECORD", "")


def test_it_is_made_once_and_again_where_it_must(compare, tmp_path, monkeypatch, capfd):
    """A failed installation is no environment; one that is there is used; other needs make another."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    place, needs = tmp_path / "peer", ["small-peer==1.0"]
    wheel(tmp_path, "1.0")
    python = compare.environment(place, needs)
    asked = [python, "-c", "import small_peer; print(small_peer.version)"]
    assert subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip() == "1.0"
    capfd.readouterr()
    (tmp_path / "small_peer-1.0-py3-none-any.whl").unlink()
    assert compare.environment(place, needs) == python
    assert capfd.readouterr().err == ""
    monkeypatch.setattr(compare.venv, "create", lambda folder, **options: (folder / "installed").unlink())  # swift
    for _ in range(2):
        with pytest.raises(subprocess.CalledProcessError):
            compare.environment(place, ["small-peer==2.0"])
        assert not (place / "installed").exists()
        (place / "installed").write_text("of another time")
    monkeypatch.setenv("NT_PYTHON", "/somewhere/python")
    assert compare.python() == "/somewhere/python"
