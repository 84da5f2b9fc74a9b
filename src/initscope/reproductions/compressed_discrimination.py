"""Compressed discrimination: classes from measurements that are too few to reconstruct from, at 1:2 to 1:32."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from initscope import data
from initscope.errors import InputError
from initscope.invert.discrimination import Discrimination, DiscriminationRow, discriminate
from initscope.reproductions._figures import panels
from initscope.reproductions.protocol import Declared, Number
from initscope.results import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["REPRODUCTIONS", "CompressedDiscrimination", "run"]

_DECIDES, _RECONSTRUCTS = 0.9, 1.0
"""A measurement decides that keeps nine tenths of the accuracy above guessing; one reconstructs whose pictures are, by
two standard errors, better than the mean image by one dB."""


@dataclass(frozen=True)
class CompressedDiscrimination(Result):
    """A table of accuracies and reconstructions for each set of images."""

    found: tuple[Discrimination, ...]

    def table(self) -> list[dict[str, Any]]:
        """One row per set of images, measurement and ratio."""
        return [{"data": one.name} | row for one in self.found for row in one.table()]

    def figure(self) -> Figure:
        """A panel for each set of images."""
        return panels(*(one.plot for one in self.found))

    def numbers(self) -> dict[str, Number]:
        """Accuracy of the better classifier, and dB of the best solver."""
        numbers = {}
        for one in self.found:
            for row in one.rows:
                name = f"{one.name}, {row.measurement} 1:{row.ratio:g}"
                numbers[f"{name}: accuracy"] = Number(*row.better())
                numbers[f"{name}: dB"] = Number(row.psnr, row.psnr_se)
        return numbers

    def regime(self) -> list[tuple[str, DiscriminationRow]]:
        """Rows from which one can decide but not reconstruct."""
        found = []
        for one in self.found:
            most = np.nanmax([one.full, one.full_cnn]) - one.chance
            for row in one.rows:
                decides = row.better()[0] - one.chance >= _DECIDES * most
                surely = row.psnr - 2 * np.nan_to_num(row.psnr_se)
                if decides and surely <= one.mean_image_psnr + _RECONSTRUCTS:
                    found.append((one.name, row))
        return found


def run(
    images: data.ImageSet | None = None,
    *,
    specs: Sequence[str] = ("fashion-mnist", "cifar10"),
    limit: int = 12_000,
    test_share: float = 1 / 6,
    ratios: Sequence[float] = (2, 4, 8, 16, 32),
    measurements: Sequence[str] = ("gaussian", "convolution", "tomography"),
    reconstruct: int = 16,
    features: int = 1000,
    epochs: int = 10,
    seed: int = 0,
) -> CompressedDiscrimination:
    """Cut the measurements of labelled images, classify from them alone, and reconstruct from them."""
    loaded = [data.load_any(spec, limit=limit) for spec in specs] if images is None else [images]
    found = []
    for one in loaded:
        if getattr(one, "labels", None) is None:
            raise InputError(f"{getattr(one, 'name', 'your images')} have no labels, so there is nothing to decide")
        found.append(
            discriminate(
                one.images,
                one.labels,
                ratios,
                measurements=measurements,
                test_share=test_share,
                reconstruct=reconstruct,
                features=features,
                epochs=epochs,
                seed=seed,
                name=one.name,
            )
        )
    return CompressedDiscrimination(tuple(found))


REPRODUCTIONS = (
    Declared(
        id="talk-compressed-discrimination",
        source="Bronstein 2016, 'Compressed discrimination'",
        statement="A parameter of a signal can be estimated from measurements that are too few to reconstruct it.",
        produce=run,
        numbers=CompressedDiscrimination.numbers,
        holds=lambda found: bool(found.regime()),
        small={
            "specs": ("digits",),
            "limit": 1797,
            "test_share": 0.3,
            "ratios": (2, 4, 16),
            "measurements": ("gaussian", "tomography"),
            "reconstruct": 3,
            "epochs": 2,
        },
        data="images",
    ),
)
