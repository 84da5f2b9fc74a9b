"""`run`: inspect every program of a set, each in a process of its own with a time limit."""

from __future__ import annotations

import math
import multiprocessing
import resource
import signal
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from evaluation.causes import accepted
from evaluation.programs import EvaluationSet, Program, load

_BUSY = 20.0
"""Wall-clock time over processor time that is waited for, at most."""

VERSIONS = ("faulty", "fixed", "healthy")


@dataclass(frozen=True)
class Outcome:
    """What `initscope.inspect` reported about one program.

    Attributes
    ----------
    name, version : str
        The case or model, and ``faulty``, ``fixed`` or ``healthy``.
    errors : list of list of str
        Code, name and layer of every error, the first cause first.
    warnings : list of list of str
        The same of every warning.
    fixes : list of dict
        Every suggested fix: its name and line, and what trials reached before and after it.
    failure : str
        Why there is no report: an exception, or the time limit.
    refused : bool
        Whether the failure is an `InputError`, which counts as a finding where the case says so.
    seconds : float
        CPU time of the process.
    """

    name: str
    version: str
    errors: list[list[str]]
    failure: str
    refused: bool
    seconds: float
    warnings: list[list[str]] = field(default_factory=list)
    fixes: list[dict[str, Any]] = field(default_factory=list)

    @property
    def detected(self) -> bool:
        """Whether there is at least one error."""
        return bool(self.errors)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return asdict(self)


def run(
    part: EvaluationSet, *, limit: float = 300, samples: int = 64, seed: int = 0, **options: Any
) -> Iterator[Outcome]:
    """Inspect every program of a set and yield the outcomes in order; ``limit`` is in seconds of processor time.

    Other options go to `initscope.inspect`.
    """
    for name, version in versions_of(part):
        yield run_one(part.name, name, version, limit, samples=samples, seed=seed, **options)


def versions_of(part: EvaluationSet) -> list[tuple[str, str]]:
    """Return name and version of every program of a set."""
    cases = [
        (name, version)
        for name, case in part.cases.items()
        for version in ("faulty", "fixed")
        if getattr(case, version)
    ]
    return [*cases, *((name, "healthy") for name in part.healthy)]


def named(part: EvaluationSet, outcome: Outcome) -> bool:
    """Return whether an error of a faulty program has a code or a name that is accepted for its cause."""
    case = part.cases[outcome.name]
    names = accepted(case.causes, case.accepted)
    if outcome.refused and case.refused and case.refused in outcome.failure:
        return True
    return any(
        names & {code, name} and (not case.layers or layer.startswith(case.layers))
        for code, name, layer in outcome.errors
    )


def program_of(part: EvaluationSet, name: str, version: str) -> Program:
    """Return one program of a set."""
    return part.healthy[name].program if version == "healthy" else getattr(part.cases[name], version)


def report_of(program: Program, *, samples: int = 64, seed: int = 0, **options: Any) -> Any:
    """Return the report of `initscope.inspect` with everything that the program declares, and ``options``."""
    import initscope

    inputs, targets = program.draw(samples, seed)
    arguments = {"targets": targets, "loss": program.loss, "optimizer": program.optimizer, "lr": program.lr}
    return initscope.inspect(program.model(seed), inputs, pairs=samples // 2, **(arguments | program.options | options))


def labels_of(findings: Any) -> list[list[str]]:
    """Return code, name and layer of every finding."""
    return [[finding.code, finding.name, finding.layer or ""] for finding in findings]


def _result(report: Any) -> dict[str, Any]:
    fixes = [fix.to_dict() for fix in report.fixes]
    return {"errors": labels_of(report.errors), "warnings": labels_of(report.warnings), "fixes": fixes}


def run_one(set_name: str, name: str, version: str, limit: float, **options: Any) -> Outcome:
    """Inspect one program in a process of its own."""

    import initscope

    assert callable(initscope.inspect)  # loaded once, here, and not in every process
    method = "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"
    context = multiprocessing.get_context(method)
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(sender, set_name, name, version, limit, options))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork where torch has idle threads
        process.start()
    sender.close()
    result: dict[str, Any] = {}
    try:
        if receiver.poll(_BUSY * limit):
            result = receiver.recv()
    except EOFError:
        process.join()
        over = process.exitcode == -signal.SIGXCPU
        result = {} if over else {"failure": "the process ended without a report"}
    finally:
        if process.is_alive():
            process.join(5 if result else 0)
            process.kill()
        process.join()
        receiver.close()
    default = {"errors": [], "failure": "", "refused": False, "seconds": 0.0}
    if not result:
        result = {"failure": f"stopped after {limit:g} s", "seconds": limit}
    return Outcome(name, version, **(default | result))


def _send(sender: Connection, set_name: str, name: str, version: str, limit: float, options: dict[str, Any]) -> None:
    import torch

    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(limit), math.ceil(limit) + 5))
    torch.set_num_threads(1)
    begin = time.process_time()
    try:
        program = program_of(load(set_name), name, version)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = _result(report_of(program, **options))
    except Exception as error:  # any exception means that there is no report
        from initscope.errors import InputError

        refused = isinstance(error, InputError)
        result = {"failure": str(error) if refused else traceback.format_exc(), "refused": refused}
    sender.send(result | {"seconds": time.process_time() - begin})
    sender.close()
