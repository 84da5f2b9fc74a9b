"""`Provenance`: how a report was made and how large the model is; `Pictures`: the images that its page shows."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime

import torch
from torch import Tensor, nn

from initscope.data import ImageSet, Overview, overview
from initscope.geometry import Floats
from initscope.graph import Inputs
from initscope.inspection.inputs import all_targets
from initscope.inspection.spending import multiplications
from initscope.measurement.observation import Observation
from initscope.rendering.page import versions
from initscope.rendering.thumbnails import Thumbnail, thumbnails
from initscope.results import Result

__all__ = ["Pictures", "Provenance", "provenance_of"]

_OVERVIEW_VALUES = 1 << 25
"""Values of the samples in the overview of the data, which bounds its time."""
_SHORT_NUMBERS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True)
class Provenance(Result):
    """How a report was made, and the size of the model.

    Attributes
    ----------
    model : str
        Class of the model, or the argument of the command line.
    parameters : int
        Number of parameters, trainable or not.
    multiply_adds : float or None
        Multiply-adds of a forward pass for one sample; None: not counted.
    weights_bytes, outputs_bytes : int
        Memory of parameters and buffers; memory of the outputs of all ops for one sample, as float32.
    date : str
        Date and time in UTC.
    command : str
        The command line, if there was one.
    seed : int
        Seed of everything random.
    versions : dict
        Versions of the packages that numbers depend on.
    """

    model: str = ""
    parameters: int = 0
    multiply_adds: float | None = None
    weights_bytes: int = 0
    outputs_bytes: int = 0
    date: str = ""
    command: str = ""
    seed: int = 0
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def size(self) -> str:
        """Parameters, multiply-adds and memory in one line.

        >>> Provenance(parameters=1_200_000, multiply_adds=3.4e9, weights_bytes=4_800_000, outputs_bytes=2_000_000).size
        '1.2 M parameters (4.8 MB), 3.4 G multiply-adds and 2 MB of outputs per sample'
        """
        work = "" if self.multiply_adds is None else f"{short_count(self.multiply_adds)} multiply-adds and "
        weights = f"{short_count(self.parameters)} parameters ({short_count(self.weights_bytes)}B)"
        return f"{weights}, {work}{short_count(self.outputs_bytes)}B of outputs per sample"


def short_count(number: float) -> str:
    """Return a count with three digits and a unit.

    >>> short_count(950), short_count(25_557_032)
    ('950', '25.6 M')
    """
    unit, name = next((unit for unit in _SHORT_NUMBERS if number >= unit[0]), (1.0, ""))
    return f"{number / unit:.3g} {name}".strip()


def provenance_of(model: nn.Module, seen: Observation, seed: int) -> Provenance:
    """Return how a report is made, and the size of the model."""
    parameters, stored = list(model.parameters()), [*model.parameters(), *model.buffers()]
    few = (seen.x if isinstance(seen.x, Inputs) else Inputs((seen.x,))).pick(slice(0, 2))
    outputs = sum(math.prod(row.shape) for row in seen.rows if not row.traits.is_view)
    return Provenance(
        type(model).__name__,
        sum(map(Tensor.numel, parameters)),
        multiplications(model, few) or None,
        sum(tensor.nbytes for tensor in stored),
        4 * outputs,
        datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        seed=seed,
        versions=versions(),
    )


@dataclass(frozen=True)
class Pictures:
    """Images of the samples for the page: an overview of the ``data``, a ``sample`` of the pairs, and pairs by number.

    There are no pairs if the samples are not images, and no overview if the model takes several inputs.
    """

    sample: tuple[Thumbnail, ...] = ()
    of_pair: dict[int, Thumbnail] = field(default_factory=dict)
    data: Overview | None = None

    @classmethod
    def of(cls, seen: Observation, angle: Floats, pairs: list[int]) -> Pictures:
        """Return the images of an observation; ``angle [rows, pairs]`` are the angles of the sample."""
        if getattr(seen.x, "ndim", 0) != 4:
            return cls(data=_overview(seen))
        of_pair = {}
        for pair in pairs:
            alone = slice(pair, pair + 1)
            for image in thumbnails(seen.x[alone].cpu(), seen.y[alone].cpu(), angles=seen.angle[:, alone], count=1):
                of_pair[pair] = image
        return cls(tuple(thumbnails(seen.x, seen.y, angles=angle)), of_pair, _overview(seen))


def _overview(seen: Observation) -> Overview | None:
    """Return the overview of the samples in the pairs."""
    if not isinstance(seen.x, Tensor) or seen.x.dim() < 2 or seen.x.is_complex():
        return None
    samples = torch.cat([seen.x, seen.y]).detach().cpu()
    samples = samples.float() if samples.is_floating_point() or samples.dim() > 2 else samples.long()
    answers, labels = all_targets(seen), None
    if isinstance(answers, Tensor) and answers.shape == samples.shape[:1] and not answers.is_floating_point():
        labels = answers.detach().cpu().numpy()
    data = ImageSet(samples.numpy(), labels, name="samples of the pairs")
    return overview(data.spread(max(2, _OVERVIEW_VALUES // max(1, samples[0].numel()))))
