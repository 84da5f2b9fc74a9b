"""Speed against the peers, in one run, on one thread: ``./run bench [NAME …]`` writes ``results.md`` and ``.json``.

Ratios are of CPU time, which a busy machine leaves as it is; wall time stands beside it. Every case is measured here or
in a process of its own; names that are not asked for keep what the files hold. ``./run bench --list`` shows the names.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import cases
from measuring import Row

HERE = Path(__file__).parent
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
COMPARED = ("case", "ours CPU", "wall", "peer", "CPU", "wall", "ratio", "wanted", "ours MB", "peer MB")
JSON, TABLE = HERE / "results.json", HERE / "results.md"


def main() -> None:
    names = sys.argv[1:]
    if names == ["--list"]:
        print("\n".join(cases.CASES))
        return
    unknown = [name for name in names if name not in cases.CASES]
    if unknown:
        sys.exit(f"bench: no case is called {unknown[0]!r}; known: {', '.join(cases.CASES)}")
    kept: dict[str, Any] = json.loads(JSON.read_text(encoding="utf-8")) if JSON.exists() else {}
    for name in names or cases.CASES:
        print(f"{name} …", file=sys.stderr)
        run: Callable[[], list[Row]] = cases.CASES[name]
        try:
            rows = [row.to_dict() for row in run()]
        except Exception as error:
            print(f"{name} failed: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        kept[name] = {"date": time.strftime("%Y-%m-%d"), "machine": machine(), "rows": rows}
        JSON.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        TABLE.write_text(markdown(kept), encoding="utf-8")
    print(markdown({name: part for name, part in kept.items() if not names or name in names}), end="")


def machine() -> str:
    """Processor and versions."""
    import numpy
    import torch

    return f"{platform.machine()}, {os.cpu_count()} processors, torch {torch.__version__}, numpy {numpy.__version__}"


def markdown(kept: dict[str, Any]) -> str:
    """The table: made from the numbers, never typed."""
    lines = [
        "# Speed against the peers",
        "",
        "Made by `./run bench`; one thread each, CPU seconds, wall seconds beside.",
        "",
    ]
    for name in [each for each in cases.CASES if each in kept]:
        part = kept[name]
        says = " ".join((cases.CASES[name].__doc__ or "").split())
        lines += [f"## {name}", "", f"{says} ({part['date']}; {part['machine']})", ""]
        lines += claims_table(part["rows"]) if "held" in part["rows"][0] else table(COMPARED, map(cells, part["rows"]))
        lines.append("")
    return "\n".join(lines)


def table(head: tuple[str, ...], rows: Iterable[list[str]]) -> list[str]:
    return [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in (head, ["---"] * len(head), *rows)]


def claims_table(rows: list[dict[str, Any]]) -> list[str]:
    """How many claims held, which did not, then all of them."""
    lost = [row["case"] for row in rows if not row["held"]]
    count = f"{len(rows) - len(lost)} of {len(rows)} claims held." + "".join(f" Did not hold: {one}." for one in lost)
    each = ([row["case"], "held" if row["held"] else "**did not hold**", row["said"] or "–"] for row in rows)
    return [count, "", *table(("claim", "", "measured"), each)]


def cells(row: dict[str, Any]) -> list[str]:
    def number(value: float | None) -> str:
        return "–" if value is None else f"{value:.3g}"

    peers = [row["peer"] or "–", number(row["peer_cpu"]), number(row["peer_wall"])]
    ratio = "–" if row["ratio"] is None else f"**{row['ratio']:.3g}**"
    memory = [number(row["memory"]), number(row["peer_memory"])]
    return [row["case"], number(row["cpu"]), number(row["wall"]), *peers, ratio, row["wanted"] or "–", *memory]


if __name__ == "__main__":
    if not ONE_THREAD.items() <= os.environ.items():  # libraries count processors when they are loaded: start again
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | ONE_THREAD)
    main()
