"""``python -m evaluation.rotation COMMIT``: inspect a part of all development sets that changes with the commit.

CI runs this for a minute on every commit. Programs are taken in an order that follows from the commit, until the time
is used; one in four has its trial, the others are inspected without one. The exit code is 1 if a program has no report,
unless the case says that it is refused, or if more than one healthy or fixed program has an error.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Iterator

from evaluation.programs import EvaluationSet, load, set_names
from evaluation.running import Outcome, run_one, versions_of
from evaluation.table import failed, line

_WITH_TRIAL = 4


def order(parts: list[EvaluationSet], commit: str) -> list[tuple[EvaluationSet, str, str, bool]]:
    """Return set, name and version of all programs in the order of this commit, and whether each has its trial."""
    ranked = []
    for part in parts:
        for name, version in versions_of(part):
            digest = hashlib.sha256(f"{commit} {part.name} {name} {version}".encode()).digest()
            ranked.append((digest, part, name, version, digest[-1] % _WITH_TRIAL == 0))
    return [tuple(entry) for _, *entry in sorted(ranked, key=lambda entry: entry[0])]


def inspected(parts: list[EvaluationSet], commit: str, seconds: float) -> Iterator[tuple[EvaluationSet, Outcome]]:
    """Inspect programs in the order of the commit until this processor time is used."""
    for part, name, version, with_trial in order(parts, commit):
        options = {} if with_trial else {"trial": False}
        outcome = run_one(part.name, name, version, seconds, prediction=False, alternatives=False, **options)
        yield part, outcome
        seconds -= outcome.seconds
        if seconds <= 0:
            return


def main(arguments: list[str] | None = None) -> int:
    """Inspect the part of a commit, and print a line for each program."""
    parser = argparse.ArgumentParser(prog="python -m evaluation.rotation", description=__doc__.splitlines()[0])
    parser.add_argument("commit", help="hash of the commit, or any text")
    parser.add_argument("--seconds", type=float, default=60, help="processor time (default: %(default)s)")
    options = parser.parse_args(arguments)
    parts = [load(name) for name in set_names() if not name.startswith("frozen")]
    count = failures = false = 0
    for part, outcome in inspected(parts, options.commit, options.seconds):
        print(f"{part.name:15s} {line(part, outcome)}", flush=True)
        used_up = outcome.failure.startswith("stopped after")
        count, failures = count + 1, failures + (failed(part, outcome) and not used_up)
        false += outcome.detected and outcome.version != "faulty"
    total = sum(len(versions_of(part)) for part in parts)
    print(f"{count} of {total} programs inspected, {failures} without a report, {false} false errors")
    return int(failures > 0 or false > 1)


if __name__ == "__main__":
    sys.exit(main())
