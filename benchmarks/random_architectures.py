"""How far prediction reaches: random architectures from the list of rules, each against simulation.

    python benchmarks/random_architectures.py 300 [FIRST]

Each of them is a line of ``random_architectures.jsonl``; what is there is not run again. ``random_architectures.md`` is
made of it: how many were predicted in which way, what they were made of, which deviate by more than 5 standard errors.
"""

from __future__ import annotations

import json
import random
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import architectures

HERE = Path(__file__).parent
LINES, TABLE = HERE / "random_architectures.jsonl", HERE / "random_architectures.md"
LIMIT = 5


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    last, first = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    done = {line["seed"] for line in read()}
    for seed in (each for each in range(first, last) if each not in done):
        steps = architectures.describe(random.Random(seed).choice)
        verdict = architectures.judge(steps, seed=seed)
        line = {
            "seed": seed, "status": verdict.status, "rows": len(verdict.statuses),
            "deviation": round(verdict.deviation, 3), "where": verdict.where,
            "kinds": sorted(architectures.kinds(steps)),
        }  # fmt: skip
        with LINES.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
    TABLE.write_text(table(read()), encoding="utf-8")


def read() -> list[dict[str, Any]]:
    """Architectures so far, each once though two processes ran it."""
    lines = LINES.read_text(encoding="utf-8").splitlines() if LINES.exists() else []
    return list({line["seed"]: line for line in map(json.loads, lines)}.values())


def table(lines: list[dict[str, Any]]) -> str:
    """Coverage, in Markdown."""
    wrong = [line for line in lines if line["deviation"] > LIMIT]
    largest = max(line["deviation"] for line in lines)
    rows = sum(line["rows"] for line in lines)
    left = max(line["seed"] for line in lines) + 1 - len(lines)
    text = [
        f"{len(lines)} architectures, {rows} rows; {len(wrong)} wrong at {LIMIT} standard errors "
        f"(largest deviation {largest:.1f}); {left} of these numbers not run.",
        "",
        "| weakest status of its rows | architectures |",
        "|---|---|",
        *(f"| {status} | {count} |" for status, count in Counter(line["status"] for line in lines).most_common()),
        "",
        "| made of | in how many |",
        "|---|---|",
        *(f"| {kind} | {n} |" for kind, n in Counter(kind for line in lines for kind in line["kinds"]).most_common()),
        "",
    ]
    text += [f"Wrong: number {line['seed']}, {line['where']}, {line['deviation']} standard errors." for line in wrong]
    return "\n".join(text)


if __name__ == "__main__":
    main()
