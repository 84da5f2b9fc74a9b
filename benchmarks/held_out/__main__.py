"""The held-out networks, trained a little, or inspected: ``python held_out train|inspect|tabulate [--only NAMES]``.

``train`` prints the mean loss of the first and of the last five of 40 steps of Adam. ``inspect`` gives every network
to `initscope.inspect` in a process of its own, with its loss and targets (``--bare``: with its inputs alone), and
prints its faults, its warnings, its CPU seconds and its peak of memory; ``--faults`` does the same with the bugs, and
says which are found. The exit code is 1 if a healthy network is called sick, warns, fails, or takes over 60 CPU
seconds or 3 GB. ``--out FILE`` adds a line of JSON for each; ``tabulate FILE`` makes the table of the documentation.
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


def inspected(network, seed: int, options: argparse.Namespace) -> dict:
    """What `inspect` says of one start, with its warnings, seconds and gigabytes; done in a process of its own."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        with os.fdopen(write, "w") as pipe:
            try:
                json.dump(_report(network, seed, options), pipe)
            except BaseException as error:  # whatever it is, this network could not be inspected
                refused = str(error) if type(error).__module__.startswith("initscope") else ""
                json.dump({"error": refused or traceback.format_exc(), "refused": refused}, pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    _, _, usage = os.wait4(child, 0)
    said = json.loads(text) if text else {"error": "killed"}
    return said | {"seconds": usage.ru_utime + usage.ru_stime, "gigabytes": usage.ru_maxrss / 2**20}


def _report(network, seed: int, options: argparse.Namespace) -> dict:
    import initscope

    model = network.make(seed)
    inputs, targets = network.draw(options.samples, seed)
    given = {} if options.bare else {"targets": targets, "loss": network.loss}
    given |= {"prediction": False, "alternatives": False, "trial": False} if options.verdicts else {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report = initscope.inspect(model, inputs, pairs=options.samples // 2, **given, **dict(network.options))
    return {
        "faults": [str(finding) for finding in report.errors],
        "named": [[finding.name, finding.layer] for finding in report.errors],
        "known": [[finding.name, finding.layer] for finding in report.warnings],
        "cautions": list(report.cautions),
        "headline": report.headline,
        "warnings": [f"{w.category.__name__}: {w.message} ({w.filename}:{w.lineno})" for w in caught],
    }


def train(networks) -> int:
    """Print how losses fall."""
    for name, network in networks.items():
        losses = network.train(network.make(0), 40)
        first, last = sum(losses[:5]) / 5, sum(losses[-5:]) / 5
        print(f"{name:28s} {first:9.4g} -> {last:9.4g} {'' if last < first else 'DOES NOT FALL'}", flush=True)
    return 0


def judged(network, said: dict) -> str:
    """One word on what was said: of a healthy network, or of a bug."""
    if not hasattr(network, "found"):
        words = (("faults", "sick"), ("error", "fails"), ("warnings", "warns"))
        return next((word for key, word in words if said.get(key)), "healthy")
    if "error" in said:
        return "found" if network.refused(said.get("refused", "")) else "fails"
    return "found" if network.found(said["named"]) else "told" if network.found(said["known"]) else "missed"


def tabulate(lines: list[dict]) -> int:
    """Print the rows of the table of the documentation."""
    for part in sorted({line["part"] for line in lines}):
        for kind in ("healthy", "mended", "bug"):
            of = [line for line in lines if line["part"] == part and line["kind"] == kind]
            for word in dict.fromkeys(sorted(line["state"] for line in of)):
                print(f"{part:8s} {kind:8s} {word:8s} {sum(line['state'] == word for line in of):3d} of {len(of)}")
            if of:
                seconds = sorted(line["seconds"] for line in of)
                print(f"{part:8s} {kind:8s} CPU seconds: median {seconds[len(of) // 2]:.1f}, most {seconds[-1]:.1f}; "
                      f"memory: most {max(line['gigabytes'] for line in of):.2f} GB")  # fmt: skip
    return 0


def main() -> int:
    """Train, inspect or count those that are asked for."""
    import torch

    from held_out import FAULTS, HEALTHY

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("train", "inspect", "tabulate"))
    parser.add_argument("file", nargs="?", type=Path, help="of tabulate: what inspect wrote")
    parser.add_argument("--only", default="", help="names that hold one of these words, with commas between")
    parser.add_argument("--part", default="", choices=("", "first", "second", "third"))
    parser.add_argument("--bare", action="store_true", help="without loss and targets")
    parser.add_argument(
        "--verdicts", action="store_true", help="without predictions and other starts, which change none"
    )
    parser.add_argument("--faults", action="store_true", help="the bugs instead")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--all", action="store_true", help="print all that is said")
    parser.add_argument("--out", type=Path, help="a line of JSON for each is added to this file")
    options = parser.parse_args()
    if options.what == "tabulate":
        return tabulate([json.loads(line) for line in options.file.read_text(encoding="utf-8").splitlines()])
    torch.set_num_threads(1)
    networks = {
        name: network
        for name, network in (FAULTS if options.faults else HEALTHY).items()
        if any(word in name for word in options.only.split(",")) and options.part in ("", network.part)
    }
    if options.what == "train":
        return train(networks)
    wrong = sum(show(network, seed, options) for network in networks.values() for seed in range(options.seeds))
    print(
        f"{wrong} of {len(networks) * options.seeds} starts with a fault, a failure, a warning, or too much time or "
        "memory"
    )
    return int(wrong > 0)


def show(network, seed: int, options: argparse.Namespace) -> bool:
    """Inspect one start, print what is said, and say whether a healthy network should not hear it."""
    said = inspected(network, seed, options)
    state = judged(network, said)
    kind = "bug" if hasattr(network, "found") else "mended" if network.name.endswith(".mended") else "healthy"
    print(f"{network.name:44s} {state:8s} {said['seconds']:6.1f} s {said['gigabytes']:5.2f} GB", flush=True)
    lines = [*said.get("faults", ()), *said.get("warnings", ()), *filter(None, [said.get("error")])]
    extra = [f"{key}: {said.get(key)}" for key in ("other", "cautions", "diagnosis", "conclusion", "codes")]
    for line in [*lines, *(extra if options.all else ())]:
        print(f"    seed {seed}: {line}", flush=True)
    if options.out:
        row = {"name": network.name, "part": network.part, "kind": kind, "seed": seed, "state": state}
        measured = {key: round(said[key], 2) for key in ("seconds", "gigabytes")}
        told = {"faults": [v[:2] for v in said.get("named", ())], "known": [v[:2] for v in said.get("known", ())]}
        with options.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row | measured | told) + "\n")
    return bool(lines) or said["seconds"] > 60 or said["gigabytes"] > 3


if __name__ == "__main__":
    sys.exit(main())
