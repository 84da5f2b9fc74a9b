"""`discriminate`: how few measurements suffice for classification, and how few for reconstruction.

Compressed discrimination: a few measurements of an image may determine its class even if no solver can reconstruct the
image from them. For each ratio, the accuracy is compared with the quality of the best reconstruction.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from initscope._utils.palette import line_color
from initscope._utils.progress import kept_if_interrupted, none_is_no_result, steps
from initscope._utils.randomness import torch_generator
from initscope.errors import InputError, check_between, check_count, check_seed
from initscope.invert.images import psnr, ssim
from initscope.invert.sensing import Sensing, make_sensing
from initscope.results import Result, make_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Discrimination", "DiscriminationRow", "accuracy", "discriminate"]


@dataclass(frozen=True)
class DiscriminationRow(Result):
    """One measurement at one ratio.

    ``features`` and ``cnn`` are test accuracies of random ReLU features with a linear classifier and of a small trained
    CNN; ``psnr`` and ``ssim`` those of the best ``solver``, mean over the reconstructed images. Fields with
    the suffix ``_se`` are standard errors over the test images, for the measurement and classifiers as they are.
    """

    measurement: str
    ratio: float
    outputs: int
    features: float
    features_se: float
    cnn: float
    cnn_se: float
    psnr: float
    psnr_se: float
    ssim: float
    solver: str

    def better(self) -> tuple[float, float]:
        """Return the accuracy of the better classifier, and its standard error."""
        return max((self.features, self.features_se), (self.cnn, self.cnn_se), key=lambda pair: np.nan_to_num(pair[0]))


@dataclass(frozen=True)
class Discrimination(Result):
    """Accuracy and reconstruction; ``full`` and ``full_cnn`` are accuracies from all pixels, ``chance`` of guessing.

    ``mean_image_psnr`` is the quality of answering with the mean training image, without any measurement.
    """

    name: str
    train: int
    test: int
    full: float
    full_se: float
    full_cnn: float
    full_cnn_se: float
    chance: float
    mean_image_psnr: float
    rows: tuple[DiscriminationRow, ...]

    def table(self) -> list[dict[str, Any]]:
        """Return one row per measurement and ratio."""
        return [row.to_dict() for row in self.rows]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot accuracy (left, solid) and reconstruction in dB (right, dashed) against the ratio."""
        ax = make_axes(ax, figsize=(7, 4))
        right: Any = ax.twinx()
        for color, name in enumerate(dict.fromkeys(row.measurement for row in self.rows)):
            mine = [row for row in self.rows if row.measurement == name]
            ratios = [row.ratio for row in mine]
            best, errors = zip(*(row.better() for row in mine))
            ax.errorbar(ratios, best, [2 * e for e in errors], fmt="o-", ms=4, color=line_color(color), label=name)
            right.errorbar(ratios, [row.psnr for row in mine], [2 * row.psnr_se for row in mine], fmt="s--", ms=3,
                           lw=1, alpha=0.7, color=line_color(color))  # fmt: skip
        ax.axhline(np.nanmax([self.full, self.full_cnn]), color="black", lw=0.8, ls=":")
        right.axhline(self.mean_image_psnr, color="gray", lw=0.8, ls=":")
        ax.set_xscale("log", base=2)
        ticks = sorted({row.ratio for row in self.rows})
        ax.set_xticks(ticks, [f"1:{tick:g}" for tick in ticks])
        ax.set(xlabel="measurements : pixels", ylabel="accuracy, better classifier (solid)", ylim=(0, 1.02))
        right.set_ylabel("reconstruction, dB (dashed)")
        ax.set_title(f"{self.name}: dotted, all pixels (black) and the mean image (gray)", fontsize=10)
        ax.legend(fontsize=8, loc="lower left")
        return ax


