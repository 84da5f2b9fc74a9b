"""Progress on stderr, from one second on: what is done, how much of it, and about how long it will still take.

On a terminal one line is written over and over, and goes before anything else is written there; in a file or a pipe
there is a new line for each thing that takes longer than a second, and then ever more rarely.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from typing import Any

from initscope._utils.progress import Stage, Watcher, stage, watching
from initscope.results import printable

__all__ = ["Meter", "metered", "stage_text", "time_text"]

_FIRST, _UNTOLD, _TICK = 1.0, 5.0, 0.25
_RARER = 2.0  # the next line in a file comes after twice the time of the last


class Meter(Watcher):
    """Shows the innermost stage with a known progress, or else the innermost stage."""

    def __init__(self) -> None:
        super().__init__()
        self._stream = sys.stderr
        self._terminal = self._stream is not None and self._stream.isatty()
        self._writing = threading.RLock()
        self._shown = self._last = ""
        self._next = _FIRST
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._began = time.monotonic()

    def note(self, message: str) -> None:
        """A line of its own."""
        self.clear()
        self._write(f"initscope: {printable(message)}\n")

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more and leave the line empty."""
        self._ended.set()
        self._thread.join(timeout=1)
        self.clear()

    def _watch(self) -> None:
        while not self._ended.wait(_TICK):
            self._tick(time.monotonic())

    def _tick(self, now: float) -> None:
        stages = list(self.stages)
        untold = len(stages) == 1 and not self._terminal  # the command says nothing of where it is
        if not stages or now - self._began < (_UNTOLD if untold else _FIRST):
            return
        shown = next((stage for stage in reversed(stages) if (stage.total or 0) > 1), stages[-1])
        text = stage_text(shown, now)
        if self._terminal:
            with self._writing:
                self.clear()
                self._shown = text
                self._write(text)
        elif now - self._began >= self._next or (shown.what != self._last and now - shown.began >= _FIRST):
            self._next, self._last = _RARER * (now - self._began), shown.what
            self._write(f"{text}\n")

    def clear(self) -> None:
        """Leave the line empty."""
        with self._writing:
            if self._shown:
                self._write("\r\x1b[K")
                self._shown = ""

    @contextmanager
    def silent(self) -> Iterator[None]:
        """The line is empty, and stays so inside."""
        with self._writing:
            self.clear()
            yield

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError, AttributeError):  # a stderr that is closed, or not there, shows nothing
            self._stream.write(text)
            self._stream.flush()

    @contextmanager
    def giving_way(self) -> Iterator[None]:
        """Whatever is written to the terminal inside finds the line empty."""
        if not self._terminal or sys.stdout is None:
            yield
            return
        output: Any = _Cleared(sys.stdout, self)
        errors: Any = _Cleared(self._stream, self)
        with redirect_stdout(output), redirect_stderr(errors):
            yield


class _Cleared:
    """A stream before whose texts a meter's line goes."""

    def __init__(self, stream: Any, meter: Meter) -> None:
        self._stream, self._meter = stream, meter

    def write(self, text: str) -> int:
        with self._meter.silent():  # else the line may come back before the text
            return int(self._stream.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def stage_text(stage: Stage, now: float) -> str:
    """Return one line about a stage.

    >>> stage_text(Stage("trying alternatives", 17, began=0.0, done=3), now=6.0)
    'trying alternatives: 3 of 17, about 28 s left'
    """
    spent = now - stage.began
    if stage.total is None or stage.total < 2:
        return f"{stage.what}: {time_text(spent)} so far"
    left = f", about {time_text(spent / stage.done * (stage.total - stage.done))} left" if stage.done else ""
    return f"{stage.what}: {stage.done} of {stage.total}{left}"


def time_text(seconds: float) -> str:
    """A length of time in words.

    >>> time_text(7.4), time_text(99), time_text(7300)
    ('7 s', '1 min 39 s', '2 h 1 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


@contextmanager
def metered() -> Iterator[Meter]:
    """A meter that looks on while the block runs."""
    meter = Meter()
    with watching(meter), stage("working"), meter.giving_way():
        meter.start()
        try:
            yield meter
        finally:
            meter.stop()
