"""How far prediction reaches: random architectures from the list of rules, each against simulation.

    python benchmarks/random_architectures.py 300

Prints those that deviate by more than 5 standard errors, and how many were predicted in which way.
"""

from __future__ import annotations

import json
import random
import sys
import warnings
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import architectures


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    first, last = (0, int(sys.argv[1])) if len(sys.argv) == 2 else map(int, sys.argv[1:3])
    verdicts = []
    for seed in range(first, last):
        steps = architectures.describe(random.Random(seed).choice)
        verdicts.append(architectures.judge(steps, seed=seed))
        if verdicts[-1].deviation > 5:
            print(seed, steps, verdicts[-1], flush=True)
    print(json.dumps(architectures.report(verdicts)))


if __name__ == "__main__":
    main()