def discriminate(
    images: Any,
    labels: Any,
    ratios: Sequence[float] = (2, 4, 8, 16, 32),
    *,
    measurements: Sequence[str] = ("gaussian", "convolution", "tomography"),
    test_share: float = 0.3,
    reconstruct: int = 8,
    features: int = 1000,
    epochs: int = 8,
    arc: float = 120.0,
    seed: int = 0,
    name: str = "",
    progress: Callable[[str], None] | None = None,
) -> Discrimination:
    """Reduce the measurements of images to 1:ratio and test classification and reconstruction.

    Source: [Bronstein2016]_, 'Compressed discrimination' and 'Compressed scattering tomography'.

    Parameters
    ----------
    images : array ``[N, H, W]`` or ``[N, C, H, W]``
        Square, in [0, 1]; colors are averaged to gray.
    labels : array of N whole numbers
        Classes.
    ratios : sequence of float
        Pixels per measurement.
    measurements : sequence of str
        ``gaussian`` (dense, linear), ``convolution`` (strided random filters and ReLU), ``tomography`` (projections
        along angles of ``arc`` degrees, by scikit-image).
    test_share : float
        Share of the images that the classifiers do not see.
    reconstruct : int
        Test images to reconstruct, by total variation, wavelets and, for tomography, filtered back projection; the best
        solver on average is reported.
    features, epochs : int
        Random features of the linear classifier; passes over the training images of the CNN (0: no CNN).
    arc : float
        Degrees of the angles of the tomography.
    seed : int
        Seed of the split, the measurements, the features and the CNN.
    name : str
        Name of the images, for the title of the result.
    progress : callable, optional
        Gets a sentence per measurement.

    Returns
    -------
    Discrimination
        Accuracy and quality of the reconstruction for every kind of measurement and every ratio.
    """
    pixels, classes = _checked(images, labels)
    check_between("test_share", test_share, 0.0, 1.0)
    check_count("reconstruct", reconstruct)
    check_between("arc", arc, 0.0, 180.0001, hint="degrees")
    order = np.random.default_rng(check_seed("seed", seed)).permutation(len(pixels))
    held = max(1, round(test_share * len(pixels)))
    tested, trained = order[:held], order[held:]
    task = _Task(pixels[trained], classes[trained], pixels[tested], classes[tested], features, epochs, seed)
    full, full_se = accuracy(task.by_features(task.train.flatten(1), task.test.flatten(1)))
    full_cnn, full_cnn_se = accuracy(task.by_cnn(task.train, task.test))
    side = pixels.shape[-1]
    mean_image = task.train.mean(0).numpy()
    shown = task.test[: min(reconstruct, held)]
    rows = []
    cells = [(which, ratio) for which in measurements for ratio in ratios]
    with kept_if_interrupted():
        for which, ratio in steps(cells, "measuring and reconstructing"):
            check_between("ratio", ratio, 0.0, side**2 + 0.5, hint="pixels per measurement")
            measurement = make_sensing(which, side, max(1, int(side**2 / ratio)), arc=arc, seed=seed)
            rows.append(_row(measurement, ratio, task, shown))
            if progress is not None:
                last = rows[-1]
                progress(f"{which} 1:{ratio:g}: accuracy {last.better()[0]:.3f}, {last.psnr:.1f} dB")
    none_is_no_result(rows)
    return Discrimination(
        name=name,
        train=len(task.train),
        test=held,
        full=full,
        full_se=full_se,
        full_cnn=full_cnn,
        full_cnn_se=full_cnn_se,
        chance=float(np.bincount(task.test_labels).max() / held),
        mean_image_psnr=float(np.mean([psnr(image.numpy(), mean_image) for image in shown])),
        rows=tuple(rows),
    )


def _checked(images: Any, labels: Any) -> tuple[Tensor, NDArray[np.int64]]:
    pixels = np.asarray(images, dtype=np.float32)
    if pixels.ndim == 4:
        pixels = pixels.mean(axis=1)
    if pixels.ndim != 3 or pixels.shape[1] != pixels.shape[2] or pixels.shape[1] < 4:
        raise InputError(
            f"images of shape {np.shape(images)} must be [N, H, W] or [N, C, H, W], square, 4 pixels or more"
        )
    if not np.isfinite(pixels).all() or pixels.min() < 0 or pixels.max() > 1:
        raise InputError("images must have finite values in [0, 1]; divide bytes by 255")
    classes = np.asarray(labels)
    if classes.shape != (len(pixels),) or classes.dtype.kind not in "iu":
        raise InputError(f"labels of shape {classes.shape} must be one whole number for each of {len(pixels)} images")
    if len(pixels) < 20 or len(np.unique(classes)) < 2:
        raise InputError(
            f"{len(pixels)} images of {len(np.unique(classes))} classes: give at least 20 images of two classes"
        )
    return torch.from_numpy(pixels[:, None]), np.unique(classes, return_inverse=True)[1].astype(np.int64)


