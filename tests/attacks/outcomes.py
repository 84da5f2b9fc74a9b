"""What an attack returns: one outcome for each scenario, and a Markdown table of them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field

__all__ = ["Outcome", "table"]


@dataclass(frozen=True)
class Outcome:
    """A scenario: how often it was tried, how often it failed, and what else was measured.

    ``messages`` say what failed; the same message may come several times.
    """

    scenario: str
    tries: int
    failures: int
    figures: str = ""
    messages: tuple[str, ...] = field(default=())

    def show(self) -> None:
        """Print progress and the first messages to stderr."""
        print(f"{self.scenario}: {self.failures} of {self.tries} failed; {self.figures}", file=sys.stderr, flush=True)
        for message in self.messages[:10]:
            print(f"    {message}", file=sys.stderr, flush=True)


def table(outcomes: Iterable[Outcome]) -> str:
    """A Markdown table with one line for each scenario.

    >>> print(table([Outcome("a | b", 3, 0, "2 s")]), end="")
    | scenario | tries | failures | figures |
    |---|---|---|---|
    | a \\| b | 3 | 0 | 2 s |
    """
    lines = ["| scenario | tries | failures | figures |", "|---|---|---|---|"]
    for outcome in outcomes:
        cells = (outcome.scenario, f"{outcome.tries:,}", f"{outcome.failures:,}", outcome.figures)
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    return "\n".join(lines) + "\n"
