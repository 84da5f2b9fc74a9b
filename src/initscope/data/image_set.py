"""`ImageSet`: images with their labels; all loaders return one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from initscope.errors import InputError, check_count
from initscope.results import Result, counted, label_text, make_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ImageSet", "is_whole"]


def is_whole(values: NDArray[Any]) -> bool:
    """Return whether values are integers by type, or finite floats without a fraction."""
    return values.dtype.kind != "f" or bool(np.isfinite(values).all() and (values == np.round(values)).all())


@dataclass(frozen=True, eq=False, repr=False)
class ImageSet(Result):
    """Images, their labels, and the steps applied to the pixels.

    Parameters
    ----------
    images
        float32, ``[N, C, H, W]`` in [0, 1] unless ``steps`` says otherwise; vectors are ``[N, D]``. Token indices,
        ``[N, length]``, stay int64.
    labels
        int64 ``[N]``, or None if the data has no classes.
    class_names
        Name of each label; empty if the data has no classes.
    name
        The source of the images.
    steps
        The steps applied to the values, in order.
    targets
        float32 ``[N]`` or ``[N, K]``: real-valued targets, if the data has such; the data then has no labels.
    column_names
        Names of the entries of vectors that come from the columns of a table.

    Examples
    --------
    >>> import numpy as np
    >>> data = ImageSet(np.zeros((4, 1, 8, 8)), np.array([0, 1, 0, 1]), ("even", "odd"), name="demo")
    >>> data
    ImageSet(demo: 4 images 1×8×8, 2 classes)
    >>> data[1:3]
    ImageSet(demo: 2 images 1×8×8, 2 classes)
    >>> data.to_dict()["shape"]
    [4, 1, 8, 8]
    """

    images: NDArray[Any]
    labels: NDArray[Any] | None = None
    class_names: tuple[str, ...] = ()
    name: str = "images"
    steps: tuple[str, ...] = ()
    targets: NDArray[Any] | None = None
    column_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        given = np.asarray(self.images)
        indices = given.ndim == 2 and given.dtype == np.int64  # of tokens, for an embedding
        images = np.ascontiguousarray(self.images, dtype=np.int64 if indices else np.float32)
        if images.ndim < 2:
            raise InputError(f"{self.name}: images must be [N, C, H, W] or [N, D]; the array has shape {images.shape}")
        object.__setattr__(self, "images", images)
        object.__setattr__(self, "class_names", tuple(str(name) for name in self.class_names))
        if self.targets is not None:
            targets = np.asarray(self.targets, dtype=np.float32)
            if targets.shape[:1] != images.shape[:1]:
                raise InputError(
                    f"{self.name}: {len(images)} inputs but targets of shape {targets.shape}; give one each"
                )
            object.__setattr__(self, "targets", targets)
        if self.labels is None:
            return
        labels = np.asarray(self.labels)
        if not is_whole(labels):
            raise InputError(f"{self.name}: labels are not whole numbers; give real-valued targets as targets=")
        labels = labels.astype(np.int64)
        if labels.shape != images.shape[:1]:
            raise InputError(
                f"{self.name}: {len(images)} images but labels of shape {labels.shape}; give one label for each image"
            )
        object.__setattr__(self, "labels", labels)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: slice | Sequence[int] | NDArray[Any]) -> ImageSet:
        """Return a part of the set by a slice, a list of indices or a mask; always an `ImageSet`."""
        if isinstance(index, (int, np.integer)):
            raise InputError(
                f"index {index}: an ImageSet is sliced, data[{index}:{index + 1}]; one image is data.images[{index}]"
            )
        labels = None if self.labels is None else self.labels[index]
        targets = None if self.targets is None else self.targets[index]
        return replace(self, images=self.images[index], labels=labels, targets=targets)

    def take(self, count: int) -> ImageSet:
        """Return the first ``count`` images (all of them if there are fewer)."""
        return self[: check_count("count", count)]

    def spread(self, count: int) -> ImageSet:
        """Return ``count`` images evenly spaced over the set, so that sets sorted by class keep every class."""
        count = min(check_count("count", count), len(self))
        return self[np.arange(count) * len(self) // count]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one image, ``(C, H, W)``, or ``(D,)``."""
        return tuple(self.images.shape[1:])

    @property
    def summary(self) -> str:
        """Return name, count, size, classes and steps in one line."""
        size = "×".join(map(str, self.shape))
        is_text = self.images.ndim == 2 and self.images.dtype == np.int64
        kind = "sequence" if is_text else "image" if self.images.ndim > 2 else "vector"
        text = f"{self.name}: {counted(len(self), kind)} {f'of {size} tokens' if is_text else size}"
        if self.class_names:
            text += f", {len(self.class_names)} class{'' if len(self.class_names) == 1 else 'es'}"
        return text + "".join(f"; {step}" for step in self.steps)

    def __repr__(self) -> str:
        return f"ImageSet({self.summary})"

    def to_dict(self) -> dict[str, Any]:
        """Return the description of the set, without its pixels."""
        empty = self.images.size == 0
        return {
            "name": self.name,
            "shape": list(self.images.shape),
            "minimum": None if empty else float(self.images.min()),
            "maximum": None if empty else float(self.images.max()),
            "mean": None if empty else float(self.images.mean(dtype=np.float64)),
            "class_names": list(self.class_names),
            "labels": None if self.labels is None else self.labels.tolist(),
            "steps": list(self.steps),
        }

    def table(self) -> list[dict[str, Any]]:
        """Return one row: name, count, size and range."""
        row = self.to_dict()
        row.update(
            shape="×".join(map(str, row["shape"])), class_names=len(self.class_names), steps="; ".join(self.steps)
        )
        del row["labels"]
        return [row]

    def plot(self, ax: Axes | None = None, *, count: int = 32) -> Axes:
        """Plot a contact sheet of up to ``count`` images; values outside [0, 1] are rescaled together."""
        if self.images.ndim != 4 or self.shape[0] not in (1, 3):
            raise InputError(f"{self!r} cannot be plotted; only images with 1 or 3 channels can")
        ax = make_axes(ax)
        images = self.spread(count).images
        low, high = min(0, images.min()), max(1, images.max())
        images = (images - low) / (high - low)
        columns = int(np.ceil(np.sqrt(2 * len(images))))
        rows = -(-len(images) // columns)
        sheet = np.ones((rows * columns, *np.add(self.shape, (0, 2, 2))))
        sheet[: len(images), :, 1:-1, 1:-1] = images
        channels, height, width = sheet.shape[1:]
        sheet = sheet.reshape(rows, columns, channels, height, width).transpose(0, 3, 1, 4, 2)
        sheet = sheet.reshape(rows * height, columns * width, channels)
        ax.imshow(sheet if channels == 3 else sheet[..., 0], cmap="gray")
        ax.set_axis_off()
        ax.set_title(f"{label_text(self.name)}: {counted(len(self), 'image')} {'×'.join(map(str, self.shape))}")
        return ax
