"""Make the figures of docs/classes.rst: ``python docs/figures/make_classes.py FOLDER``.

FOLDER takes the checkpoints of the training run (about fifteen minutes on one core; started again, it goes on). Needs
CIFAR-10 in a folder of INITSCOPE_DATA and, for the second figure, vgg16_imagenet_convs.npz and the ImageNet sample.
"""

from __future__ import annotations

import sys
from pathlib import Path

from matplotlib.figure import Figure

import initscope
from initscope.classes import SMALL_CNN, AngleDistortion, Separations, angle_distortion, separations, train
from initscope.data import load_any
from initscope.data.locations import find
from initscope.models import load_model

HERE = Path(__file__).parent
LAYER = "relu5"


def network(weights: str | None = None) -> object:
    return load_model(SMALL_CNN, input_shape=(3, 32, 32), weights=weights, seed=0)


def trained(folder: Path) -> Separations:
    """Random weights and the checkpoints at 25, 21 and 18 % on 2,000 triplets of the test images."""
    images, test = (load_any(f"cifar10:split={split}", normalize="imagenet") for split in ("train", "test"))
    options = {"batch": 256, "learning_rate": 0.2, "label_smoothing": 0.1, "flip": True, "shift": 3, "evaluations": 2}
    stops = (0.25, 0.21, 0.18, 0.15)
    run = train(network(), images, test=test, stop_at_errors=stops, out=folder, progress=True, **options)
    networks = {"random weights": network()}
    networks |= {f"{mark.test_error:.1%} test error": network(mark.file) for mark in run.checkpoints[:3]}
    return separations(networks, test)


def histograms(found: Separations) -> Figure:
    figure = Figure(figsize=(11, 6), layout="constrained")
    axes = figure.subplots(2, 3)
    for row, side in enumerate(("intra", "inter")):
        for column, reading in enumerate(("random", "boundary", "rechosen")):
            ax = found.plot(axes[row, column], column=f"{side}_{reading}", layer=LAYER)
            ax.set(xlabel=f"{side}-class, {reading}", ylabel="")
            if (row, column) != (0, 0):
                ax.get_legend().remove()
    return figure


def vgg() -> dict[str, AngleDistortion]:
    images = load_any("imagenet-sample:resolution=128", normalize="imagenet")
    start = initscope.initializers.he_(load_model("initscope.classes:vgg16"))
    end = load_model("initscope.classes:vgg16", weights=find("vgg16_imagenet_convs.npz"))
    return {name: angle_distortion(model, images, pairs=60) for name, model in (("He", start), ("trained", end))}


def distortions(found: dict[str, AngleDistortion]) -> Figure:
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    for ax, layer in zip(figure.subplots(1, 2), ("relu7", "relu13")):
        place = [row.layer for row in found["He"].rows].index(layer)
        bins = [number / 40 for number in range(61)]
        for name, each in found.items():
            ax.hist(each.ratios[place], bins=bins, density=True, histtype="step", label=name)
        ax.hist(
            found["He"].predicted[place], bins=bins, density=True, histtype="step", linestyle=":", label="predicted"
        )
        ax.set(xlabel=f"angle after {layer} / angle before", ylabel="density")
        ax.legend(frameon=False)
    return figure


if __name__ == "__main__":
    histograms(trained(Path(sys.argv[1]))).savefig(HERE / "classes_separation.svg", metadata={"Date": None})
    distortions(vgg()).savefig(HERE / "classes_vgg.svg", metadata={"Date": None})
