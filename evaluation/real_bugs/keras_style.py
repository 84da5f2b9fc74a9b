"""Keras' defaults in PyTorch: initialization, activations by name, and losses on clipped probabilities."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "sigmoid": nn.Sigmoid,
    "tanh": nn.Tanh,
    "elu": nn.ELU,
    "softmax": lambda: nn.Softmax(-1),
}
INITIALIZERS: dict[str, Callable[[Tensor], Tensor]] = {
    "glorot": nn.init.xavier_uniform_,
    "uniform": lambda weight: nn.init.uniform_(weight, -0.05, 0.05),
    "normal": lambda weight: nn.init.normal_(weight, 0, 0.05),
}


def initialized(model: nn.Module, initializer: str = "glorot") -> nn.Module:
    """Initialize every matrix and filter as Keras does, biases 0; return the model."""
    for name, parameter in model.named_parameters():
        if parameter.dim() < 2:
            nn.init.zeros_(parameter)
        elif "weight_hh" in name:
            nn.init.orthogonal_(parameter)
        else:
            INITIALIZERS[initializer](parameter)
    return model


def dense(*widths: int, activation: str | tuple[str, ...] = "relu", output: str = "", initializer: str = "glorot",
          dropout: float = 0.0) -> Callable[[], nn.Module]:  # fmt: skip
    """Return a factory of dense layers with hidden activations (none: ``""``) and an output activation."""
    hidden = len(widths) - 2
    names = (activation,) * hidden if isinstance(activation, str) else activation

    def build() -> nn.Module:
        layers: list[nn.Module] = []
        for (inputs, outputs), name in zip(pairwise(widths), (*names, output), strict=True):
            layers.append(nn.Linear(inputs, outputs))
            if name:
                layers.append(ACTIVATIONS[name]())
            if dropout and len(layers) < 2 * hidden + 1:
                layers.append(nn.Dropout(dropout))
        return initialized(nn.Sequential(*layers), initializer)

    return build


def small_cnn(classes: int, output: str = "softmax", *, hidden: int = 32) -> Callable[[], nn.Module]:
    """Return a factory of the convolutional network of Keras' tutorials, for images of 8×8 with one channel."""

    def build() -> nn.Module:
        head = [ACTIVATIONS[output]()] if output else []
        return initialized(
            nn.Sequential(
                *(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
                *(nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, classes), *head),
            )
        )

    return build


def _clipped(probabilities: Tensor) -> Tensor:
    return probabilities.clamp(1e-7, 1 - 1e-7)


def bce(probabilities: Tensor, targets: Tensor) -> Tensor:
    """Return Keras' binary cross-entropy of clipped probabilities."""
    clipped, targets = _clipped(probabilities), targets.float().reshape(probabilities.shape)
    return -(targets * clipped.log() + (1 - targets) * (1 - clipped).log()).mean()


def cce(probabilities: Tensor, targets: Tensor) -> Tensor:
    """Return Keras' categorical cross-entropy with one-hot rows; outputs are divided by their sum and clipped."""
    shares = _clipped(probabilities / probabilities.sum(-1, keepdim=True).clamp_min(1e-20))
    return -(targets.float() * shares.log()).sum(-1).mean()


def sparse_cce(probabilities: Tensor, labels: Tensor) -> Tensor:
    """Return Keras' categorical cross-entropy with integer labels."""
    return cce(probabilities, F.one_hot(labels.long(), probabilities.shape[-1]))


def mse(prediction: Tensor, targets: Tensor) -> Tensor:
    """Return the mean squared error of values of one shape."""
    return F.mse_loss(prediction, targets.float().reshape(prediction.shape))


def mae(prediction: Tensor, targets: Tensor) -> Tensor:
    """Return the mean absolute error of values of one shape."""
    return F.l1_loss(prediction, targets.float().reshape(prediction.shape))


class LastState(nn.Module):
    """The last hidden state of a recurrent layer that returns sequences."""

    def __init__(self, inputs: int, units: int, kind: type[nn.RNNBase] = nn.LSTM) -> None:
        super().__init__()
        self.layer = kind(inputs, units, batch_first=True)

    def forward(self, values: Tensor) -> Tensor:
        """Return ``[count, units]``."""
        return self.layer(values)[0][:, -1]


class AllStates(LastState):
    """All hidden states."""

    def forward(self, values: Tensor) -> Tensor:
        """Return ``[count, length, units]``."""
        return self.layer(values)[0]


def sgd(momentum: float = 0.0) -> Callable[..., torch.optim.Optimizer]:
    """Return SGD with momentum as a factory."""

    def make(parameters: object, lr: float) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr=lr, momentum=momentum)  # type: ignore[arg-type]

    return make
