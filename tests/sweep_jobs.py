"""Jobs for the tests of sweeps: small, importable by worker processes, without torch."""

import os
import signal
import time
from pathlib import Path

STARTED = time.process_time()
"""Seconds that this process had spent when it first read this file."""


def square(job):
    """One row, after a while."""
    time.sleep(job.get("seconds", 0))
    return [{"row": 0, "layer": "square", "loss": float(job["number"]) ** 2}]


def labelled(job):
    """The label of a driver, once the file ``gate`` is there."""
    while not os.path.exists(job["gate"]):
        time.sleep(0.01)
    return job["label"]


def endless(job):
    """Never returns, unless its number is 1."""
    while job["number"] != 1:
        time.sleep(60)
    return square(job)


def busy(job):
    """One row, after some CPU time; with what the process has spent since it began, work or not."""
    end = time.process_time() + job["seconds"]
    while time.process_time() < end:
        pass
    return [{"row": 0, "layer": "busy", "mean_width": time.process_time() - STARTED}]


def troubled(job):
    """Some numbers fail, leave, or kill their process: 5 the first time, 6 every time."""
    number = job["number"]
    if number == 3:
        raise ValueError("three is not liked")
    if number == 4:
        raise SystemExit(0)
    first = Path(job["folder"]) / "first"
    if number == 6 or (number == 5 and not first.exists()):
        first.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return square(job)


def jobs(count, **more):
    return [(f"job{number:03}", {"number": number, **more}) for number in range(count)]


def shared(count):
    """What the rows of every job share, and their order: arguments of `collect`."""
    names = [name for name, _ in jobs(count)]
    return {name: {"model": name} for name in names}, {name: place for place, name in enumerate(names)}
