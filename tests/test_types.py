"""What a user's editor sees: pyright and mypy --strict on a script: right calls pass, a misspelt keyword does not."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GOOD = """
from pathlib import Path

import torch

import initscope
from initscope.inspection import Report

model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU())
data = torch.rand(32, 8)
report: Report = initscope.inspect(model, data, pairs=8, initializer="he")
code: str | None = report.verdicts[0].code if report.verdicts else None
page: Path = report.to_html("report.html")
text: str = report.to_html()
angle = initscope.predict(model, data, initializer=initscope.initializers.He).angle
initscope.measure(model, data, pairs=4, draws=2, initializer="glorot").mean_cosine_se
width: int = initscope.plan.width(eps=0.1, delta=0.05).exact
ids = initscope.embed.Searcher(bits=64, rerank=20).fit(data.numpy()).search(data.numpy(), k=3).ids
stop: bool = initscope.integrations.Watch(data).step(model, 0)
version: str = initscope.__version__
"""
BAD = """
import torch

import initscope

initscope.inspect(torch.nn.Linear(8, 8), torch.rand(8, 8), paris=8)
"""


def checked(tool, folder, name, code):
    (folder / f"{name}.py").write_text(code, encoding="utf-8")
    environment = os.environ | {"MYPYPATH": str(ROOT / "src"), "PYTHONPATH": str(ROOT / "src")}
    ran = subprocess.run(
        [*tool, f"{name}.py"], cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=False
    )
    return ran.returncode, ran.stdout + ran.stderr


def test_mypy_strict(tmp_path):
    pytest.importorskip("mypy")
    # Only the script is judged: of the package the signatures are read.
    tool = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--ignore-missing-imports",
            f"--cache-dir={tmp_path / 'cache'}"]  # fmt: skip
    code, said = checked(tool, tmp_path, "good", GOOD)
    assert code == 0, said
    code, said = checked(tool, tmp_path, "bad", BAD)
    assert code == 1
    assert '"paris"' in said


def test_pyright(tmp_path):
    """Without a network pyright cannot fetch itself: then there is none."""
    if importlib.util.find_spec("pyright") is None or shutil.which("node") is None:
        pytest.skip("pyright is not installed")
    (tmp_path / "pyrightconfig.json").write_text(f'{{"extraPaths": ["{ROOT / "src"}"], "pythonVersion": "3.11"}}')
    tool = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable]
    code, said = checked(tool, tmp_path, "good", GOOD)
    if "error" in said and ("ENOTFOUND" in said or "npm" in said):
        pytest.skip("pyright cannot be fetched here")
    assert code == 0, said
    code, said = checked(tool, tmp_path, "bad", BAD)
    assert code == 1
    assert '"paris"' in said
