"""Which seeded faults are found, by name and place: ``python benchmarks/hospital.py [--seeds 1] [--only PART]``.

Every fault of ``tests/zoo/hospital.py`` is one line of code on a healthy network. A line for each, with what was said,
then the count; a fault is found if every start of it is. ``--cure`` types what the verdicts say, up to three times,
and inspects again.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))


def said_of(fault, seed: int) -> tuple[bool, str]:
    """Whether the fault was found at a start, and not before it was made, and all faults that were named."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report = fault.inspect(seed)
            before = fault.patient.inspect(seed) if "build" in fault.changes else None
    except Exception as error:  # whatever it is, this model could not be inspected
        return False, f"{type(error).__name__}: {error}"[:200]
    named = [f"{finding.name} at {finding.layer}" for finding in (*report.errors, *report.warnings)]
    if before is not None and fault.found_in(before):
        return False, "the same before the fault was made"
    return fault.found_in(report), ", ".join(named) or "healthy"


def cured(fault) -> str:
    """What became of the first start when the code of the verdicts was typed, one after the other."""
    import torch
    from zoo.members import inspect_with

    import initscope

    model, patient, typed = fault.make(0), fault.patient, []
    data, targets = patient.data(48)
    for _ in range(3):
        changed = replace(patient, data=lambda count, data=data: (data, targets))
        report = inspect_with(model, changed)
        codes = [finding.fix.code for finding in report.errors if finding.fix and finding.fix.code]
        if report.healthy or not [code for code in codes if code not in typed]:
            break
        typed.append(next(code for code in codes if code not in typed))
        names = {"model": model, "data": data, "torch": torch, "initscope": initscope}
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(typed[-1], names)
        data = names["data"]
    if not typed:
        return "words only"
    return f"{'healthy' if report.healthy else 'STILL SICK'} after {'; '.join(typed)}"


def main() -> int:
    """Inspect them all; the exit code is 1 if fewer than 27 in 30 are found."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", default="", help="faults whose name holds this")
    parser.add_argument("--cure", action="store_true", help="type what is said, and inspect again")
    options = parser.parse_args()
    torch.set_num_threads(1)
    from zoo.hospital import FAULTS

    faults = {name: fault for name, fault in FAULTS.items() if options.only in name}
    found, outcomes = 0, Counter()
    for name, fault in faults.items():
        begun = time.process_time()
        said = [said_of(fault, seed) for seed in range(options.seeds)]
        right = all(each for each, _ in said)
        found += right
        seconds = time.process_time() - begun
        print(f"{'found ' if right else 'MISSED'} {name} ({fault.member}, {seconds:.1f} s)", flush=True)
        for seed, (each, text) in enumerate(said):
            if not each or not seed:
                print(f"    seed {seed}: {text}", flush=True)
        if options.cure:
            said_then = cured(fault)
            outcomes[said_then.partition(" after")[0]] += 1
            print(f"    cure: {said_then}", flush=True)
        if not right:
            print(f"    right: {', '.join(fault.findings)} at {', '.join(fault.where) or 'any place'}", flush=True)
    print(f"{found} of {len(faults)} faults found by name and place, {options.seeds} seeds each")
    if options.cure:
        print(", ".join(f"{count} {outcome}" for outcome, count in outcomes.items()))
    return int(30 * found < 27 * len(faults))


if __name__ == "__main__":
    sys.exit(main())
