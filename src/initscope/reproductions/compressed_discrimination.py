"""Compressed discrimination: classification from too few measurements for a reconstruction, at ratios 1:2 to 1:32."""

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
"""A measurement discriminates if it preserves 90 % of the accuracy above chance. It reconstructs if its images are
better than the mean image by one dB plus two standard errors."""


@dataclass(frozen=True)
class CompressedDiscrimination(Result):
    """Accuracies and reconstructions for each data set."""

    by_data: tuple[Discrimination, ...]

    def table(self) -> list[dict[str, Any]]:
        """Return one row per data set, measurement and ratio."""
        return [{"data": part.name} | row for part in self.by_data for row in part.table()]

    def figure(self) -> Figure:
        """Return a figure with a panel per data set."""
        return panels(*(part.plot for part in self.by_data))

    def numbers(self) -> dict[str, Number]:
        """Return the accuracy of the better classifier and the PSNR in dB of the best solver."""
        numbers = {}
        for part in self.by_data:
            for row in part.rows:
                name = f"{part.name}, {row.measurement} 1:{row.ratio:g}"
                numbers[f"{name}: accuracy"] = Number(*row.better())
                numbers[f"{name}: dB"] = Number(row.psnr, row.psnr_se)
        return numbers

    def regime(self) -> list[tuple[str, DiscriminationRow]]:
        """Return the rows that discriminate but do not reconstruct."""
        result = []
        for part in self.by_data:
            most = np.nanmax([part.full, part.full_cnn]) - part.chance
            for row in part.rows:
                decides = row.better()[0] - part.chance >= _DECIDES * most
                surely = row.psnr - 2 * np.nan_to_num(row.psnr_se)
                if decides and surely <= part.mean_image_psnr + _RECONSTRUCTS:
                    result.append((part.name, row))
        return result


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
    """Take fewer and fewer measurements of labeled images; classify and reconstruct from them."""
    loaded = [data.load(spec, limit=limit) for spec in specs] if images is None else [images]
    by_data = []
    for image_set in loaded:
        if getattr(image_set, "labels", None) is None:
            raise InputError(f"{getattr(image_set, 'name', 'your images')} have no labels; classification needs them")
        by_data.append(
            discriminate(
                image_set.images,
                image_set.labels,
                ratios,
                measurements=measurements,
                test_share=test_share,
                reconstruct=reconstruct,
                features=features,
                epochs=epochs,
                seed=seed,
                name=image_set.name,
            )
        )
    return CompressedDiscrimination(tuple(by_data))


REPRODUCTIONS = (
    Declared(
        id="talk-compressed-discrimination",
        source="Bronstein 2016, 'Compressed discrimination'",
        statement="A parameter of a signal can be estimated from measurements that are too few to reconstruct it.",
        produce=run,
        numbers=CompressedDiscrimination.numbers,
        holds=lambda result: bool(result.regime()),
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
