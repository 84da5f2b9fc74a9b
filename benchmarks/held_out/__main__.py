"""The held-out networks, trained a little, or inspected: ``python held_out train|inspect [--only PART] [--bare]``.

``train`` prints the mean loss of the first and of the last five of 40 steps of Adam. ``inspect`` gives every network
to `initscope.inspect` in a process of its own, with its loss and targets (``--bare``: with its inputs alone), and
prints its faults, its warnings, its CPU seconds and its peak of memory; ``--faults`` does the same with the bugs, and
says which are found. The exit code is 1 if a healthy network is called sick, warns, fails, or takes over 60 CPU
seconds or 3 GB.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))


def inspected(network, seed: int, bare: bool, samples: int) -> dict:
    """What `inspect` says of one start, with its warnings, seconds and gigabytes; done in a process of its own."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        with os.fdopen(write, "w") as pipe:
            try:
                json.dump(_report(network, seed, bare, samples), pipe)
            except BaseException:  # whatever it is, this network could not be inspected
                json.dump({"error": traceback.format_exc()}, pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    _, _, usage = os.wait4(child, 0)
    said = json.loads(text) if text else {"error": "killed"}
    return said | {"seconds": usage.ru_utime + usage.ru_stime, "gigabytes": usage.ru_maxrss / 2**20}


def _report(network, seed: int, bare: bool, samples: int) -> dict:
    import initscope

    model = network.make(seed)
    inputs, targets = network.draw(samples, seed)
    given = {} if bare else {"targets": targets, "loss": network.loss}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report = initscope.inspect(model, inputs, pairs=samples // 2, **given, **dict(network.options))
    return {
        "faults": [f"{v.name} at {v.layer}: {v.finding}" for v in report.verdicts if v.fault],
        "named": [[v.name, v.layer, v.block] for v in report.verdicts if v.fault],
        "known": [[v.name, v.layer, v.block] for v in report.verdicts if not v.fault],
        "other": [f"{v.name} at {v.layer}: {v.finding}" for v in report.verdicts if not v.fault],
        "codes": [v.code for v in report.verdicts if v.fault and v.code],
        "cautions": list(report.cautions),
        "diagnosis": report.diagnosis,
        "conclusion": report.conclusion,
        "warnings": [f"{w.category.__name__}: {w.message} ({w.filename}:{w.lineno})" for w in caught],
    }


def train(networks) -> int:
    """Print how losses fall."""
    for name, network in networks.items():
        losses = network.train(network.make(0), 40)
        first, last = sum(losses[:5]) / 5, sum(losses[-5:]) / 5
        print(f"{name:28s} {first:9.4g} -> {last:9.4g} {'' if last < first else 'DOES NOT FALL'}", flush=True)
    return 0


def main() -> int:
    """Train or inspect those that are asked for."""
    import torch

    from held_out import FAULTS, HEALTHY

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("train", "inspect"))
    parser.add_argument("--only", default="", help="names that hold this")
    parser.add_argument("--bare", action="store_true", help="without loss and targets")
    parser.add_argument("--faults", action="store_true", help="the bugs instead")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--all", action="store_true", help="print all that is said")
    options = parser.parse_args()
    torch.set_num_threads(1)
    networks = {n: m for n, m in (FAULTS if options.faults else HEALTHY).items() if options.only in n}
    if options.what == "train":
        return train(networks)
    wrong = found = 0
    for name, network in networks.items():
        for seed in range(options.seeds):
            told = False
            said = inspected(network, seed, options.bare, options.samples)
            heavy = said["seconds"] > 60 or said["gigabytes"] > 3
            bad = [*said.get("faults", ()), *said.get("warnings", ()), *filter(None, [said.get("error")])]
            wrong += bool(bad or heavy)
            if options.faults and "named" in said:
                found += network.found(said["named"]) or (told := network.found(said["known"]))
                bad = [f"{'found' if network.found(said['named']) else 'told' if told else 'MISSED'}", *bad]
            state = "SICK" if said.get("faults") else "FAILS" if "error" in said else "WARNS" if bad else "healthy"
            print(f"{name:28s} {state:8s} {said['seconds']:6.1f} s {said['gigabytes']:5.2f} GB", flush=True)
            extra = [
                f"{k}: {v}"
                for k in ("other", "cautions", "diagnosis", "conclusion", "codes")
                for v in ([said.get(k)] if options.all else [])
            ]
            for line in [*bad, *extra]:
                print(f"    seed {seed}: {line}", flush=True)
    print(
        f"{wrong} of {len(networks) * options.seeds} starts with a fault, a failure, a warning, or too much time or "
        "memory"
    )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
