"""Standard streams that are closed, full or of few characters: one line, an exit code of its own, and no lost work."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from initscope.cli import main

COMMAND = ["predict", "dense8-relu*2", "--input-shape", "6", "--pairs", "4"]
FULL = Path("/dev/full")


def refused(monkeypatch, capsys, stream, arguments=COMMAND):
    """The line on stderr of a command with this stdout."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        with pytest.raises(SystemExit) as left:
            main([*arguments])
    assert left.value.code == 74
    return capsys.readouterr().err.strip().splitlines()[-1]


@pytest.mark.parametrize("format", ["table", "json", "csv"])
def test_a_closed_stdout_is_refused_before_the_work(monkeypatch, capsys, format):
    monkeypatch.setattr("initscope.predict", lambda *_, **__: pytest.fail("work was done for nobody"))
    closed = io.StringIO()
    closed.close()
    for stream in (None, closed):
        assert "stdout is closed; nothing was computed" in refused(
            monkeypatch, capsys, stream, [*COMMAND, "--format", format]
        )


@pytest.mark.skipif(not FULL.exists(), reason="a device of Linux")
def test_a_full_stdout_is_refused_before_the_work(monkeypatch, capsys):
    monkeypatch.setattr("initscope.predict", lambda *_, **__: pytest.fail("work was done for nobody"))
    with FULL.open("w") as stream:
        assert "(No space left on device); nothing was computed" in refused(monkeypatch, capsys, stream)


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_stdout_that_fills_up_while_it_is_written(tmp_path, unbuffered):
    """The limit of the shell stands for a disk that fills up; nothing is said at the end of the interpreter."""
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = f"ulimit -f 1; exec {sys.executable} -m initscope {' '.join(COMMAND)} --format json > {tmp_path / 'out'}"
    done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 74
    assert "stdout cannot be written (File too large)" in done.stderr.splitlines()[-1]
    assert "Exception ignored" not in done.stderr


def written(monkeypatch, encoding, format):
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        main([*COMMAND, "--format", format])
    return stream.buffer.getvalue().decode(encoding)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_characters_that_an_encoding_lacks_are_replaced(monkeypatch, encoding):
    assert "relu2" in written(monkeypatch, encoding, "table")
    few, all_of_them = (json.loads(written(monkeypatch, name, "json")) for name in (encoding, "utf-8"))
    assert few == all_of_them  # nothing is lost in JSON, which has escapes


def test_messages_without_a_stderr_are_no_data(monkeypatch, capsys):
    """``print`` to a stderr that is None would write the messages to stdout."""
    expected = written(monkeypatch, "utf-8", "json")
    assert "data: gaussian" in capsys.readouterr().err
    monkeypatch.setattr(sys, "stderr", None)
    assert written(monkeypatch, "utf-8", "json") == expected
    json.loads(expected)
    sys.stderr.close()
