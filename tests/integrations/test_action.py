"""The action's own script, run by bash as GitHub would, with the real command."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ACTION = ROOT / ".github" / "actions" / "inspect" / "action.yml"

pytestmark = pytest.mark.skipif(os.name == "nt", reason="a script of bash")


def scripts():
    """The scripts of the action that have several lines: inspect, and comment."""
    text = ACTION.read_text(encoding="utf-8")
    return [textwrap.dedent(part.partition("\n    - ")[0]) for part in text.split("      run: |\n")[1:]]


def run(folder, **inputs):
    """The last step with these inputs; `initscope` is this checkout's."""
    (folder / "initscope").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m initscope "$@"\n', encoding="utf-8")
    (folder / "initscope").chmod(0o755)
    options = "--limit 40 --no-prediction --no-alternatives"
    given = {"MODEL": "dense8-relu", "DATA": "digits", "FAIL_ON": "", "OPTIONS": options} | inputs
    environment = os.environ | given | {
        "PATH": f"{folder}:{os.environ['PATH']}", "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        "PYTHONPATH": str(ROOT / "src"),
    }  # fmt: skip
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", scripts()[0]]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=False)


def test_summary_and_page(tmp_path):
    ran = run(tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "summary.md").read_text(encoding="utf-8").startswith("## initscope")
    assert (tmp_path / "initscope.html").is_file()


def test_errors_fail_the_job_and_inputs_are_no_script(tmp_path):
    """Sixty layers at torch's start; the name of the data holds a command, which must not run."""
    deep = "from torch import nn\ndef make():\n    layers = [nn.Flatten(), nn.Linear(64, 16)]\n"
    deep += "    return nn.Sequential(*layers, *[each for _ in range(60) for each in (nn.Linear(16, 16), nn.ReLU())])\n"
    (tmp_path / "mine.py").write_text(deep, encoding="utf-8")
    ran = run(tmp_path, MODEL="mine.py:make", FAIL_ON="error")
    assert ran.returncode == 1
    assert "(61 layers, " in (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert run(tmp_path, DATA="$(touch made)").returncode == 2
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(("works", "report"), [(True, "## initscope"), (False, "## initscope"), (True, "")])
def test_the_comment(tmp_path, works, report):
    """`gh` is a script that writes down its arguments; a token without the permission only warns."""
    (tmp_path / "gh").write_text(f'#!/bin/sh\necho "$@" > asked\n{"true" if works else "false"}\n', encoding="utf-8")
    (tmp_path / "gh").chmod(0o755)
    (tmp_path / "initscope.md").write_text(report, encoding="utf-8")
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PULL_REQUEST": "https://host/pull/3"}
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", scripts()[1]]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8", check=False)
    assert ran.returncode == 0, ran.stderr
    assert ("::warning::" in ran.stdout) == (not works)
    assert (tmp_path / "asked").exists() == bool(report)
    if report:
        asked = (tmp_path / "asked").read_text(encoding="utf-8")
        assert asked.startswith("pr comment https://host/pull/3 --body-file initscope.md")


def test_the_hook_of_pre_commit_is_a_command_that_exists():
    yaml = pytest.importorskip("yaml")
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    from initscope.cli import COMMANDS

    program, command = hook["entry"].split()
    assert (program, command in COMMANDS, hook["pass_filenames"]) == ("initscope", True, False)
    steps = yaml.safe_load(ACTION.read_text(encoding="utf-8"))["runs"]["steps"]
    assert [step.get("uses", "script") for step in steps] == [
        "script",
        "script",
        "actions/upload-artifact@v4",
        "script",
    ]