def _row(measurement: Sensing, ratio: float, task: _Task, shown: Tensor) -> DiscriminationRow:
    train, test = measurement.measure(task.train), measurement.measure(task.test)
    linear, linear_se = accuracy(task.by_features(train, test))
    deep, deep_se = accuracy(task.by_cnn(measurement.back_projected(train), measurement.back_projected(test)))
    solved = [measurement.reconstructions(values) for values in test[: len(shown)]]
    scores = {name: [psnr(image.numpy(), by[name]) for image, by in zip(shown, solved)] for name in solved[0]}
    solver = max(scores, key=lambda name: float(np.mean(scores[name])))
    values = np.array(scores[solver])
    likeness = [ssim(image.numpy(), np.clip(by[solver], 0, 1)) for image, by in zip(shown, solved)]
    return DiscriminationRow(
        measurement=measurement.name,
        ratio=float(ratio),
        outputs=measurement.outputs,
        features=linear,
        features_se=linear_se,
        cnn=deep,
        cnn_se=deep_se,
        psnr=float(values.mean()),
        psnr_se=float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan,
        ssim=float(np.mean(likeness)),
        solver=solver,
    )


@dataclass(frozen=True)
class _Task:
    """Training and test images, and the two classifiers."""

    train: Tensor
    train_labels: NDArray[np.int64]
    test: Tensor
    test_labels: NDArray[np.int64]
    features: int
    epochs: int
    seed: int

    def by_features(self, train: Tensor, test: Tensor) -> NDArray[np.bool_]:
        """Return which test images a ridge classifier on random ReLU features of the measurements classifies correctly.

        Measurements are standardized. The ridge parameter is chosen on a fifth of the training images. Without it, the
        error would peak where the number of features equals the number of images.
        """
        from scipy.linalg import LinAlgWarning
        from sklearn.linear_model import RidgeClassifier
        from sklearn.model_selection import GridSearchCV, ShuffleSplit

        center, spread = train.mean(0), train.std() + 1e-12
        first, second = ((values - center) / spread for values in (train, test))
        generator = torch_generator(self.seed, "features")
        directions = torch.randn(train.shape[1], self.features, generator=generator) / math.sqrt(train.shape[1])
        offsets = torch.randn(self.features, generator=generator)
        lifted = [
            torch.cat([values, torch.relu(values @ directions + offsets)], dim=1).numpy() for values in (first, second)
        ]
        with warnings.catch_warnings():
            # float32 features are nearly dependent; the ridge makes the system solvable.
            warnings.simplefilter("ignore", LinAlgWarning)
            classifier = GridSearchCV(
                RidgeClassifier(solver="cholesky"),
                {"alpha": np.logspace(-1, 4, 6)},
                cv=ShuffleSplit(1, test_size=0.2, random_state=self.seed),
            ).fit(lifted[0], self.train_labels)
        return np.asarray(classifier.predict(lifted[1]) == self.test_labels)

    def by_cnn(self, train: Tensor, test: Tensor) -> NDArray[np.bool_]:
        """Return which test images a CNN of two strided convolutions classifies correctly; empty without epochs.

        It reads back-projected measurements and is trained by Adam.

        The global random state is not changed.
        """
        if not self.epochs:
            return np.zeros(0, dtype=np.bool_)
        spread = train.std() + 1e-12
        train, test = train / spread, test / spread
        classes = int(max(self.train_labels.max(), self.test_labels.max())) + 1
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.manual_seed(self.seed)
            side = -(-train.shape[-1] // 4)
            model = nn.Sequential(
                nn.Conv2d(1, 16, 5, stride=2, padding=2), nn.ReLU(),
                nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
                nn.Flatten(), nn.Linear(32 * side**2, 64), nn.ReLU(), nn.Linear(64, classes),
            )  # fmt: skip
            optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
            labels = torch.from_numpy(self.train_labels)
            for _ in range(self.epochs):
                for batch in torch.split(torch.randperm(len(train)), 64):
                    optimizer.zero_grad()
                    loss: Any = nn.functional.cross_entropy(model(train[batch]), labels[batch])
                    loss.backward()
                    optimizer.step()
            with torch.no_grad():
                answers = torch.cat([model(part).argmax(1) for part in torch.split(test, 500)])
        return np.asarray(answers.numpy() == self.test_labels)


def accuracy(right: NDArray[np.bool_]) -> tuple[float, float]:
    """Return the share of correct answers and its standard error over the test images; NaN without answers."""
    if not len(right):
        return math.nan, math.nan
    share = float(right.mean())
    return share, math.sqrt(share * (1 - share) / len(right))
