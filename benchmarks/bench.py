"""Speed against the peers, in one run, on one thread: ``./run bench [NAME …]`` writes ``results.md`` and ``.json``.

Ratios are of CPU time, which a busy machine changes less than wall time. The load is recorded, and a case is repeated
until two runs agree within 5 %, at most four times. Every case is measured here or in a process of its own; names that
are not asked for keep what the files hold. ``./run bench --list`` shows the names.
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
COMPARED = ("case", "ours CPU", "wall", "peer", "CPU", "wall", "ratio", "before", "wanted", "ours MB", "peer MB")
AGREE, REPEATS = 0.05, 3
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
        load = os.getloadavg()[0]
        try:
            rows, spread = agreed(run)
        except Exception as error:
            print(f"{name} failed: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        load = max(load, os.getloadavg()[0])
        how = {"date": time.strftime("%Y-%m-%d"), "machine": machine(), "load": round(load, 1), "spread": spread}
        kept[name] = how | {"rows": rows, "before": before(kept.get(name, {}))}
        JSON.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        TABLE.write_text(markdown(kept), encoding="utf-8")
    print(markdown({name: part for name, part in kept.items() if not names or name in names}), end="")


def agreed(run: Callable[[], list[Row]]) -> tuple[list[dict[str, Any]], float | None]:
    """Rows of the last of the runs, repeated until two of them agree within `AGREE`, and how far these are apart."""
    rows = [row.to_dict() for row in run()]
    spread = None
    for _ in range(REPEATS if compared(rows) else 0):
        last, rows = rows, [row.to_dict() for row in run()]
        spread = max(abs(b / a - 1) for a, b in zip(compared(last), compared(rows), strict=True))
        if spread <= AGREE:
            break
    return rows, spread


def compared(rows: list[dict[str, Any]]) -> list[float]:
    """The ratios; none where one run is enough, because claims repeat their own measurements."""
    return [row["ratio"] for row in rows if row.get("ratio")]


def before(part: dict[str, Any]) -> dict[str, float]:
    """The ratios that are replaced, by case: of another day, or those that these replaced on the same day."""
    if part.get("date") == time.strftime("%Y-%m-%d") and part.get("before"):
        return dict(part["before"])
    return {row["case"]: row["ratio"] for row in part.get("rows", ()) if row.get("ratio")}


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
        how = f"{part['date']}; {part['machine']}"
        how += f"; load {part['load']}" if "load" in part else ""
        how += f"; two runs agree within {part['spread']:.0%}" if part.get("spread") is not None else ""
        lines += [f"## {name}", "", f"{says} ({how})", ""]
        old = part.get("before", {})
        rows = part["rows"]
        lines += (
            claims_table(rows)
            if "held" in rows[0]
            else table(COMPARED, [cells(row, old.get(row["case"])) for row in rows])
        )
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


def cells(row: dict[str, Any], old: float | None) -> list[str]:
    def number(value: float | None) -> str:
        return "–" if value is None else f"{value:.3g}"

    peers = [row["peer"] or "–", number(row["peer_cpu"]), number(row["peer_wall"])]
    ratio = "–" if row["ratio"] is None else f"**{row['ratio']:.3g}**"
    memory = [number(row["memory"]), number(row["peer_memory"])]
    times = [number(row["cpu"]), number(row["wall"])]
    return [row["case"], *times, *peers, ratio, number(old), row["wanted"] or "–", *memory]


if __name__ == "__main__":
    if not ONE_THREAD.items() <= os.environ.items():  # libraries count processors when they are loaded: start again
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | ONE_THREAD)
    main()
