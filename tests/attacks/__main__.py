"""Run an attack and print its figures: ``python tests/attacks NAME [COUNT]``; ``README.md`` lists the attacks.

The table goes to stdout, progress to stderr. The exit code is 1 if a scenario failed, else 0. With ``--record`` the
table replaces the section of this attack in ``figures.md``.
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import re
import sys
import time
import warnings
from datetime import UTC, datetime
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
sys.path[0] = str(HERE.parent)  # shared modules of the tests, and this folder as the package `attacks`

from attacks.outcomes import table  # noqa: E402

ATTACKS = ("fuzz", "interrupts", "kills", "memory", "no_trace", "outputs", "shared_cluster", "threads")
FIGURES = HERE / "figures.md"


def record(name: str, text: str) -> None:
    """Replace the section of an attack, or add it in alphabetical order."""
    head, *sections = re.split(r"(?m)^(?=## )", FIGURES.read_text(encoding="utf-8"))
    by_name = {section.split("\n", 1)[0].removeprefix("## "): section.rstrip() + "\n\n" for section in sections}
    by_name[name] = f"## {name}\n\n{text.rstrip()}\n\n"
    temporary = FIGURES.with_suffix(".new")
    temporary.write_text((head + "".join(by_name[key] for key in sorted(by_name))).rstrip() + "\n", encoding="utf-8")
    os.replace(temporary, FIGURES)


def main() -> int:
    """Run one attack."""
    parser = argparse.ArgumentParser(prog="python tests/attacks", description=__doc__)
    parser.add_argument("name", choices=ATTACKS)
    parser.add_argument("count", type=int, nargs="?", help="repetitions; what is repeated is in the attack's docstring")
    parser.add_argument("--record", action="store_true", help="write the table to figures.md")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    attack = importlib.import_module(f"attacks.{options.name}")
    count = attack.COUNT if options.count is None else options.count
    began, outcomes = time.perf_counter(), []
    for outcome in attack.run(count):
        outcome.show()
        outcomes.append(outcome)
    failures = sum(outcome.failures for outcome in outcomes)
    when = datetime.now(UTC).date()
    text = (
        f"`python tests/attacks {options.name} {count}`: {failures} failures, {time.perf_counter() - began:.0f} s; "
        f"{when}, Python {platform.python_version()}, torch {torch.__version__}, {platform.system()}\n\n"
        f"{table(outcomes)}"
    )
    print(text, end="")
    if options.record:
        record(options.name, text)
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
