"""``./run`` on a fresh clone, with a Python that installs nothing: what it makes, when, and after what went wrong."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.skipif(os.name == "nt", reason="a script of bash")

PYTHON = """#!/bin/sh
# A Python of some version, whose environments hold copies of itself. Whatever is asked of pip stands in calls.txt.
here=$(dirname "$0")
case "$*" in
  *version_info*) echo "$(cat "$here/version")" ;;
  "-m venv "*)
    [ ! -e "$here/no-venv" ] || { echo "No module named venv" >&2; exit 1; }
    mkdir -p "$3/bin" && cp "$here/python3" "$3/bin/python" && cp "$here/version" "$3/bin/" ;;
  "-m pip "*)
    echo "$*" >> "$CALLS"
    [ -z "$KILLING" ] || { echo half > "$here/half"; kill -9 $PPID; exit 1; }
    [ -z "$HALF" ] || mkdir -p "$here/../lib/python3/site-packages/half"
    [ -z "$FAILING" ] || { echo "no network" >&2; exit 1; }
    printf '#!/bin/sh\\necho initscope "$@"\\n' > "$here/initscope" && chmod +x "$here/initscope" ;;
esac
"""


class Clone:
    """A folder with ``run`` and what it reads, and a path on which there is such a Python."""

    def __init__(self, folder, version="3.11"):
        self.folder, self.calls, self.bin = folder / "a clone", folder / "calls.txt", folder / "bin"
        for place in (self.folder, self.bin):
            place.mkdir()
        for name in ("run", "pyproject.toml", "constraints.txt", "constraints-lowest.txt"):
            shutil.copy(ROOT / name, self.folder)
        for name in ("bash", "cat", "cksum", "chmod", "cp", "dirname", "grep", "mkdir", "rm", "sh"):
            (self.bin / name).symlink_to(shutil.which(name))
        (self.bin / "version").write_text(f"{version}\n")
        (self.bin / "python3").write_text(PYTHON)
        (self.bin / "python3").chmod(0o755)

    def run(self, *words, **environment):
        """Exit code, what was printed, messages, and how often pip was asked."""
        self.calls.write_text("")
        given = {"PATH": str(self.bin), "CALLS": str(self.calls), **environment}
        done = subprocess.run(
            [self.folder / "run", *words], env=given, cwd=self.folder.parent, capture_output=True, encoding="utf-8"
        )
        return done.returncode, done.stdout, done.stderr, len(self.calls.read_text().splitlines())


@pytest.fixture
def clone(tmp_path):
    return Clone(tmp_path)


def test_the_first_call_installs_and_the_second_does_not(clone):
    code, output, messages, asked = clone.run("demo", "--out", "a b")
    assert (code, output, asked) == (0, "initscope demo --out a b\n", 1)
    assert messages.startswith("Setting up .venv with python3 (once;")
    assert "--no-compile" in clone.calls.read_text()  # bytecode is compiled while the first command runs
    assert clone.run("demo") == (0, "initscope demo\n", "", 0)
    assert clone.run() == (0, "initscope --help\n", "", 0)


EXTRAS = "[fast,search,data,scale,invert,mcp]"
EVERYTHING = f"{EXTRAS[:-1]},metric,integrations,docs,dev]"


def test_each_command_adds_what_it_needs(clone):
    """The demo needs the library alone; pip gets what an environment already has together with what is added."""
    project = f"torch --editable {clone.folder}"
    given = []
    for word in ("demo", "--version", "inspect", "demo", "setup", "inspect", "setup"):
        asked = clone.run(word)[3]
        given.append(clone.calls.read_text().partition(project)[2].strip() if asked else None)
    assert given == ["", None, EXTRAS, None, EVERYTHING, None, None]


def test_needs_that_change_are_installed_for_all_commands_that_ran(clone):
    clone.run("inspect")
    with (clone.folder / "constraints.txt").open("a") as file:
        file.write("another==1.0\n")
    clone.run("demo")
    assert clone.calls.read_text().endswith(f"{EXTRAS}\n")


def test_extras_that_cannot_be_had_leave_what_is_there(clone):
    """Without a network nothing is written; other commands still run, and the next call asks again."""
    clone.run("demo")
    code, output, messages, _ = clone.run("inspect", FAILING="yes")
    assert (code, output) == (1, "")
    assert messages.startswith("Adding to .venv what this command needs, with python3 (once;")
    assert messages.endswith(
        "no network\n./run: what this command needs could not be added to .venv, for the reason above; "
        "other commands run as before\n"
    )
    assert clone.run("demo") == (0, "initscope demo\n", "", 0)
    assert clone.run("inspect")[3] == 1


@pytest.mark.parametrize("how", [{"KILLING": "yes"}, {"HALF": "yes", "FAILING": "yes"}])
def test_extras_that_are_half_installed_make_the_next_call_begin_anew(clone, how):
    clone.run("demo")
    (clone.folder / ".venv" / "old").touch()
    assert clone.run("inspect", **how)[0] != 0
    assert clone.run("demo")[3] == 1
    assert not (clone.folder / ".venv" / "old").exists()


def test_other_needs_are_installed_into_what_is_there(clone):
    clone.run("demo")
    (clone.folder / ".venv" / "kept").touch()
    with (clone.folder / "constraints.txt").open("a") as file:
        file.write("another==1.0\n")
    assert clone.run("demo")[3] == 1
    assert (clone.folder / ".venv" / "kept").exists()
    assert clone.run("demo")[3] == 0


def test_an_environment_made_by_hand_is_kept(clone):
    (clone.folder / ".venv").mkdir()
    (clone.folder / ".venv" / "kept").touch()
    assert clone.run("demo")[0] == 0
    assert (clone.folder / ".venv" / "kept").exists()


def test_a_set_up_that_was_killed_begins_anew(clone):
    """What pip had half written might pass for installed."""
    assert clone.run("demo", KILLING="yes")[0] == -signal.SIGKILL
    assert (clone.folder / ".venv" / "bin" / "half").exists()
    code, _, messages, asked = clone.run("demo")
    assert (code, asked) == (0, 1)
    assert "Setting up" in messages
    assert not (clone.folder / ".venv" / "bin" / "half").exists()


def test_a_set_up_that_fails_says_so_and_begins_anew(clone):
    code, output, messages, _ = clone.run("demo", FAILING="yes")
    assert (code, output) == (1, "")
    assert messages.endswith(
        "no network\n./run: .venv could not be set up, for the reason above; the next ./run starts over\n"
    )
    assert clone.run("demo")[:2] == (0, "initscope demo\n")


def test_two_do_not_set_up_at_once(clone):
    (clone.folder / ".venv").mkdir()
    (clone.folder / ".venv" / ".installed").write_text(f"unfinished {os.getpid()}\n")
    code, _, messages, asked = clone.run("demo")
    assert (code, asked) == (1, 0)
    assert messages.startswith(f"./run: process {os.getpid()} is setting up .venv; wait for it")


@pytest.mark.parametrize("what", ["the folder was moved", "its Python was removed"])
def test_an_environment_that_no_longer_runs_is_made_anew(clone, what):
    clone.run("demo")
    (clone.folder / ".venv" / "old").touch()
    if what == "the folder was moved":
        clone.folder = clone.folder.rename(clone.folder.with_name("moved"))
    else:
        (clone.folder / ".venv" / "bin" / "python").unlink()
    assert clone.run("demo")[3] == 1
    assert not (clone.folder / ".venv" / "old").exists()


@pytest.mark.parametrize("version", ["3.10", "2.7", ""])
def test_a_python_that_is_too_old_is_named(tmp_path, version):
    clone = Clone(tmp_path, version)
    code, _, messages, asked = clone.run("demo")
    told = f"python3 is {version}, " if version else "python3, "
    assert (code, asked, messages.count("\n")) == (2, 0, 1)
    assert messages.startswith(
        f"./run: no Python from 3.11 to 3.99 (looked for {told}python3.13, python3.12, python3.11);"
    )
    assert not (clone.folder / ".venv").exists()


def test_another_python_on_the_path_is_found(tmp_path):
    clone = Clone(tmp_path, "3.10")
    newer = tmp_path / "newer"
    newer.mkdir()
    (newer / "version").write_text("3.12\n")
    shutil.copy(clone.bin / "python3", newer / "python3")
    (clone.bin / "python3.12").write_text(f'#!/bin/sh\nexec "{newer}/python3" "$@"\n')
    (clone.bin / "python3.12").chmod(0o755)
    code, _, messages, _ = clone.run("demo")
    assert code == 0
    assert "with python3.12 (once" in messages


def test_another_python_than_the_one_asked_for_is_not_used_silently(clone, tmp_path):
    clone.run("demo")
    (tmp_path / "other").mkdir()
    other = Clone(tmp_path / "other", "3.13")
    code, _, messages, asked = clone.run("demo", PYTHON=str(other.bin / "python3"))
    assert (code, asked, messages.count("\n")) == (2, 0, 1)
    assert "is 3.13, but .venv has 3.11; remove" in messages
    assert clone.run("demo", PYTHON=str(clone.bin / "python3"))[0] == 0


def test_a_python_without_venv_says_so(clone):
    (clone.bin / "no-venv").touch()
    code, _, messages, _ = clone.run("demo")
    assert code == 1
    assert "No module named venv\n./run: .venv could not be set up" in messages


def test_the_lowest_versions_need_an_older_python(tmp_path):
    clone = Clone(tmp_path, "3.13")
    code, _, messages, _ = clone.run("test", "--lowest")
    assert code == 2
    assert "no Python from 3.11 to 3.12 (looked for python3 is 3.13" in messages


def test_mutants_are_another_program_than_the_tests(clone):
    clone.run("setup")
    python = clone.folder / ".venv" / "bin" / "python"
    python.write_text('#!/bin/sh\necho "$*"\n')
    assert clone.run("test", "--mutants", "3", "--seed", "1")[1] == "tests/mutation 3 --seed 1\n"
    assert clone.run("test", "--fast")[1] == "-m pytest -n 2 --dist worksteal --fast\n"
