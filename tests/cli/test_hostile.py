"""What a user's code and files must not do to the command line: end it, print into its data, steer the terminal."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from initscope.cli import main
from initscope.cli._output import csv_text, json_text
from initscope.results import printable

ESCAPES = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202e"
SMALL = ["--data", "gaussian:shape=6", "--limit", "20", "--pairs", "4"]


@pytest.fixture
def initscope(capfd, tmp_path, monkeypatch):
    """The command in an empty folder: (exit code, stdout, stderr), the outputs of the process itself."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        try:
            main([*map(str, arguments)])
            code = 0
        except SystemExit as leaving:
            code = leaving.code
        sys.stdout.flush()
        return (code, *capfd.readouterr())

    return run


LEAVING = {
    "on import": "import sys\nsys.exit(0)\n",
    "in the factory": "import sys\ndef make():\n    sys.exit(0)\n",
    "quietly": "def make():\n    raise SystemExit\n",
    "in forward": """
import sys
from torch import nn
class Net(nn.Sequential):
    def forward(self, x):
        sys.exit(0)
def make():
    return Net(nn.Linear(6, 6))
""",
}


@pytest.mark.parametrize("where", LEAVING)
def test_an_exit_of_the_users_code_is_a_failure(where, initscope, tmp_path):
    """In CI `--fail-on` would pass if the exit code were that of the user's code."""
    (tmp_path / "mine.py").write_text(LEAVING[where])
    code, output, messages = initscope("inspect", "mine.py:make", *SMALL, "--fail-on", "vanishing")
    assert code == 2
    assert output == ""
    assert "Traceback" not in messages


PRINTING = """
import os, subprocess, sys
from torch import nn
print("import")
os.write(1, b"straight\\n")
sys.__stdout__.write("kept\\n")
class Net(nn.Sequential):
    def forward(self, x):
        print("forward")
        os.write(1, b"deep\\n")
        return super().forward(x)
    def __deepcopy__(self, memo):
        print("copied")
        return Net(*[type(each)(*((6, 6) if isinstance(each, nn.Linear) else ())) for each in self])
def make():
    subprocess.run(["echo", "child"])
    return Net(nn.Linear(6, 6), nn.ReLU())
"""


@pytest.mark.parametrize("command", ["predict", "measure", "inspect", "mean-width"])
def test_what_the_users_code_prints_is_no_data(command, initscope, tmp_path):
    (tmp_path / "mine.py").write_text(PRINTING)
    code, output, messages = initscope(command, "mine.py:make", *SMALL, "--format", "json")
    assert code == 0, messages
    json.loads(output)
    assert all(word in messages for word in ("import", "straight", "kept", "child", "forward", "deep"))


def test_escapes_in_layers_files_and_errors_are_spelled_out(initscope, tmp_path):
    (tmp_path / "mine.py").write_text(
        f"from torch import nn\nNAME = {ESCAPES!r} + '[red]'\ndef make():\n    model = nn.Sequential()\n"
        "    model.add_module(NAME.replace('.', ''), nn.Linear(6, 6))\n    return model\n"
        "def fail():\n    raise ValueError(NAME)\n"
    )
    for format in ("table", "csv", "json"):
        for command in ("predict", "inspect"):
            code, output, _ = initscope(command, "mine.py:make", *SMALL, "--format", format)
            assert code == 0
            assert output == output.replace("\x1b", "").replace("\x07", "").replace("\x9b", "").replace("\u202e", "")
            assert "[red]" in output
    code, _, messages = initscope("predict", "mine.py:fail")
    assert (code, "\x1b" in messages, r"\x1b[2J" in messages) == (2, False, True)
    code, _, messages = initscope("predict", "dense4", "--data", f"{ESCAPES}.npy")
    assert (code, "\x1b" in messages) == (2, False)


def test_a_layer_named_as_a_formula_does_not_break_the_page(initscope, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from torch import nn\ndef make():\n    model = nn.Sequential()\n"
        "    model.add_module(r'$\\frac$', nn.Linear(6, 6))\n    model.add_module('$', nn.ReLU())\n    return model\n"
    )
    for command in ("measure", "inspect"):
        code, _, messages = initscope(command, "mine.py:make", *SMALL, "--out", "page.html")
        assert code == 0, messages
        assert r"$\frac$" in (tmp_path / "page.html").read_text()


def test_cells_of_csv_are_no_formulas():
    rows = [{"layer": name, "x": -0.5} for name in ("=1+1", "+a", "-a", "@a", "-1.5e-3", "a=b", "\t=1")]
    cells = [row["layer"] for row in csv.DictReader(io.StringIO(csv_text(rows)))]
    assert cells == ["'=1+1", "'+a", "'-a", "'@a", "-1.5e-3", "a=b", "'\t=1"]
    assert {row["x"] for row in csv.DictReader(io.StringIO(csv_text(rows)))} == {"-0.5"}
    assert csv_text([]) == "\n"


