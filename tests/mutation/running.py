"""`Copy`: a copy of the project in a temporary folder, whose tests run in forked processes with a time limit."""

from __future__ import annotations

import importlib
import math
import multiprocessing
import os
import resource
import shutil
import signal
import subprocess
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from mutation.operators import Mutant

LOADED = ("torch", "numpy", "scipy.stats", "scipy.optimize", "sklearn", "matplotlib.pyplot")
"""Libraries that take seconds to import: once here, and not in every process."""
BUSY = 20
"""Wall-clock time over processor time that is waited for, at most."""


class FirstFailure:
    """Plugin of pytest: the test that failed first."""

    name = ""

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep the name of a failed test."""
        if report.failed and not self.name:
            self.name = report.nodeid

    def pytest_collectreport(self, report: Any) -> None:
        """Keep the name of a file that could not be imported."""
        if report.failed and not self.name:
            self.name = report.nodeid


class Copy:
    """The files of a project under ``folder``; the project itself is never written to."""

    def __init__(self, root: Path, folder: Path, libraries: tuple[str, ...] = LOADED):
        self.folder = folder
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=root, capture_output=True, check=True).stdout.decode()
        for name in filter(None, listed.split("\0")):
            if (root / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, folder / name)
        for library in libraries:
            importlib.import_module(library)

    def run(self, tests: list[str], limit: float) -> tuple[str, str]:
        """Return "passed", "failed" or "time", and the test that failed first; ``limit`` is in seconds of CPU."""
        context = multiprocessing.get_context("fork")
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_test, args=(sender, self.folder, tests, limit))
        process.start()
        sender.close()
        try:
            result = receiver.recv() if receiver.poll(BUSY * limit) else ("time", "")
        except EOFError:
            process.join()
            result = ("time", "") if process.exitcode == -signal.SIGXCPU else ("failed", "the process ended")
        finally:
            process.kill()
            process.join()
            receiver.close()
        return result

    def outcome(self, path: str, mutant: Mutant, stages: list[list[str]], limit: float) -> tuple[str, str]:
        """Return "killed", "time" or "survived", and the test that noticed the mutant.

        A test that fails without the mutant, too, notices nothing, and is left out.
        """
        file = self.folder / path
        source = file.read_text(encoding="utf-8")
        changed = mutant.applied(source)
        useless: list[str] = []
        for tests in stages:
            while True:
                _write(file, changed)
                result, name = self.run([*tests, *(f"--deselect={each}" for each in useless)], limit)
                _write(file, source)
                if result != "failed":
                    break
                if name == "the process ended" or self.run([name], limit)[0] == "passed":
                    return "killed", name
                useless.append(name)
            if result == "time":
                return "time", ""
        return "survived", ""


def _write(file: Path, text: str) -> None:
    """Write a source and forget its bytecode, which is recognized by seconds and size alone."""
    file.write_text(text, encoding="utf-8")
    for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
        compiled.unlink()


def _test(sender: Connection, folder: Path, tests: list[str], limit: float) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(limit), math.ceil(limit) + 5))
    os.chdir(folder)
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    sources = [str(folder / "src"), str(folder)]
    sys.path[:0] = sources
    os.environ["PYTHONPATH"] = os.pathsep.join(sources)
    plugin = FirstFailure()
    code = pytest.main(["-x", "-q", "--no-header", *tests], plugins=[plugin])
    sender.send(("failed" if plugin.name else "passed" if code in (0, 5) else "failed", plugin.name))
    sender.close()
    os._exit(0)
