"""Pairs and triplets of images: random, within and between classes, Gaussian with a given correlation.

Each sampler returns the images and their indices.
"""

from __future__ import annotations

from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from initscope.data.image_set import ImageSet
from initscope.errors import InputError, check_count, check_seed

__all__ = [
    "Pairs",
    "Triplets",
    "between_class_pairs",
    "drawn_pairs",
    "gaussian_pairs",
    "random_pairs",
    "random_triplets",
    "within_class_pairs",
]


class Pairs(NamedTuple):
    """Pair k is ``x[k], y[k]``, images ``indices[k]`` of the set."""

    x: Any
    y: Any
    indices: NDArray[np.int64]


class Triplets(NamedTuple):
    """``positive[k]`` has the class of ``anchor[k]``, ``negative[k]`` another; ``indices[k]`` are the three images."""

    anchor: Any
    positive: Any
    negative: Any
    indices: NDArray[np.int64]


def random_pairs(images: Any, count: int, seed: int = 0) -> Pairs:
    """Draw ``count`` pairs of two different images, uniformly among all pairs.

    Pairs are distinct if ``count`` is at most N(N-1)/2; beyond that, each pair occurs equally often, up to one.

    Parameters
    ----------
    images
        `ImageSet`, NumPy array or torch tensor, batch first.
    count
        Number of pairs.
    seed
        Seed of the draw.

    Examples
    --------
    >>> import numpy as np
    >>> x, y, indices = random_pairs(np.arange(12.0).reshape(4, 3), 6)
    >>> len({frozenset(pair) for pair in indices.tolist()})
    6
    """
    images, _ = _unpack(images)
    total = len(images)
    if total < 2:
        raise InputError(f"{total} image: a pair needs two different images; give at least 2")
    following = np.arange(1, total + 1)
    return _draw(images, np.arange(total), following, total - following, count, seed)


