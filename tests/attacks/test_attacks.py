"""A small part of every attack, to see that it runs and holds. ``README.md`` says how to run them in full."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from initscope.cli import main
from initscope.errors import InputError

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="attacks use fork, signals and limits of POSIX"),
]
FILES = 25
TESTS = Path(__file__).parents[1]


def failures_of(outcomes):
    """Messages by scenario of those that failed; there is at least one scenario."""
    outcomes = list(outcomes)
    assert sum(outcome.tries for outcome in outcomes) > 0
    return {outcome.scenario: outcome.messages for outcome in outcomes if outcome.failures}


def test_damaged_files_are_read_or_refused(tmp_path, monkeypatch):
    """25 files for each of 28 readers: what one file in eight raises is seen with probability .96.

    The attack damages 100,000, and so sees what one in 33,000 raises with probability .95.
    """
    from attacks.readers import damaged, readers

    monkeypatch.setenv("INITSCOPE_DATA", str(tmp_path))
    rng = np.random.default_rng(4)
    for reader in readers(tmp_path).values():
        path = tmp_path / reader.file
        for whole in () if reader.signed else reader.wholes:
            path.write_bytes(whole)
            reader.read(path)
        for _ in range(FILES):
            path.write_bytes(damaged(reader, rng))
            with suppress(InputError):
                reader.read(path)
        path.unlink()


def test_fuzz_counts_other_exceptions(tmp_path):
    from attacks.fuzz import attack, in_a_process
    from attacks.readers import Reader

    def read(path):
        raise KeyError("other") if path.read_bytes() else InputError("empty")

    reader = Reader("x", (b"abc",), read)
    assert not attack(reader, tmp_path, 0, 20).keys() - {"refused"} <= {"read"}
    crashing = Reader("x", (b"abc",), lambda path: os.kill(os.getpid(), signal.SIGKILL))
    assert list(in_a_process(crashing, tmp_path, 0, 1)) == ["the process ended with -9 (seed 0)"]


def test_killed_writers_leave_whole_files(tmp_path):
    from attacks import kills

    rng = np.random.default_rng(5)
    for title, writer in kills.WRITERS.items():
        folder = tmp_path / title.split()[0]
        folder.mkdir()
        assert kills.attack(writer, folder / "file", 3, rng)[0] == []


def test_a_writer_in_place_is_seen_to_fail(tmp_path):
    """The attack bites: a file that is written in place is not whole after some of the kills."""
    from attacks import kills

    def write(path, number):
        with path.open("w") as file:
            for _ in range(400):
                file.write(str(number) * 8 * kills.ROWS)
                file.flush()

    def read(path):
        text = path.read_text()
        assert len(text) == 400 * 8 * kills.ROWS
        return int(text[0])

    failures, _, _ = kills.attack(kills.Writer(write, read), tmp_path / "file", 10, np.random.default_rng(6))
    assert failures


def test_interrupts_leave_no_trace():
    from attacks import interrupts

    handler = signal.getsignal(signal.SIGINT)
    assert failures_of(interrupts.run(6)) == {}
    assert signal.getsignal(signal.SIGINT) is handler


def test_calls_leave_no_trace():
    """All models with one call each; the attack runs all calls on all of them."""
    from attacks import no_trace

    calls = list(no_trace.CALLS)
    traces = {
        name: no_trace.trace_of(name, calls[-1 - index % len(calls)]) for index, name in enumerate(no_trace.MODELS)
    }
    assert {name: trace for name, trace in traces.items() if trace} == {}


def test_threads_get_what_they_get_alone():
    from attacks import threads

    assert failures_of(threads.run(0.05)) == {}


def test_memory_of_a_large_file(tmp_path):
    """100 samples of 100 MB, 400 MB as floats, and of 200 MB in an archive: no command holds the whole file."""
    from attacks import memory

    memory.write_array(tmp_path / "small.npy", 1)
    memory.write_array(tmp_path / "large.npy", 100)
    memory.write_bomb(tmp_path / "bomb.npz", 0.2)
    names = ("small.npy", "large.npy", "bomb.npz")
    base, *peaks = [memory.peak(memory.measured(tmp_path / name, "--limit", "100"))[:2] for name in names]
    assert [code for _, code in (base, *peaks)] == [0, 0, 0]
    assert all(megabytes < base[0] + 60 for megabytes, _ in peaks)


def test_outputs_that_cannot_be_written(monkeypatch, tmp_path):
    from attacks import outputs

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(outputs, "STREAMS", dict([*outputs.STREAMS.items()][:2]))
    monkeypatch.setattr(outputs, "FORMATS", outputs.FORMATS[1:2])
    assert failures_of(outputs.streams(1)) == {}
    assert failures_of(outputs.hostile_names(1)) == {}
    assert outputs.unsafe("a\x1b[2J \u202e <img src=x onerror=y>") == ["'\\u202e'", "'\\x1b'", "<img"]


def test_drivers_on_a_shared_cluster(monkeypatch, tmp_path):
    """Processes take seconds to start: one worker, and what is expected is computed in this one."""
    pytest.importorskip("dask")  # not "distributed", which a folder of the tests is called too
    from attacks import shared_cluster

    def alone(words, file="alone.npy"):
        main(words.split())
        return Path(file).read_bytes()

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shared_cluster, "SIZE", 40)
    monkeypatch.setattr(shared_cluster, "alone", alone)
    attack = shared_cluster.Attack()
    attack.cluster = shared_cluster.Cluster(workers=1)
    attack.cluster.start()
    try:
        attack.two_drivers(0)
    finally:
        attack.cluster.kill()
    assert failures_of(attack.outcomes()) == {}


def test_command_prints_a_table():
    environment = {**os.environ, "PYTHONPATH": str(TESTS.parent / "src")}
    command = [sys.executable, TESTS / "attacks", "kills", "1"]
    done = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    assert "| scenario | tries | failures | figures |" in done.stdout
    assert "| index | 1 | 0 |" in done.stdout


def test_readme_lists_every_attack():
    text = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
    scripts = {path.stem for path in Path(__file__).parent.glob("*.py")}
    scripts -= {"__main__", "conftest", "outcomes", "readers", "test_attacks"}
    assert all(f"| `{name}` |" in text for name in scripts)
    figures = (Path(__file__).parent / "figures.md").read_text(encoding="utf-8")
    assert all(f"## {name}\n" in figures for name in scripts)
