"""The page of documentation on head and trial: its code runs, and gives what it says."""

from pathlib import Path

import torch
from inspection.instruments.programs import UNTIMED

import initscope.inspection.instruments as instruments

PAGE = Path(__file__).parents[3] / "docs" / "instruments.rst"


def test_the_code_of_the_page_runs(monkeypatch):
    """All blocks, one after the other, in one namespace."""
    monkeypatch.setattr(
        instruments, "run_trial", lambda *args, _run=instruments.run_trial, **kw: _run(*args, **kw, budget=UNTIMED)
    )
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    marks = [number for number, line in enumerate(lines) if line.endswith("::") and not line.startswith("..")]
    scope = {"x": torch.randn(64, 20), "labels": torch.arange(64) % 10}
    for mark in marks:
        block = []
        for line in lines[mark + 1 :]:
            if line and not line.startswith("    "):
                break
            block.append(line[4:])
        scope["optimizer"] = torch.optim.Adam(scope["model"].parameters()) if "model" in scope else None
        exec(compile("\n".join(block), str(PAGE), "exec"), scope)
    assert len(marks) == 3
    assert scope["head"].outcome == "floor"
    assert abs(scope["head"].reached - 1.461) < 0.01
    assert scope["trial"].outcome == "flat"
    assert scope["compared"].helps == {"no softmax": True}
