"""A small comparison that every test of the reports may read."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import initscope
from initscope.geometry import Comparison
from initscope.initializers import He
from initscope.models import load_model


def run(architecture, *, draws=2, pairs=7, shape=(3, 12, 12)):
    """Pairs of random images, predicted and measured, with the images."""
    generator = torch.Generator().manual_seed(1)
    x, y = torch.rand(2, pairs, *shape, generator=generator)
    model = load_model(architecture, input_shape=shape)
    prediction = initscope.predict(model, x, y, He())
    measurement = initscope.measure(model, x, y, initializer=He(), draws=draws)
    return Comparison(prediction, measurement, title="A <test> & more"), (x, y)


@pytest.fixture(scope="session")
def comparison_and_images():
    return run("conv3x3x8-relu*3")


@pytest.fixture(scope="session")
def comparison(comparison_and_images):
    return comparison_and_images[0]


@pytest.fixture(scope="session")
def partly_covered():
    """A network whose second layer, and so all that follows, is measured but not predicted."""
    x, y = torch.rand(2, 5, 3, 8, 8, generator=torch.Generator().manual_seed(2))
    model = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.Softsign(), nn.Conv2d(6, 4, 3), nn.ReLU())
    prediction = initscope.predict(model, x, y)
    reasons = ["LocalResponseNorm has no rule", *["a layer before it is not covered"] * 2]
    rows = [replace(row, status="not covered", note=why) for row, why in zip(prediction.rows[2:], reasons)]
    missing = {name: getattr(prediction, name).copy() for name in ("cosine", "norm_ratio", "rms_ratio")}
    for values in missing.values():
        values[2:] = np.nan
    prediction = replace(prediction, rows=(*prediction.rows[:2], *rows), **missing)
    return Comparison(prediction, initscope.measure(model, x, y, draws=2))


def stack(depth, width=24):
    """A ReLU network in which angles close and gradients vanish: torch's own start."""
    layers = [module for _ in range(depth - 1) for module in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(width, 10))


@pytest.fixture(scope="session")
def reports():
    """Of networks with 3, 60 and 400 rows, the last two sick."""
    torch.manual_seed(0)
    data = torch.rand(48, 24, generator=torch.Generator().manual_seed(3))
    models = {
        3: nn.Sequential(nn.Linear(24, 32), nn.ReLU()),
        60: nn.Sequential(*stack(30), nn.Identity()),
        400: stack(200),
    }
    options = {"pairs": 12, "alternatives": False}
    return {rows: initscope.inspect(model, data, **options) for rows, model in models.items()}


@pytest.fixture(scope="session")
def report_pages(reports, tmp_path_factory):
    """Their pages, as files."""
    folder = tmp_path_factory.mktemp("pages")
    for rows, report in reports.items():
        report.to_html(folder / f"{rows}.html")
    return {rows: folder / f"{rows}.html" for rows in reports}
