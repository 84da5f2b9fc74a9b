"""What holds for the tests of the command line: a busy machine puts no lines of progress between the messages."""

import math

import pytest


@pytest.fixture(autouse=True)
def progress_by_the_clock(monkeypatch):
    """No line ever, however long a command takes; `test_progress` lets the clock run."""
    monkeypatch.setattr("initscope.cli._progress._FIRST", math.inf)
