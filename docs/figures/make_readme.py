"""Make the figures of the README: ``python docs/figures/make_readme.py``, in the folder of the repository.

``report.png`` is a screenshot of the report of ``examples/mynet.py:deep`` by Chromium. The others are the first figure
of a tutorial or a gallery script. ``demo.svg`` comes from ``make_full_scale.py``.
"""

from __future__ import annotations

import contextlib
import runpy
import shutil
import subprocess
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt
from PIL import Image

from initscope._utils.axes import STYLE
from initscope.cli import main

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "docs" / "_static"
FIGURES = {
    "measure.svg": "examples/tutorials/plot_2_measure.py",
    "plan.svg": "examples/tutorials/plot_4_plan.py",
    "use.png": "examples/gallery/plot_inversion.py",
}


def draw(script: Path, out: Path) -> None:
    """Run a script and save its first figure."""
    plt.close("all")
    runpy.run_path(str(script))
    metadata = {"Date": None} if out.suffix == ".svg" else None
    plt.figure(1).savefig(out, dpi=110, metadata=metadata)


def screenshot(out: Path) -> None:
    """Inspect the deep example and save the top of its report as an image."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # the page shows the command
        shutil.copy(ROOT / "examples" / "mynet.py", folder)
        main(["inspect", "mynet.py:deep", "--data", "digits", "--pairs", "64", "--out", "report.html"])
        options = ["--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=1280,1400"]
        subprocess.run([browser, *options, f"--screenshot={out}", Path("report.html").resolve().as_uri()], check=True)
    with Image.open(out) as image:
        image.convert("RGB").quantize(64).save(out, optimize=True)


if __name__ == "__main__":
    matplotlib.rcParams.update({**STYLE, "svg.hashsalt": "initscope"})
    for name, script in FIGURES.items():
        draw(ROOT / script, STATIC / name)
    screenshot(STATIC / "report.png")
