"""Published architectures with their published initialization, and one-line bugs seeded into them.

``registry`` holds the 62 architectures that are written here, ``transformers_models`` small configurations of Hugging
Face's ``transformers`` (left out where it is not installed), ``seeded_bugs`` the bugs, ``by_width`` networks whose
width is an argument, ``full_size`` three architectures at real size for timings.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from evaluation.programs import Case, Data, Healthy, Program

if TYPE_CHECKING:
    from evaluation.published.faults import Fault
    from evaluation.published.members import Member


def _data(member: Member) -> Data:
    return lambda count, generator: member.data(count)


def _program(member: Member) -> Program:
    return Program(member.build, _data(member), member.loss, steps=40, batch=16, samples=48)


def _case(fault: Fault) -> Case:
    fixed = fault.original

    def build() -> Any:
        import torch

        return fault.make(torch.initial_seed())

    faulty = Program(build, _data(fixed), fixed.loss, steps=40, batch=16, samples=48)
    return Case(fault.name, (), faulty, _program(fixed), accepted=fault.findings, layers=fault.where)


def healthy() -> tuple[Healthy, ...]:
    """Return the healthy models; those of ``transformers`` where it is installed."""
    from evaluation.published.registry import HEALTHY

    members = list(HEALTHY.values())
    if importlib.util.find_spec("transformers"):
        from evaluation.published.transformers_models import MEMBERS

        members += MEMBERS
    return tuple(Healthy(member.name, _program(member), member.source) for member in members)


def cases() -> tuple[Case, ...]:
    """Return the seeded bugs."""
    from evaluation.published.seeded_bugs import FAULTS

    return tuple(_case(fault) for fault in FAULTS.values())


def small() -> tuple[str, ...]:
    """Return the names of the small part."""
    from evaluation.published.registry import SMALL
    from evaluation.published.seeded_bugs import FEW

    return (*SMALL, *FEW)


CASES, HEALTHY, SMALL = cases, healthy, small
