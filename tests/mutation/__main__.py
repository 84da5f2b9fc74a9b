"""Change the source in small ways and see whether a test fails: ``./run test --mutants N``.

N mutants are sampled over all packages in proportion to their lines; packages that compute standard errors, thresholds
or exceptions count twice. Each is applied to a copy of the project in a temporary folder. The nearest tests run first
(the doctests of the file, and the files of tests that mention the function or import the module), then the tests of
the package. A mutant is killed if a test fails that passes without it, or if the tests exceed the time limit. The exit
code is 1 if a mutant survived.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[0] = str(HERE.parent)

from mutation.running import Copy  # noqa: E402
from mutation.sampling import nearest, of_package, sample  # noqa: E402


def main() -> int:
    """Sample mutants, test each, and print a line for each and a table."""
    parser = argparse.ArgumentParser(prog="./run test --mutants", description=__doc__)
    parser.add_argument("count", type=int, help="number of mutants")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--skip", type=int, default=0, help="continue after this number of mutants")
    parser.add_argument("--limit", type=float, default=120, help="CPU seconds of each run of tests")
    parser.add_argument("--nearest", action="store_true", help="run only the nearest tests, without the slow ones")
    options = parser.parse_args()
    root = HERE.parents[1]
    places = sample(root, options.count, options.seed)[options.skip :]
    counts: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory(prefix="mutants") as folder:
        copy = Copy(root, Path(folder))
        for place in places:
            stages = [[*nearest(root, place), "--fast"]]
            if not options.nearest:
                stages.append(of_package(root, place))
            result, test = copy.outcome(place.path, place.mutant, stages, options.limit)
            counts.setdefault(place.package, Counter())[result] += 1
            print(f"{result}: {place}{f' by {test}' if test else ''}", flush=True)
    total = sum(counts.values(), Counter())
    print(f"\n{'package':20}{'mutants':>8}{'killed':>8}{'time':>8}{'survived':>10}")
    for package, count in [*counts.items(), ("all", total)]:
        print(f"{package:20}{count.total():8}{count['killed']:8}{count['time']:8}{count['survived']:10}")
    return int(total["survived"] > 0)


if __name__ == "__main__":
    sys.exit(main())
