"""`LearnedHash`: a network trained in coupled copies on similar and dissimilar pairs, smooth first, then binarized."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.validation import check_array

from initscope.embed._base import SupervisedHasher, random_generator
from initscope.embed._layer import image_shape_of
from initscope.errors import InputError, check_between, check_count

if TYPE_CHECKING:
    import torch

__all__ = ["LearnedHash"]

Codes = Callable[["torch.Tensor"], "torch.Tensor"]


class LearnedHash(SupervisedHasher):
    r"""Neural-network hash: two copies with shared weights see the two rows of a pair [MasciBronstein2012]_.

    The code is smooth during training, :math:`b = \tanh f(x)`, and the probability that a pair is similar is modeled as
    :math:`1/(1+e^{-s\langle b,b'\rangle/m})` with sharpness s. AdamW minimizes the logistic loss, in which similar and
    dissimilar pairs have the same total weight. Afterwards a bit is :math:`f(x) > 0`. With labels, all pairs of a batch
    are used. The softmax loss only requires that similar rows are nearer than dissimilar rows [Khosla2020]_: it is the
    mean over similar pairs of :math:`-\log(e^{s\langle b_i,b_j\rangle/m} / \sum_{k\ne i} e^{s\langle
    b_i,b_k\rangle/m})`.

    Parameters
    ----------
    bits : int
    layers : int
        Number of linear layers; ReLU and dropout between them.
    hidden : int
        Width of the layers before the last.
    network : callable, optional
        ``network(bits)`` returns a torch module that maps rows (or images, with ``image_shape``) to ``[N, bits]``,
        instead of the dense layers.
    image_shape : tuple, optional
        ``(channels, height, width)``: rows are handed to ``network`` as images.
    steps, batch, learning_rate, weight_decay : training
    dropout, input_dropout : float
        Share of hidden units and of inputs left out at random while training.
    loss : str, optional
        ``"logistic"``, or ``"softmax"`` (labels only), which is better for one layer, because one layer cannot separate
        all classes. By default softmax for one layer on labels, otherwise logistic.
    sharpness : float
        s above.
    packed : bool
    random_state : int, RandomState, Generator or None

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 3, 90)
    >>> X = rng.standard_normal((90, 5)) + 6 * np.eye(3, 5)[y]
    >>> LearnedHash(bits=12, steps=20).fit(X, y).transform(X).shape
    (90, 2)
    """

    def __init__(
        self,
        bits: int = 64,
        *,
        layers: int = 1,
        hidden: int = 1024,
        network: Callable[[int], torch.nn.Module] | None = None,
        image_shape: tuple[int, int, int] | None = None,
        steps: int = 800,
        batch: int = 500,
        learning_rate: float = 2e-3,
        weight_decay: float = 0.1,
        dropout: float = 0.5,
        input_dropout: float = 0.2,
        loss: str | None = None,
        sharpness: float = 5.0,
        packed: bool = True,
        random_state: Any = 0,
    ) -> None:
        self.bits = bits
        self.layers = layers
        self.hidden = hidden
        self.network = network
        self.image_shape = image_shape
        self.steps = steps
        self.batch = batch
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.dropout = dropout
        self.input_dropout = input_dropout
        self.loss = loss
        self.sharpness = sharpness
        self.packed = packed
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Train on class labels: rows of one class are similar."""
        import torch

        losses = {"logistic": self._logistic, "softmax": self._softmax}
        name = self.loss or ("softmax" if self.network is None and self.layers == 1 else "logistic")
        if name not in losses:
            raise InputError(f"loss = {name!r} is unknown; choose one of {', '.join(losses)}")
        X, classes = self._validated_labels(X, y)
        labels = torch.from_numpy(classes)

        def loss(rows: torch.Tensor, codes: Codes) -> torch.Tensor:
            batch = codes(rows)
            return losses[name](batch @ batch.T, labels[rows, None] == labels[rows])

        return self._train(X, len(labels), loss)

    def fit_pairs(self, left: Any, right: Any, like: Any) -> Self:
        """Train on given pairs: rows i of ``left`` and ``right`` are similar if ``like[i]`` is true."""
        import torch

        if self.loss not in (None, "logistic"):
            raise InputError(f"loss = {self.loss!r} compares the rows of a batch, which needs labels; use 'logistic'")
        left, right = check_array(left), check_array(right)
        similar = np.asarray(like)
        if left.shape != right.shape or similar.shape != (len(left),):
            raise InputError(
                f"left {left.shape}, right {right.shape} and like {similar.shape} must have one row per pair each"
            )
        if not np.isin(similar, (0, 1)).all():
            other = similar[~np.isin(similar, (0, 1))][0]
            raise InputError(f"like holds {other!r}: give True or 1 for like pairs and False or 0 for the others")
        X = self._validated(np.concatenate([left, right]), reset=True)
        flags = torch.from_numpy(similar.astype(bool))
        self.classes_ = np.array([False, True])

        def loss(pairs: torch.Tensor, codes: Codes) -> torch.Tensor:
            return self._logistic((codes(pairs) * codes(pairs + len(flags))).sum(dim=1), flags[pairs])

        return self._train(X, len(flags), loss)

    def _logistic(self, products: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        """Return the logistic loss of inner products of codes; similar and dissimilar pairs have equal weight."""
        from torch.nn.functional import binary_cross_entropy_with_logits

        share = like.float().mean().clamp(1e-6, 1 - 1e-6)
        weight = like / (2 * share) + (~like) / (2 * (1 - share))
        return binary_cross_entropy_with_logits(self.sharpness * products / self.bits, like.float(), weight=weight)

    def _softmax(self, products: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        """Return the cross-entropy of every row's similar rows among all others, by inner products of codes."""
        import torch

        scores = self.sharpness * products / self.bits
        itself = torch.eye(len(scores), dtype=torch.bool)
        surprise = scores.masked_fill(itself, -torch.inf).logsumexp(dim=1, keepdim=True) - scores
        others = like & ~itself
        return (surprise * others).sum() / others.sum().clamp(min=1)

    def _train(self, X: np.ndarray, items: int, loss: Callable[[torch.Tensor, Codes], torch.Tensor]) -> Self:
        """Minimize ``loss(batch of item numbers, rows -> smooth codes)`` over random batches of the items."""
        import torch

        from initscope.models.training_loop import Loop, seeded

        bits = self._start()
        batch = min(check_count("batch", self.batch, least=2), items)
        rate = check_between("learning_rate", self.learning_rate, 0.0, 1e3)
        steps = check_count("steps", self.steps)
        self._standardize(X)
        inputs = self._inputs(X)
        seed = int(random_generator(self.random_state, "learned hash").integers(2**62))
        with seeded(seed):
            network = self._build(X.shape[1], bits).float()  # whatever torch's default type
            optimizer = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=self.weight_decay)
            # Up over the first tenth, then down along a cosine.
            schedule = torch.optim.lr_scheduler.LambdaLR(
                optimizer, lambda step: min(10 * (step + 1) / steps, 0.5 + 0.5 * math.cos(math.pi * step / steps))
            )
            loop = Loop(
                network,
                lambda pick: loss(pick, lambda rows: torch.tanh(network(inputs[rows]))),
                items=items,
                batch=batch,
                optimizer=optimizer,
                schedule=schedule,
            )
            for _ in range(steps):
                loop.step()
        if not all(torch.isfinite(part).all() for part in network.parameters()):
            raise InputError(
                f"training diverged: weights are not finite after {steps} steps at learning_rate = {rate:g}; lower it"
            )
        network.eval()
        linear = [part for part in network.modules() if isinstance(part, torch.nn.Linear)]
        if self.network is None:
            self.weights_ = [part.weight.detach().numpy().copy() for part in linear]
            self.biases_ = [part.bias.detach().numpy().copy() for part in linear]
        else:
            self.network_ = network
        return self

    def _build(self, features: int, bits: int) -> torch.nn.Module:
        import torch

        if self.network is not None:
            return self.network(bits)
        layers = check_count("layers", self.layers, most=16)
        sizes = [features, *[check_count("hidden", self.hidden)] * (layers - 1), bits]
        dropped = check_between("input_dropout", self.input_dropout, 0, 1, ends="low")
        parts: list[torch.nn.Module] = [torch.nn.Dropout(dropped)]
        for into, out in pairwise(sizes):
            if len(parts) > 1:
                parts += [torch.nn.ReLU(), torch.nn.Dropout(check_between("dropout", self.dropout, 0, 1, ends="low"))]
            parts.append(torch.nn.Linear(into, out))
        return torch.nn.Sequential(*parts)

    def _standardize(self, X: np.ndarray) -> None:
        """Keep mean and scale of the features, in the float type of the data: they may be far from the origin."""
        with np.errstate(over="ignore", invalid="ignore"):
            mean, spread = X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64)
        if not np.isfinite(spread).all():
            worst = int(np.argmin(np.isfinite(spread)))
            raise InputError(f"feature {worst} reaches {np.abs(X[:, worst]).max():g}: its spread overflows; rescale it")
        varies = spread > np.finfo(X.dtype).eps * np.abs(mean)  # a spread of rounding errors is none
        self.mean_, self.scale_ = mean.astype(X.dtype), np.where(varies, spread, 1.0).astype(X.dtype)

    def _standardized(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray((rows - self.mean_) / self.scale_, dtype=np.float32)

    def _inputs(self, rows: np.ndarray) -> torch.Tensor:
        import torch

        inputs = torch.from_numpy(self._standardized(rows))
        if self.image_shape is not None:
            inputs = inputs.reshape(len(rows), *image_shape_of(self.image_shape, rows.shape[1]))
        return inputs

    def _float_type(self) -> Any:
        return self.mean_.dtype

    def _row_values(self) -> int:
        # The user's network may have many more hidden activations than inputs.
        return 16 * self.n_features_in_ if self.network is not None else max(len(part) for part in self.weights_)

    def _scores(self, block: np.ndarray) -> np.ndarray:
        if self.network is not None:
            import torch

            with torch.no_grad():
                return np.asarray(self.network_(self._inputs(block)).numpy())
        values = self._standardized(block)
        for depth, (weights, biases) in enumerate(zip(self.weights_, self.biases_)):
            if depth:
                np.maximum(values, 0, out=values)
            values = values @ weights.T
            values += biases
        return np.asarray(values)
