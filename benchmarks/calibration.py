"""Are stated errors right? Every setting of ``tests/calibrated_*.py`` over many seeds, as a table.

    python benchmarks/calibration.py [WORD …]      # only settings whose quantity or description holds one of the words

Each setting is a line of ``calibration.jsonl``, which a run of that setting replaces. ``docs/calibration_table.txt`` is
made of all lines. The whole takes some six minutes of one core.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import calibrated_networks
import calibrated_samples
import calibration

HERE = Path(__file__).parent
LINES, TABLE = HERE / "calibration.jsonl", HERE.parent / "docs" / "calibration_table.txt"
ALLOWED = 0.1
SETTINGS = [*calibrated_networks.SETTINGS, *calibrated_samples.SETTINGS]


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    words = sys.argv[1:]
    lines = read()
    for setting in SETTINGS:
        name = f"{setting.quantity}; {setting.where}"
        if words and not any(word in name for word in words):
            continue
        started = time.process_time()
        estimates, errors = calibration.runs_of(setting, setting.seeds)
        truth = None if setting.truth is None else setting.truth()
        spread = calibration.spread_of(estimates, errors, truth)
        lines[name] = {
            "quantity": setting.quantity, "where": setting.where, "seeds": setting.seeds,
            "against": "mean over seeds" if setting.truth is None else "truth", "spread": round(spread.value, 3),
            "error": round(spread.error, 3), "within": round(spread.within, 3),
            "seconds": round(time.process_time() - started, 1),
        }  # fmt: skip
        print(f"{spread.value:.3f} ± {spread.error:.3f}  {verdict(lines[name])}  {name}", flush=True)
        save(lines)
    save(lines)


def save(lines: dict[str, dict[str, Any]]) -> None:
    """Write lines and table, in the order of the settings; settings that are gone are left out."""
    names = [f"{setting.quantity}; {setting.where}" for setting in SETTINGS]
    kept = [lines[name] for name in names if name in lines]
    write(LINES, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in kept))
    write(TABLE, table(kept))


def read() -> dict[str, dict[str, Any]]:
    """Settings so far."""
    text = LINES.read_text(encoding="utf-8").splitlines() if LINES.exists() else []
    return {f"{line['quantity']}; {line['where']}": line for line in map(json.loads, text)}


def verdict(line: dict[str, Any]) -> str:
    """Within 10 % of 1; or beyond, by less or more than two standard errors of the spread."""
    beyond = abs(line["spread"] - 1) - ALLOWED
    if beyond <= 0:
        return "right"
    return "unclear" if beyond <= 2 * line["error"] else "wrong"


def table(lines: list[dict[str, Any]]) -> str:
    """A list-table of reStructuredText."""
    rows = [("quantity", "setting", "seeds", "spread", "within one error", "")]
    for line in lines:
        function, _, names = line["quantity"].partition(": ")
        names = ", ".join(f"``{name}``" if name.replace(".", "").isidentifier() else name for name in names.split(", "))
        quantity = f"{function}: {names}"
        spread = f"{line['spread']:.2f} ± {line['error']:.2f}"
        rows.append(
            (quantity, line["where"], str(line["seeds"]), spread, f"{100 * line['within']:.0f} %", verdict(line))
        )
    text = [".. list-table::", "   :header-rows: 1", "   :widths: 30 34 8 14 10 8", ""]
    for row in rows:
        text += [f"   {'*' if not index else ' '} - {cell}".rstrip() for index, cell in enumerate(row)]
    return "\n".join(text) + "\n"


def write(path: Path, text: str) -> None:
    """Replace a file at once."""
    new = path.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    os.replace(new, path)


if __name__ == "__main__":
    main()
