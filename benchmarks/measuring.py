"""How benchmarks measure: the least CPU and wall seconds of a few runs, exponents of growth, rows of the table."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Row:
    """One line: seconds of ours and of a peer, how many times more the peer takes, what is wanted, megabytes."""

    case: str
    cpu: float
    wall: float | None = None
    peer: str = ""
    peer_cpu: float | None = None
    peer_wall: float | None = None
    wanted: str = ""
    memory: float | None = None
    peer_memory: float | None = None
    value: float | None = None
    """In place of the ratio, where a row is not a comparison: an exponent, a share."""
    held: bool | None = None
    """Of a claim: whether it held."""
    said: str = ""
    """Of a claim: what was measured, or why it did not hold."""

    def to_dict(self) -> dict[str, Any]:
        ratio = None if self.peer_cpu is None else self.peer_cpu / self.cpu
        if self.held is not None:
            return {"case": self.case, "seconds": self.cpu, "held": self.held, "said": self.said}
        known = {name: value for name, value in asdict(self).items() if name not in ("held", "said")}
        return known | {"ratio": self.value if ratio is None else ratio}


def seconds(call: Callable[[], Any], repeats: int = 3) -> tuple[float, float]:
    """Least CPU and wall seconds, after one run that is not counted."""
    call()
    best = (float("inf"), float("inf"))
    for _ in range(repeats):
        cpu, wall = time.process_time(), time.perf_counter()
        call()
        best = min(best, (time.process_time() - cpu, time.perf_counter() - wall))
    return best


def in_turns(*calls: Callable[[], Any], repeats: int = 5) -> list[float]:
    """Least CPU seconds of each call, all threads together: one run of each that is not counted, then in turns."""
    for call in calls:
        call()
    least = [float("inf")] * len(calls)
    for _ in range(repeats):
        for place, call in enumerate(calls):
            start = time.process_time()
            call()
            least[place] = min(least[place], time.process_time() - start)
    return least


def exponent(sizes: Sequence[float], times: Sequence[float]) -> float:
    """Slope of log time against log size."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def against_peer(case: str, ours: Callable[[], Any], peer: str, theirs: Callable[[], Any], wanted: str = "") -> Row:
    """Both in this process, one after the other."""
    cpu, wall = seconds(ours)
    peer_cpu, peer_wall = seconds(theirs)
    return Row(case, cpu, wall, peer, peer_cpu, peer_wall, wanted)
