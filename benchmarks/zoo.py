"""Who of the healthy is called sick, and why: ``python benchmarks/zoo.py [--seeds 3] [--only PART] [--hugging-face]``.

Published architectures at their published start (``tests/zoo``), and with ``--hugging-face`` tiny configurations of
`transformers` at that library's own start (``hugging_face.py`` beside this file; needs the package). A line for each,
with its faults if it is called sick or takes no inspection; then the count. A network is sick if any start of it is.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))


def faults_of(member, seed: int) -> list[str]:
    """The faults of one start, each in a line; an inspection that fails is one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report = member.inspect(seed)
    except Exception as error:  # whatever it is, this model could not be inspected
        return [f"{type(error).__name__}: {error}"[:300]]
    return [
        f"{verdict.name} from {verdict.layer}: {verdict.value:.3g} (threshold {verdict.threshold:g})"
        for verdict in report.findings
        if verdict.fault
    ]


def main() -> int:
    """Inspect them all; the exit code is 1 if more than 1 in 60 is called sick."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="", help="names that hold this")
    parser.add_argument("--hugging-face", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    from zoo import HEALTHY

    members = dict(HEALTHY)
    if options.hugging_face:
        from hugging_face import MEMBERS

        members |= {member.name: member for member in MEMBERS}
    members = {name: member for name, member in members.items() if options.only in name}
    sick = 0
    for name, member in members.items():
        begun = time.process_time()
        found = {seed: faults_of(member, seed) for seed in range(options.seeds)}
        sick += any(found.values())
        state = "SICK" if any(found.values()) else "healthy"
        print(f"{name:24s} {state:8s} {time.process_time() - begun:5.1f} s", flush=True)
        for seed, faults in found.items():
            for fault in faults:
                print(f"    seed {seed}: {fault}", flush=True)
    print(f"{sick} of {len(members)} healthy architectures called sick, {options.seeds} seeds each")
    return int(60 * sick > len(members))


if __name__ == "__main__":
    sys.exit(main())
