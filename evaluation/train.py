"""Train both versions of every case of a set: ``python -m evaluation.train SET [--only NAMES] [--seeds 4]``.

Prints the score on new samples of the faulty and the fixed version, mean over the seeds, and whether the fault hurts:
the gap is larger than a tenth of what the fixed version gains over an untrained one, and larger than twice the
standard error between seeds. Healthy models are trained too: the loss at the start and at the end.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from typing import Any

import torch
from torch import nn

from evaluation.programs import Case, Healthy, Program, call, load, rows


def trained(program: Program, seed: int) -> tuple[nn.Module, list[float]]:
    """Return the trained model and the losses of its steps; training stops at a loss that is not finite."""
    model = program.model(seed).train()
    inputs, targets = program.draw(program.samples, 1 + seed)
    parameters = [weight for weight in model.parameters() if weight.requires_grad]
    generator = torch.Generator().manual_seed(seed)
    losses: list[float] = []
    if not parameters:
        return model, losses
    optimizer = program.optimizer(parameters, lr=program.lr)
    while len(losses) < program.steps:
        order = torch.randperm(program.samples, generator=generator)
        for start in range(0, program.samples - program.batch + 1, program.batch):
            index = order[start : start + program.batch]
            optimizer.zero_grad()
            loss = program.loss(call(model, rows(inputs, index)), rows(targets, index))
            losses.append(loss.item())
            if not loss.isfinite() or len(losses) == program.steps or not loss.requires_grad:
                return model, losses
            loss.backward()
            optimizer.step()
    return model, losses


def score(case: Case, program: Program, seed: int) -> tuple[float, float]:
    """Return the scores on new samples before and after training."""
    inputs, _ = program.draw(256, 1000 + seed)
    _, truth = (program.truth or program.data)(256, torch.Generator().manual_seed(1000 + seed))

    def of(model: nn.Module) -> float:
        with torch.no_grad():
            return case.score(program.predict(call(model, inputs)), truth)

    return of(program.model(seed).eval()), of(trained(program, seed)[0].eval())


def hurts(faulty: list[float], fixed: list[float], untrained: list[float]) -> bool:
    """Return whether the faulty version ends clearly below the fixed one."""
    gap = statistics.mean(fixed) - statistics.mean(faulty)
    gain = statistics.mean(fixed) - statistics.mean(untrained)
    error = 0.0
    if len(fixed) > 1:
        error = ((statistics.variance(fixed) + statistics.variance(faulty)) / len(fixed)) ** 0.5
    return gap > 0.1 * max(gain, 0.0) and gap > 2 * error and gap > 0.01


def row(case: Case, seeds: int) -> dict[str, Any]:
    """Return the measured scores of one case."""
    faulty = [score(case, case.faulty, seed)[1] for seed in range(seeds)]
    both = [score(case, case.fixed, seed) for seed in range(seeds)]
    untrained, fixed = [before for before, _ in both], [after for _, after in both]
    return {
        "name": case.name,
        "faulty": statistics.mean(faulty),
        "fixed": statistics.mean(fixed),
        "untrained": statistics.mean(untrained),
        "hurts": hurts(faulty, fixed, untrained),
    }


def healthy_row(model: Healthy) -> tuple[float, float]:
    """Return the mean loss of the first and of the last five steps."""
    _, losses = trained(model.program, 0)
    return statistics.mean(losses[:5]), statistics.mean(losses[-5:])


def main(arguments: list[str] | None = None) -> int:
    """Train what is asked for; the exit code is 1 if a case is marked otherwise than it trains."""
    parser = argparse.ArgumentParser(prog="python -m evaluation.train", description=__doc__.splitlines()[0])
    parser.add_argument("set")
    parser.add_argument("--only", default="", help="names that contain one of these words, separated by commas")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    part = load(options.set).part(only=options.only)
    wrong = 0
    line = "| {} | {:.3f} | {:.3f} | {} |" if options.markdown else "{:44s} {:8.3f} {:8.3f}  {}"
    for case in part.cases.values():
        if case.fixed is None or case.score is None:
            continue
        result = row(case, options.seeds)
        outcome = "hurts" if result["hurts"] else "does not hurt"
        different = result["hurts"] != case.hurts
        wrong += different
        text = outcome + (" (marked otherwise)" if different else "")
        print(line.format(case.name, result["faulty"], result["fixed"], text), flush=True)
    for model in part.healthy.values():
        first, last = healthy_row(model)
        print(line.format(model.name, first, last, "falls" if last < first else "DOES NOT FALL"), flush=True)
        wrong += last >= first
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
