"""Make the figures of docs/classes.rst: ``python docs/figures/make_classes.py FOLDER``.

FOLDER has the checkpoints of the training run, or takes them (a quarter of an hour on one core; started again, it goes
on). Needs CIFAR-10 in a folder of INITSCOPE_DATA and, for the second figure, vgg16_imagenet_convs.npz and the ImageNet
sample.
"""

from __future__ import annotations

import sys
from pathlib import Path

from initscope.reproductions import class_boundaries, inside_trained
from initscope.reproductions.trained_networks import make_checkpoints

HERE = Path(__file__).parent

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    if not (folder / "error-18.pt").exists():
        make_checkpoints(folder)
    ratios = class_boundaries.run(checkpoints=str(folder))
    ratios.figure().savefig(HERE / "classes_separation.svg", metadata={"Date": None})
    inside_trained.run().figure().savefig(HERE / "classes_vgg.svg", metadata={"Date": None})
