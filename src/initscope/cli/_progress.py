"""Progress on stderr, shown after one second: the current work, how much of it is done, and the time left.

On a terminal it is one line with a bar, which is rewritten, and removed before other output. A file or a pipe gets one
line per stage that takes longer than a second, and after 30 s further lines now and then.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from typing import Any

from initscope._utils.progress import Stage, Watcher, stage, watching
from initscope.results import printable

__all__ = ["Meter", "metered", "stage_text", "time_text"]

_FIRST, _TICK = 1.0, 0.25
_LONG, _RARER = 30.0, 2.0  # from when on a file has a second line of a stage; the next comes after twice the time
_BAR = 16  # columns


class Meter(Watcher):
    """Shows the innermost stage with a known progress, or else the innermost stage."""

    def __init__(self) -> None:
        super().__init__()
        self._stream = sys.stderr
        self._terminal = self._stream is not None and self._stream.isatty()
        self._writing = threading.RLock()
        self._shown = ""
        self._said: set[str] = set()
        self._next = _LONG
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
        spent = now - self._began
        if not stages or spent < _FIRST:
            return
        shown = next((stage for stage in reversed(stages) if (stage.total or 0) > 1), stages[-1])
        if self._terminal:
            with self._writing:
                self.clear()
                self._shown = self._line(shown, now)
                self._write(self._shown)
            return
        new = shown is not stages[0] and shown.what not in self._said and now - shown.began >= _FIRST
        if new or spent >= self._next:
            self._said.add(shown.what)
            self._next = max(_LONG, _RARER * spent)
            self._write(f"{stage_text(shown, now)}\n")

    def _line(self, shown: Stage, now: float) -> str:
        """Return the progress text, with a bar if the total is known, and at most as wide as the terminal."""
        text, width = stage_text(shown, now), shutil.get_terminal_size().columns - 1
        if (shown.total or 0) > 1 and len(text) + _BAR + 1 <= width:
            unicode = (getattr(self._stream, "encoding", None) or "utf-8").lower().startswith("utf")
            text = f"{bar(shown, '━─' if unicode else '#-')} {text}"
        return text if len(text) <= width else f"{text[: width - 3]}..."

    def clear(self) -> None:
        """Leave the line empty."""
        with self._writing:
            if self._shown:
                self._write("\r\x1b[K")
                self._shown = ""

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Clear the line, and keep it empty inside the block."""
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
    """A stream that clears the progress line before it writes."""

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
    'trying alternatives: 3 of 17, 0.5/s, about 28 s left'
    """
    spent = now - stage.began
    if stage.total is None or stage.total < 2:
        return f"{stage.what}: {time_text(spent)} so far"
    left = ""
    if stage.done and spent > 0:
        rate = stage.done / spent
        left = f", {rate_text(rate)}, about {time_text((stage.total - stage.done) / rate)} left"
    return f"{stage.what}: {stage.done} of {stage.total}{left}"


def rate_text(rate: float) -> str:
    """Return a number per second, or per minute if it is small.

    >>> rate_text(1234.5), rate_text(2.345), rate_text(0.05)
    ('1234/s', '2.3/s', '3/min')
    """
    rate, unit = (rate, "s") if rate >= 0.1 else (60 * rate, "min")
    return f"{rate:.2g}/{unit}" if rate < 100 else f"{rate:.0f}/{unit}"


def bar(stage: Stage, marks: str = "━─") -> str:
    """Return the share of a stage that is done, as a bar.

    >>> bar(Stage("trying alternatives", 4, began=0.0, done=1))
    '━━━━────────────'
    """
    done = round(_BAR * min(1.0, stage.done / (stage.total or 1)))
    return marks[0] * done + marks[1] * (_BAR - done)


def time_text(seconds: float) -> str:
    """Return a length of time in words.

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
