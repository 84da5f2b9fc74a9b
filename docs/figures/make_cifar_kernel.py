"""Make the figure of docs/kernels.rst: ``python docs/figures/make_cifar_kernel.py``."""

from __future__ import annotations

import sys
from pathlib import Path

from initscope.rendering.figures import MEASURED, PREDICTED, THIRD, new_axes

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "benchmarks"))
COLORS = {"NNGP": PREDICTED, "NTK": THIRD, "trained": MEASURED}

if __name__ == "__main__":
    import cifar_kernel

    summary = cifar_kernel.summary()
    axes = new_axes()
    for method, color in COLORS.items():
        for network, style in (("plain", "o-"), ("pooled", "s--")):
            points = [(n, mean, error) for (net, name, n), (mean, error, *_) in summary.items()
                      if (net, name) == (network, method)]  # fmt: skip
            if points:
                counts, means, errors = zip(*points, strict=True)
                label = method if network == "plain" else f"{method}, pooled"
                axes.errorbar(counts, means, errors, fmt=style, color=color, markersize=4, capsize=2, label=label)
    axes.set(xscale="log", xlabel="training images of a class", ylabel="accuracy on test images", ylim=(0.1, None))
    axes.legend(frameon=False)
    axes.figure.savefig(HERE / "cifar_kernel.svg", metadata={"Date": None})