def drawn_pairs(data: Any, count: int = 64, seed: int = 0) -> Pairs:
    """Draw at most ``count`` distinct pairs by `random_pairs` from an `ImageSet`, array or tensor.

    >>> import numpy as np
    >>> len(drawn_pairs(np.eye(4)).x)
    6
    """
    if not hasattr(data, "images") and not hasattr(data, "shape"):
        raise InputError(
            f"data of type {type(data).__name__} holds no samples to draw pairs of; give an array, a tensor or an "
            "ImageSet, or both sides of the pairs: x and y"
        )
    total = len(data)
    return random_pairs(data, min(check_count("pairs", count), max(1, total * (total - 1) // 2)), seed)


def within_class_pairs(images: Any, count: int, seed: int = 0, *, labels: Any = None) -> Pairs:
    """Draw ``count`` pairs of different images of one class, uniformly among all such pairs (see `random_pairs`)."""
    images, labels = _unpack(images, labels, needed=True)
    order = np.argsort(labels, kind="stable")
    end = np.searchsorted(labels[order], labels[order], side="right")
    following = np.arange(1, len(order) + 1)
    if not (end > following).any():
        raise InputError("every class has one image only, so there is no pair within a class; give more images")
    return _draw(images, order, following, end - following, count, seed)


def between_class_pairs(images: Any, count: int, seed: int = 0, *, labels: Any = None) -> Pairs:
    """Draw ``count`` pairs of images of two different classes, uniformly among all such pairs (see `random_pairs`)."""
    images, labels = _unpack(images, labels, needed=True)
    order = np.argsort(labels, kind="stable")
    end = np.searchsorted(labels[order], labels[order], side="right")
    if not (end < len(order)).any():
        raise InputError(
            "there is one class only, so there is no pair between classes; give images of at least 2 classes"
        )
    return _draw(images, order, end, len(order) - end, count, seed)


def random_triplets(images: Any, count: int, seed: int = 0, *, labels: Any = None) -> Triplets:
    """Draw ``count`` independent triplets: an anchor, another image of its class, an image of another class.

    The anchor is uniform among the images whose class has another image, the positive and the negative uniform among
    those possible; the same triplet may come twice.
    """
    images, labels = _unpack(images, labels, needed=True)
    order = np.argsort(labels, kind="stable")
    ordered = labels[order]
    start, end = (np.searchsorted(ordered, ordered, side=side) for side in ("left", "right"))
    anchors = np.flatnonzero(end - start > 1)
    if not len(anchors) or ordered[0] == ordered[-1]:
        sizes = np.unique(labels, return_counts=True)[1].tolist()
        raise InputError(f"classes of sizes {sizes}: a triplet needs two classes, one of them with at least 2 images")
    rng = np.random.default_rng(seed)
    anchor = rng.choice(anchors, check_count("count", count))
    first, last = start[anchor], end[anchor]
    positive = first + rng.integers(0, last - first - 1)
    positive += positive >= anchor
    negative = rng.integers(0, len(order) - (last - first))
    negative += np.where(negative >= first, last - first, 0)
    indices = order[np.stack([anchor, positive, negative], axis=1)]
    return Triplets(images[indices[:, 0]], images[indices[:, 1]], images[indices[:, 2]], indices)


def gaussian_pairs(
    count: int, rho: float, *, shape: int | tuple[int, ...] = (1, 32, 32), seed: int = 0
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    r"""Return pairs of standard Gaussian images whose entries have correlation ``rho``, float32 ``[count, *shape]``.

    .. math:: x \sim N(0, I), \quad y = \rho x + \sqrt{1 - \rho^2}\, z, \quad z \sim N(0, I) \text{ independent of } x

    Examples
    --------
    >>> x, y = gaussian_pairs(3, rho=1.0, shape=(1, 4, 4))
    >>> bool((x == y).all()), x.shape
    (True, (3, 1, 4, 4))
    """
    count = check_count("count", count)
    if not isinstance(rho, Real) or not -1 <= rho <= 1:
        raise InputError(f"rho = {rho} must be between -1 and 1; it is a correlation")
    sides = tuple(check_count("shape", side) for side in ((shape,) if isinstance(shape, int) else shape))
    rng = np.random.default_rng(check_seed("seed", seed))
    x, z = rng.standard_normal((2, count, *sides), dtype=np.float32)
    return x, np.float32(rho) * x + np.float32(np.sqrt(1 - rho * rho)) * z


def _unpack(images: Any, labels: Any = None, *, needed: bool = False) -> tuple[Any, Any]:
    """Return images and labels of an `ImageSet` or of plain arrays."""
    if isinstance(images, ImageSet):
        labels = images.labels if labels is None else labels
        images = images.images
    if needed and labels is None:
        raise InputError("the images have no labels, so no classes; pass labels= or use random_pairs")
    if labels is not None:
        labels = np.asarray(labels)
        if labels.shape != (len(images),):
            raise InputError(f"{len(images)} images but labels of shape {labels.shape}; give one label for each image")
    return images, labels


def _draw(images: Any, order: Any, first_partner: Any, partners: Any, count: int, seed: int) -> Pairs:
    """Draw from the numbered list of all pairs, without writing it out.

    Item i of ``order`` has ``partners[i]`` partners, which follow each other in ``order`` from ``first_partner[i]`` on.
    """
    count = check_count("count", count)
    last_number = np.cumsum(partners)
    total = int(last_number[-1])
    rng = np.random.default_rng(seed)
    rounds, rest = divmod(count, total)
    numbers = np.concatenate([np.arange(rounds * total) % total, rng.choice(total, rest, replace=False)])
    rng.shuffle(numbers)
    item = np.searchsorted(last_number, numbers, side="right")
    partner = first_partner[item] + numbers - (last_number - partners)[item]
    indices = order[np.stack([item, partner], axis=1)].astype(np.int64)
    # Shuffle the order within pairs: otherwise early classes of sorted data would always be in x.
    indices = rng.permuted(indices, axis=1)
    return Pairs(images[indices[:, 0]], images[indices[:, 1]], indices)
