"""``python -m evaluation SET [--small] [--json FILE]``: inspect every program of a set and print one table.

Every program is inspected in a process of its own with a time limit, with its data, targets, loss, optimizer and
learning rate. A bug is detected if there is at least one error, and named if the code or the name of an error is
accepted for its cause (``causes.py``). Intervals are exact (Clopper–Pearson, 95 %). ``--list`` also prints a line for
each program; it is refused for frozen sets, because nobody may tune on them.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from evaluation.programs import load, set_names
from evaluation.running import run
from evaluation.table import line, rates, table


def main(arguments: list[str] | None = None) -> int:
    """Inspect a set and print its table."""
    parser = argparse.ArgumentParser(prog="python -m evaluation", description=__doc__.splitlines()[0])
    parser.add_argument("set", help=f"one of {', '.join(set_names())}")
    parser.add_argument("--small", action="store_true", help="a small part of the set")
    parser.add_argument("--only", default="", help="names that contain one of these words, separated by commas")
    parser.add_argument("--list", action="store_true", help="print a line for each program too")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write rates (and outcomes, if not frozen) to FILE")
    parser.add_argument(
        "--limit", type=float, default=300, help="processor seconds of one program (default: %(default)s)"
    )
    parser.add_argument("--samples", type=int, default=64, help="samples of data (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    frozen = options.set.startswith("frozen")
    if frozen and (options.list or options.only or options.small):
        parser.error("a frozen set is run as a whole, and only its table is shown")
    part = load(options.set).part(small=options.small, only=options.only)
    outcomes = []
    for outcome in run(part, limit=options.limit, samples=options.samples, seed=options.seed):
        outcomes.append(outcome)
        if options.list:
            print(line(part, outcome), flush=True)
    print(table(part, outcomes), flush=True)
    if options.json:
        result = {
            "set": options.set,
            "rates": [
                {"label": rate.label, "count": rate.count, "total": rate.total, "interval": rate.interval}
                for rate in rates(part, outcomes)
            ],
            "outcomes": [] if frozen else [outcome.to_dict() for outcome in outcomes],
        }
        temporary = options.json.with_suffix(".part")
        temporary.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        temporary.replace(options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
