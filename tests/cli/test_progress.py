"""Progress on stderr, Ctrl-C that keeps what was found, readers that go away."""

import io
import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest
import torch
from torch import nn

import initscope
from initscope._utils.progress import Stage, interrupted, kept_if_interrupted, note, stage, steps, watching
from initscope.cli._progress import Meter, _Cleared, metered


@pytest.fixture
def progress_by_the_clock():
    """As it is: the tests here are of it."""


@pytest.fixture
def listen(monkeypatch):
    """A function that takes stderr over; pytest would take it back from a fixture that does so itself."""

    def begin(terminal=False):
        written = io.StringIO()
        written.isatty = lambda: terminal
        monkeypatch.setattr(sys, "stderr", written)
        return written

    return begin


def test_steps_are_counted_only_for_a_watcher(listen):
    stderr = listen()
    assert list(steps("abc", "letters")) == ["a", "b", "c"]
    with watching(Meter()) as meter:
        for count, _ in enumerate(steps("abc", "letters")):
            (told,) = meter.stages
            assert (told.what, told.total, told.done) == ("letters", 3, count)
        assert meter.stages == []
    assert stderr.getvalue() == ""


def test_a_pipe_has_a_line_for_each_stage_and_then_ever_more_rarely(listen):
    stderr = listen()
    meter = Meter()
    with watching(meter), stage("working"), stage("trying alternative initializations", 4) as told:
        for second in range(1, 200):
            told.done = min(3, second // 40)
            if second < 29 and second % 2:  # a short stage now and then, which is no line of its own
                with stage("drawing", 2) as short:
                    short.began = meter._began + second - 0.5
                    meter._tick(meter._began + second)
            meter._tick(meter._began + second + 0.5)
    lines = stderr.getvalue().splitlines()
    assert lines[0] == "trying alternative initializations: 0 of 4"
    assert lines[-1].startswith("trying alternative initializations: 3 of 4, 1.5/min, about ")
    assert len(lines) == 4  # at 1.5, 30, 60 and 120 s
    assert "\x1b" not in stderr.getvalue()


def test_work_without_stages_says_nothing_to_a_pipe_within_30_seconds(listen):
    stderr = listen()
    meter = Meter()
    with watching(meter), stage("working"):
        for second in range(1, 31):
            meter._tick(meter._began + second)
    assert stderr.getvalue() == "working: 30 s so far\n"


@pytest.mark.parametrize("width", [30, 60, 100])
def test_a_terminal_has_a_bar_with_rate_and_time_left(listen, monkeypatch, width):
    stderr = listen(terminal=True)
    monkeypatch.setenv("COLUMNS", str(width))
    meter = Meter()
    with watching(meter), stage("drawing weights", 8) as told:
        told.done = 2
        meter._tick(told.began + 4)
    line = stderr.getvalue()
    assert len(line) < width
    if width > 60:
        assert line == "━━━━──────────── drawing weights: 2 of 8, 0.5/s, about 12 s left"


def test_a_terminal_has_one_line_that_goes(listen):
    stderr = listen(terminal=True)
    meter = Meter()
    with watching(meter), stage("working"):
        meter._tick(meter._began + 0.5)
        assert stderr.getvalue() == ""  # not within the first second
        meter._tick(meter._began + 2)
        meter._tick(meter._began + 3)
        meter.clear()
    assert stderr.getvalue().count("\n") == 0
    assert stderr.getvalue().endswith("\r\x1b[K")


@pytest.mark.parametrize("to_errors", [False, True])
def test_what_a_command_prints_does_not_hang_on_the_line(listen, monkeypatch, to_errors):
    """On a terminal both streams are one place: each text finds the line of progress empty."""
    terminal = listen(terminal=True)
    monkeypatch.setattr(sys, "stdout", terminal)
    with metered() as meter:
        meter._tick(meter._began + 2)
        print("an answer", file=sys.stderr if to_errors else sys.stdout)
        meter._tick(meter._began + 3)
        print("another", file=sys.stderr if to_errors else sys.stdout)
    shown = terminal.getvalue()
    assert "so far" in shown
    seen = [line.rpartition("\r\x1b[K")[2] for line in shown.split("\n")]
    assert [text for text in seen if text] == ["an answer", "another"]
    assert sys.stdout is sys.stderr is terminal


def test_a_library_call_is_not_kept_from_being_interrupted():
    with pytest.raises(KeyboardInterrupt), kept_if_interrupted():
        raise KeyboardInterrupt
    with watching(Meter()):
        with kept_if_interrupted():
            raise KeyboardInterrupt
        assert interrupted()
    assert not interrupted()


def test_a_note_comes_once(listen):
    stderr = listen()
    with watching(Meter()):
        for _ in range(2):
            note("compiling, for a test")
    assert stderr.getvalue() == "initscope: compiling, for a test\n"


def test_a_folder_is_not_made_silently(listen, tmp_path):
    from initscope._utils.files import write_text

    stderr = listen()
    with watching(Meter()):
        write_text(tmp_path / "new" / "a.txt", "one")
        write_text(tmp_path / "new" / "b.txt", "two")
    assert stderr.getvalue() == f"initscope: created the folder {tmp_path / 'new'}\n"


def test_compiling_is_told(listen, tmp_path, monkeypatch):
    """The first call compiles and says so; a second process finds the machine code on the disk and is silent."""
    pytest.importorskip("numba")
    (tmp_path / "loop_of_a_test.py").write_text("def double(x):\n    return 2 * x\n")
    monkeypatch.syspath_prepend(tmp_path)
    from loop_of_a_test import double

    from initscope._utils import compiled

    told = []
    monkeypatch.setattr(compiled, "note", told.append)
    assert compiled.compiled(double)(3.0) == 6.0
    assert len(told) == 1
    assert "compiling" in told[0]
    assert compiled.compiled(double)(3.0) == 6.0
    assert len(told) == 1


def test_what_was_tried_before_an_interrupt_is_kept(monkeypatch):
    """Ctrl-C at the fourth start: the report has those before it, and says which were left out."""
    from initscope.inspection import alternatives

    run, calls = alternatives._Trials.run, []

    def interrupting(self, variant, draw=0):
        calls.append(variant.name)
        if len(calls) == 4:
            raise KeyboardInterrupt
        run(self, variant, draw)

    monkeypatch.setattr(alternatives._Trials, "run", interrupting)
    layers = [layer for _ in range(20) for layer in (nn.Linear(16, 16), nn.ReLU())]
    data = torch.rand(20, 16, generator=torch.Generator().manual_seed(0))
    with watching(Meter()):
        report = initscope.inspect(nn.Sequential(*layers), data, pairs=8)
    assert {item.name for item in report.what_if.alternatives} == set(calls[:3])
    assert report.what_if.skipped[calls[3]] == "interrupted"


def test_trials_of_a_check_are_counted():
    from initscope.plan._base import count_failures

    seen = []
    with watching(Meter()) as meter:
        found = count_failures(5, 1, lambda chunk: seen.append((meter.stages[-1].what, meter.stages[-1].done)) or 1)
    assert found == 5
    assert seen == [("drawing trials", done) for done in range(5)]


def test_draws_before_an_interrupt_are_kept(monkeypatch):
    from initscope.measurement import redraws

    recorded, calls = redraws._recorded, []

    def interrupting(*arguments):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return recorded(*arguments)

    monkeypatch.setattr(redraws, "_recorded", interrupting)
    with watching(Meter()):
        found = initscope.measure(nn.Linear(4, 8), torch.eye(4), draws=8)
    assert found.draws == 3


def test_ratios_before_an_interrupt_are_kept_and_none_is_no_result(monkeypatch):
    import importlib

    from initscope.invert import discriminate

    room = importlib.import_module(discriminate.__module__)
    row, calls = room._row, []

    def interrupting(*arguments):
        calls.append(1)
        if len(calls) == at:
            raise KeyboardInterrupt
        return row(*arguments)

    monkeypatch.setattr(room, "_row", interrupting)
    generator = torch.Generator().manual_seed(0)
    images, labels = torch.rand(40, 1, 8, 8, generator=generator), torch.arange(40) % 2
    options = {"reconstruct": 1, "epochs": 0}
    at = 3
    with watching(Meter()):
        found = discriminate(images.numpy(), labels.numpy(), [8.0, 16.0], **options)
    assert len(found.rows) == 2
    calls.clear()
    at = 1
    with watching(Meter()), pytest.raises(KeyboardInterrupt):
        discriminate(images.numpy(), labels.numpy(), [8.0], **options)


def test_reproductions_before_an_interrupt_are_kept(monkeypatch, tmp_path):
    from initscope.reproductions import gallery

    def interrupting(job):
        if job["id"] == "norms-figure-1":
            raise KeyboardInterrupt
        return written(job)

    written = gallery._written
    monkeypatch.setattr(gallery, "_written", interrupting)
    with watching(Meter()):
        found = gallery.reproduce(["talk-layer-theorem", "norms-figure-1"], out=tmp_path)
    assert [shown.id for shown in found.reproductions] == ["talk-layer-theorem"]
    assert (tmp_path / "index.html").exists()


def test_the_line_does_not_come_back_before_what_is_written(monkeypatch):
    """A tick of the meter's clock between the clearing and the text: it waits."""
    meter, written = Meter(), []
    meter._terminal, meter._shown = True, "working"
    monkeypatch.setattr(meter, "_write", lambda text: written.append(text))

    class Stream:
        def write(self, text):
            ticking = threading.Thread(target=meter._tick, args=(time.monotonic() + 60,))
            ticking.start()
            ticking.join(timeout=0.05)  # it cannot end before the text is there
            written.append(text)
            threads.append(ticking)
            return len(text)

    threads = []
    meter.stages.append(Stage("working", None, time.monotonic()))
    _Cleared(Stream(), meter).write("data: digits\n")
    threads[0].join()
    assert written[:2] == ["\r\x1b[K", "data: digits\n"]


SLOW = """
import time, torch
from torch import nn
class Slow(nn.Module):
    def forward(self, x):
        time.sleep(0.05)
        return x
def make():
    return nn.Sequential(nn.Flatten(), *[l for _ in range(20) for l in (nn.Linear(64, 64), nn.ReLU(), Slow())])
"""


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c_prints_what_was_found_and_exits_130(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    script = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # which nohup ignores
        "from initscope.cli import main; main('inspect slow.py:make --data digits --limit 60'.split())"
    )
    line = [sys.executable, "-c", script]
    with subprocess.Popen(
        line, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    ) as process:
        try:
            for message in process.stderr:
                if message.startswith("trying alternative initializations"):
                    break
            process.send_signal(signal.SIGINT)
            output, messages = process.communicate(timeout=600)
        finally:
            process.kill()  # the end of the block waits for it, for ever if need be
    assert process.returncode == 130, messages
    assert "initscope: interrupted: this is what was found so far" in messages
    assert re.search(r"Tried: .*\d+ alternatives?", " ".join(output.split()))
    assert "interrupted" in output


@pytest.mark.skipif(os.name == "nt", reason="pipes of POSIX")
@pytest.mark.parametrize("command", ["reproduce --list", "--help", "plan width --format json"])
def test_a_reader_that_goes_away_is_no_error(command):
    line = ["bash", "-c", f'"$0" -m initscope {command} | true', sys.executable]
    ran = subprocess.run(line, capture_output=True, encoding="utf-8", check=False)
    assert [message for message in ran.stderr.splitlines() if not message.startswith("working")] == []


@pytest.mark.skipif(os.name == "nt", reason="pipes of POSIX")
def test_a_page_is_written_though_nobody_reads_the_table(tmp_path):
    line = "inspect dense8-relu --data digits --limit 40 --no-prediction --out p.html"
    command = ["bash", "-c", f'"$0" -m initscope {line} | true', sys.executable]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert (tmp_path / "p.html").stat().st_size > 10_000
