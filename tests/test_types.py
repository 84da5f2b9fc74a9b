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
code: str | None = report.findings[0].code if report.findings else None
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
MYPY = """
[mypy]
strict = true
follow_imports = silent
ignore_missing_imports = true

[mypy-torch.*,scipy.*,sklearn.*,matplotlib.*,pandas.*,pyarrow.*,rich.*,dask.*,PIL.*]
follow_imports = skip
"""
"""Only the scripts are judged: of the package the signatures are read. Other libraries take most of the time."""


def checked(tool, folder):
    """What the tool says of both scripts, in one run: most of its time goes into reading the package."""
    (folder / "good.py").write_text(GOOD, encoding="utf-8")
    (folder / "bad.py").write_text(BAD, encoding="utf-8")
    environment = os.environ | {"MYPYPATH": str(ROOT / "src"), "PYTHONPATH": str(ROOT / "src")}
    options = {"cwd": folder, "env": environment, "capture_output": True, "encoding": "utf-8", "check": False}
    ran = subprocess.run([*tool, "good.py", "bad.py"], **options)
    return ran.stdout + ran.stderr


def only_the_misspelt_keyword(said):
    wrong = [line for line in said.splitlines() if "error:" in line]
    return len(wrong) == 1 and "bad.py" in wrong[0] and '"paris"' in wrong[0]


def test_mypy_strict(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "mypy.ini").write_text(MYPY, encoding="utf-8")
    said = checked([sys.executable, "-m", "mypy", "--config-file=mypy.ini", f"--cache-dir={os.devnull}"], tmp_path)
    assert only_the_misspelt_keyword(said), said


def test_pyright(tmp_path):
    """Without a network pyright cannot fetch itself: then there is none."""
    if importlib.util.find_spec("pyright") is None or shutil.which("node") is None:
        pytest.skip("pyright is not installed")
    (tmp_path / "pyrightconfig.json").write_text(f'{{"extraPaths": ["{ROOT / "src"}"], "pythonVersion": "3.11"}}')
    said = checked([sys.executable, "-m", "pyright", "--pythonpath", sys.executable], tmp_path)
    if "ENOTFOUND" in said or "npm" in said:
        pytest.skip("pyright cannot be fetched here")
    assert only_the_misspelt_keyword(said), said