def test_json_spells_out_what_a_terminal_obeys_and_means_the_same():
    text = json_text({"name": ESCAPES + "\ud800é"})
    assert printable(text) == text
    assert json.loads(text) == {"name": ESCAPES + "\ud800é"}


def test_a_full_disk_is_told(tmp_path):
    """Files may have at most 100 bytes: --apply is refused as any target that cannot be written.

    Python keeps compiled modules (``-B``: not here) though they are cut off, and every later process fails at them.
    """
    arguments = ["inspect", "dense32-relu*30", "--input-shape", "16", "--pairs", "8", "--apply", "w.pt"]
    script = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
    script += f"from initscope.cli import main\nmain({arguments!r})"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ended = subprocess.run([sys.executable, "-B", "-c", script], capture_output=True, cwd=tmp_path, env=environment)
    assert ended.returncode == 2
    assert "cannot be written (File too large)" in ended.stderr.decode()
    assert list(tmp_path.iterdir()) == []


def test_a_network_without_a_better_start_is_reported_all_the_same(initscope, tmp_path):
    """Nothing to write is no error of a healthy network, and of none the end of the report."""
    healthy = ["inspect", "dense6-relu", *SMALL, "--no-prediction", "--out", "page.html", "--apply", "w.pt"]
    code, printed, messages = initscope(*healthy)
    assert (code, (tmp_path / "page.html").exists(), (tmp_path / "w.pt").exists()) == (0, True, False)
    assert "No problems found" in printed
    assert "w.pt is not written: no problems were found, so that there is nothing to fix" in messages
    np.save(tmp_path / "large.npy", 1000 * np.random.default_rng(0).standard_normal((20, 6)))
    code, printed, messages = initscope(
        "inspect", "dense6-relu", "--data", "large.npy", *healthy[-5:-2], "--apply", "w.pt"
    )
    assert (code, "error: IS601 input-scale" in printed) == (2, True)
    assert "--apply: the suggested fix changes more than weights: normalize the data" in messages
    code, _, messages = initscope(*healthy, "--no-alternatives")
    assert code == 2
    assert "--no-alternatives tries none; leave one of them out" in messages


def test_an_endless_device_is_no_index(initscope, tmp_path):
    np.save(tmp_path / "codes.npy", np.zeros((3, 8), dtype=np.uint8))
    for arguments in (("query", "/dev/zero", "codes.npy"), ("build", "/dev/zero", "out")):
        code, _, messages = initscope("search", *arguments)
        assert code == 2
        assert "/dev/zero is a device, not a file" in messages


class Touch:
    """Makes the file ``owned`` if it is unpickled."""

    def __reduce__(self):
        return open, ("owned", "w")


def crafted(kind):
    """A file of targets: its name and how it is written."""
    names = {"pickle.pt": lambda path: torch.save(Touch(), path), "text.npy": lambda path: np.save(path, ["a"] * 20),
             "dict.pt": lambda path: torch.save({"y": torch.ones(20)}, path)}  # fmt: skip
    texts = {"one.csv": "9" * 10000, "formula.csv": "=1+1", "ragged.csv": "1,2\n3\n", "bytes.csv": "\udcff\0"}
    if kind in texts:
        return lambda path: path.write_text(texts[kind], errors="surrogateescape")
    return names[kind]


@pytest.mark.parametrize(
    "kind", ["pickle.pt", "dict.pt", "text.npy", "one.csv", "formula.csv", "ragged.csv", "bytes.csv"]
)
def test_crafted_targets_are_one_line(initscope, tmp_path, kind):
    """Some were an unexpected error with exit code 1; none was executed."""
    crafted(kind)(tmp_path / kind)
    code, _, messages = initscope("inspect", "dense4-dense2", *SMALL, "--targets", kind)
    assert code == 2, messages
    assert kind in messages.strip().splitlines()[-1]
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("arguments", [
    ["inspect", "dense4-dense2", *SMALL, "--targets", "zero.csv"], ["predict", "zero.json"], ["predict", "deep.json"],
    ["predict", "dense4", "--data", "text:zero.csv"],
])  # fmt: skip
def test_endless_devices_and_depths_are_one_line(initscope, tmp_path, arguments):
    """A link to a device was read until the memory was full."""
    for name in ("zero.csv", "zero.json"):
        (tmp_path / name).symlink_to("/dev/zero")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    code, _, messages = initscope(*arguments)
    assert code == 2
    last = messages.strip().splitlines()[-1]
    assert "is a device, not a file" in last or "deep.json is not a configuration in JSON" in last


def test_targets_in_half_precision_and_tables_are_read(initscope, tmp_path):
    torch.save(torch.ones(20, dtype=torch.bfloat16), tmp_path / "y.pt")
    (tmp_path / "y.csv").write_text("target\n" + "1.5\n" * 20)
    for name in ("y.pt", "y.csv"):
        code, _, messages = initscope("inspect", "dense4-dense1", *SMALL, "--targets", name, "--no-trial")
        assert code == 0, messages
