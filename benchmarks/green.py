"""Is the suite green every time? Tests that draw under ten seeds and with two threads, then all in random orders.

``python benchmarks/green.py`` runs everything, an hour or more; ``--drawing FILE`` takes a list made before with
``./run test --list-drawing FILE``, ``--seeds``, ``--shuffles`` and ``--processes`` do less. Outside CI.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def run(label, *options, threads=1):
    """Run pytest, print its last line and its failures, and return whether all is well."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rfE", "--tb=short", "--color=no", *options],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    lines = done.stdout.strip().splitlines() or [done.stderr.strip() or "no output"]
    print(f"{label}: {lines[-1]} ({time.perf_counter() - began:.0f} s)", flush=True)
    if done.returncode:
        print("\n".join(line for line in lines if re.match(r"(FAILED|ERROR|E  )", line)) or done.stderr, flush=True)
    return done.returncode == 0


def chosen(names):
    """Write the tests' names to a file that pytest reads its arguments from, and return that argument."""
    listing = Path(tempfile.mkdtemp()) / "drawing"
    listing.write_text("\n".join(names), encoding="utf-8")
    return f"@{listing}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drawing", type=Path, help="a list of tests that draw (made first where it is not given)")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--shuffles", type=int, default=2, help="orders of the whole suite")
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    processes = ("-n", str(arguments.processes))
    green = []
    if (listing := arguments.drawing) is None:
        listing = Path(tempfile.mkdtemp()) / "drawing"
        green.append(run("whole suite", *processes, "--list-drawing", str(listing)))
    drawing = chosen(sorted({line for line in listing.read_text(encoding="utf-8").splitlines() if line}))
    seeds, orders = range(arguments.seeds), range(arguments.shuffles)
    shifted = [(str(number), ("--seed", str(number), "--shuffle", str(number))) for number in (*seeds, *orders)]
    green += [run(f"drawing tests, seed and order {k}", *processes, *how, drawing) for k, how in shifted[: len(seeds)]]
    green.append(run("drawing tests, one process, two threads", "--threads", "2", drawing, threads=2))
    green += [run(f"whole suite, seed and order {k}", *processes, *how) for k, how in shifted[len(seeds) :]]
    print(f"{sum(green)} of {len(green)} runs are green")
    sys.exit(not all(green))


if __name__ == "__main__":
    main()
