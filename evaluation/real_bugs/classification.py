"""Classification: heads, losses, labels and unscaled inputs. A name is the number in the list and the post."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evaluation.programs import Case, Program
from evaluation.real_bugs.keras_style import (
    AllStates,
    LastState,
    bce,
    cce,
    dense,
    initialized,
    mse,
    small_cnn,
    sparse_cce,
)
from evaluation.samples import bundled, changed, digits
from evaluation.scores import above, accuracy

SGD, ADAM, RMSPROP = torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop


def one_hot(classes: int):
    """Return integer labels as rows of 0 and 1."""
    return lambda labels: F.one_hot(labels.long(), classes).float()


def column(labels: Tensor) -> Tensor:
    """Return labels as a column of floats."""
    return labels.float()[:, None]


PIXELS = digits(flat=True)
BYTES = digits(255 / 16, flat=True)
CANCER = changed(bundled("breast_cancer", standardize=True), targets=column)
RAW_CANCER = changed(bundled("breast_cancer"), targets=column)
IRIS = bundled("iris")
WIDE_IRIS = bundled("iris", standardize=True)


def xor(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return points of the four corners of XOR and their column of labels."""
    bits = torch.randint(2, (count, 2), generator=generator)
    return bits.float(), column(bits.sum(1) == 1)


def circle(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return points of the plane and whether they are inside a circle."""
    points = torch.randn(count, 2, generator=generator)
    return points, column(points.square().sum(1) < 1.4)


def sequence_sums(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return sequences of ten values and whether their sum is positive."""
    values = torch.randn(count, 10, 1, generator=generator)
    return values, column(values.sum((1, 2)) > 0)


def padded_tags(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return sequences of 12 values, padded with 0, and tags 0, 1 or 2 (padding)."""
    values = torch.randn(count, 12, 1, generator=generator)
    lengths = torch.randint(3, 7, (count,), generator=generator)
    padding = torch.arange(12) >= lengths[:, None]
    tags = (values[..., 0].cumsum(1) > 0).long().masked_fill(padding, 2)
    return values.masked_fill(padding[..., None], 0.0), tags


def tagger(outputs: int, head: str):
    """Return a factory of an LSTM with a dense layer at every position."""
    last = {"sigmoid": nn.Sigmoid(), "softmax": nn.Softmax(-1)}[head]
    return lambda: initialized(nn.Sequential(AllStates(1, 16), nn.Linear(16, outputs), last))


def masked_bce(probabilities: Tensor, tags: Tensor) -> Tensor:
    """Return the binary cross-entropy of the positions that are not padding."""
    real = tags < 2
    return bce(probabilities[..., 0][real], tags[real])


def real_positions(probabilities: Tensor, tags: Tensor) -> float:
    """Return the accuracy at positions that are not padding; one output means the probability of tag 1."""
    real = tags < 2
    guess = probabilities[..., 0] > 0.5 if probabilities.shape[-1] == 1 else probabilities[..., :2].argmax(-1)
    return (guess[real].long() == tags[real]).double().mean().item()


def multi_label(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return ten values and five labels that do not exclude each other."""
    values = torch.randn(count, 10, generator=generator)
    directions = torch.randn(10, 5, generator=torch.Generator().manual_seed(3))
    return values, (values @ directions > 0).float()


def signs(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return grey digits in front of one of ten dark colours, which is the class; all values are negative."""
    images, _ = digits(side=16)(count, generator)
    labels = torch.randint(10, (count,), generator=generator)
    colours = torch.rand(10, 3, generator=torch.Generator().manual_seed(5))[labels, :, None, None]
    noise = 0.03 * torch.randn(count, 3, 16, 16, generator=generator)
    return 0.3 * images - 1.5 + colours + noise, labels


def sign_network(colour: str, activation: str, seed: int):
    """Return a factory: a 1×1 convolution to three channels, then convolutions with one kind of activation.

    The seed is fixed: ReLU switches all three channels off in about one initialization of eight, as in the post.
    """
    kinds = {"relu": nn.ReLU, "sigmoid": nn.Sigmoid, "elu": nn.ELU}

    def build() -> nn.Module:
        torch.manual_seed(seed)
        act = kinds[activation]
        return initialized(
            nn.Sequential(
                *(nn.Conv2d(3, 3, 1), kinds[colour](), nn.Conv2d(3, 16, 3), act(), nn.MaxPool2d(2)),
                *(nn.Conv2d(16, 32, 3), act(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 64), act()),
                *(nn.Linear(64, 10), nn.Softmax(-1)),
            )
        )

    return build


half = above(0.5)

CASES = (
    Case("01_48385830", ("activation", "loss", "learning rate"),
         Program(dense(64, 100, 10, activation=""), changed(PIXELS, targets=one_hot(10)), mse, SGD, 3.0,
                 truth=PIXELS),
         Program(dense(64, 100, 10, output="softmax"), PIXELS, sparse_cce, SGD, 0.1),
         accuracy, note="dense layers without activations, squared error on one-hot targets, learning rate 3"),
    Case("02_44164749", ("learning rate",),
         Program(dense(10, 32, 5, output="sigmoid"), multi_label, bce, SGD, 1e-3),
         Program(dense(10, 32, 5, output="sigmoid"), multi_label, bce, SGD, 0.5, steps=400),
         half, note="several labels: the learning rate is too small for the number of epochs"),
    Case("03_31556268", ("loss", "learning rate", "optimizer"),
         Program(dense(2, 4, 1, activation="tanh", output="sigmoid"), xor, F.l1_loss, SGD, 0.01, steps=300),
         Program(dense(2, 4, 1, activation="tanh", output="sigmoid"), xor, bce, ADAM, 0.05, steps=300),
         half, note="XOR with the absolute error and a small learning rate of SGD"),
    Case("04_50306988", ("learning rate",),
         Program(dense(2, 8, 1, activation="tanh", output="sigmoid"), xor, bce, SGD, 0.01),
         Program(dense(2, 8, 1, activation="tanh", output="sigmoid"), xor, bce, SGD, 1.0, steps=600),
         half, note="XOR: the learning rate is too small for the number of epochs"),
    Case("06_38648195", ("output activation", "loss"),
         Program(dense(30, 16, 1, output="softmax"), CANCER, mse, ADAM),
         Program(dense(30, 16, 1, output="sigmoid"), CANCER, bce, ADAM),
         half, note="softmax of one unit is always 1"),
    Case("08_55328966", ("input scale", "output activation", "optimizer"),
         Program(dense(64, 64, 10, output="sigmoid"), BYTES, sparse_cce, SGD, 0.01),
         Program(dense(64, 64, 10, output="softmax"), PIXELS, sparse_cce, ADAM, 1e-3, steps=300),
         accuracy, note="inputs of 0 to 255, sigmoid in front of categorical cross-entropy, SGD"),
    Case("09_34311586", ("learning rate", "activation", "initialization"),
         Program(dense(2, 2, 1, activation="sigmoid", output="sigmoid", initializer="uniform"), xor, bce, SGD, 0.01,
                 steps=600),
         Program(dense(2, 8, 1, activation="tanh", output="sigmoid"), xor, bce, SGD, 1.0, steps=600),
         half, note="XOR with sigmoids, weights within 0.05 and a small learning rate"),
    Case("10_31880720", ("output activation",),
         Program(dense(2, 16, 1, output="softmax"), circle, bce, ADAM, 0.01),
         Program(dense(2, 16, 1, output="sigmoid"), circle, bce, ADAM, 0.01),
         half, note="softmax of one unit is always 1"),
    Case("11_39525358", ("output activation", "input scale", "learning rate"),
         Program(dense(30, 16, 1), RAW_CANCER, bce, SGD, 0.1),
         Program(dense(30, 16, 1, output="sigmoid"), CANCER, bce, SGD, 0.1),
         half, note="no sigmoid before binary cross-entropy, raw table"),
    Case("12_39217567", ("activation", "initialization"),
         Program(dense(64, 64, 64, 64, 10, activation="sigmoid", output="softmax", initializer="normal"), PIXELS,
                 sparse_cce, SGD, 0.1, steps=400),
         Program(dense(64, 64, 64, 64, 10, output="softmax"), PIXELS, sparse_cce, SGD, 0.1, steps=400),
         accuracy, note="three sigmoid layers with weights N(0, 0.05²)"),
    Case("14_47724077", ("input scale", "optimizer", "learning rate"),
         Program(dense(30, 32, 1, output="sigmoid"), RAW_CANCER, bce, SGD, 0.01),
         Program(dense(30, 32, 1, output="sigmoid"), CANCER, bce, ADAM),
         half, note="raw table, SGD"),
    Case("15_59325381", ("labels",),
         Program(small_cnn(10), changed(digits(255 / 16), targets=lambda y: (y / 255).long()), sparse_cce, ADAM,
                 truth=digits()),
         Program(small_cnn(10), digits(), sparse_cce, ADAM),
         accuracy, note="the labels are divided by 255 instead of the images: all become class 0"),
    Case("16_59278771", ("output activation", "input scale", "initialization", "architecture"),
         Program(dense(4, 4, 3, output="sigmoid", initializer="normal"), IRIS, sparse_cce, ADAM),
         Program(dense(4, 16, 3, output="softmax"), WIDE_IRIS, sparse_cce, ADAM, 0.01),
         accuracy, note="sigmoid before categorical cross-entropy, raw inputs, four ReLU units of N(0, 0.05²)"),
    Case("19_34673164", ("loss", "architecture", "input scale"),
         Program(dense(64, 512, 512, 10, output="softmax"), changed(BYTES, targets=one_hot(10)), mse, SGD, 0.01,
                 truth=PIXELS),
         Program(dense(64, 64, 10, output="softmax"), PIXELS, sparse_cce, SGD, 0.1),
         accuracy, note="softmax with squared error, inputs not normalized, large layers"),
    Case("21_50079585", ("output activation", "loss"),
         Program(dense(4, 16, 1, output="sigmoid"), changed(WIDE_IRIS, targets=column), bce, ADAM, 0.01,
                 truth=WIDE_IRIS, predict=lambda p: torch.cat([1 - p, p, torch.zeros_like(p)], 1)),
         Program(dense(4, 16, 3, output="softmax"), WIDE_IRIS, sparse_cce, ADAM, 0.01),
         accuracy, note="one sigmoid unit with binary cross-entropy for three classes"),
    Case("22_45337371", ("output activation", "loss"),
         Program(dense(10, 32, 5, output="softmax"), multi_label, bce, ADAM, 0.01),
         Program(dense(10, 32, 5, output="sigmoid"), multi_label, bce, ADAM, 0.01),
         half, note="softmax with binary cross-entropy of several labels"),
    Case("23_44066044", ("input scale", "output activation"),
         Program(dense(30, 16, 8, 1, output="relu"), RAW_CANCER, bce, ADAM),
         Program(dense(30, 16, 8, 1, output="sigmoid"), CANCER, bce, ADAM),
         half, note="raw table; ReLU before binary cross-entropy"),
    Case("25_47352366", ("output activation",),
         Program(small_cnn(10, "relu"), digits(), sparse_cce, ADAM),
         Program(small_cnn(10), digits(), sparse_cce, ADAM),
         accuracy, note="ReLU before categorical cross-entropy"),
    Case("28_31627380", ("input scale", "loss", "optimizer"),
         Program(dense(30, 32, 2, output="softmax"), changed(RAW_CANCER, targets=lambda y: y[:, 0].long()), sparse_cce,
                 ADAM, 0.1),
         Program(dense(30, 32, 2, output="sigmoid"), changed(CANCER, targets=lambda y: y[:, 0].long()),
                 lambda p, y: bce(p, F.one_hot(y, 2)), SGD, 0.1),
         accuracy, note="raw table"),
    Case("29_58609115", ("loss", "output activation"),
         Program(dense(30, 16, 1, output="sigmoid"), CANCER, cce, ADAM),
         Program(dense(30, 16, 1, output="sigmoid"), CANCER, bce, ADAM),
         half, note="categorical cross-entropy of one sigmoid unit is 0 for every output"),
    Case("30_50481178", ("output activation", "loss"),
         Program(dense(2, 16, 8, 1, output="softmax"), circle, cce, ADAM, 0.01),
         Program(dense(2, 16, 8, 1, output="sigmoid"), circle, bce, ADAM, 0.01),
         half, note="softmax of one unit with categorical cross-entropy"),
    Case("32_59282996", ("labels", "output activation", "loss"),
         Program(tagger(3, "sigmoid"), changed(padded_tags, targets=lambda y: F.one_hot(y, 3).float()), bce, ADAM,
                 truth=padded_tags),
         Program(tagger(1, "sigmoid"), padded_tags, masked_bce, ADAM, 0.01, steps=400),
         real_positions, note="padding is a third class of three sigmoid outputs; too few epochs"),
    Case("35_39810655", ("loss", "labels"),
         Program(dense(64, 32, 10, output="softmax"), changed(PIXELS, targets=column), cce, ADAM, truth=PIXELS),
         Program(dense(64, 32, 10, output="softmax"), PIXELS, sparse_cce, ADAM),
         accuracy, note="categorical cross-entropy with integer labels, which broadcast over the classes"),
    Case("36_41327601", ("loss",),
         Program(dense(64, 32, 10, output="softmax"), changed(PIXELS, targets=one_hot(10)), bce, ADAM, truth=PIXELS),
         Program(dense(64, 32, 10, output="softmax"), PIXELS, sparse_cce, ADAM),
         accuracy, hurts=False, note="binary cross-entropy for ten classes"),
    Case("41_42800203", ("output activation",),
         Program(lambda: initialized(nn.Sequential(LastState(1, 16), nn.Linear(16, 1), nn.Softmax(-1))),
                 sequence_sums, bce, ADAM, 0.01),
         Program(lambda: initialized(nn.Sequential(LastState(1, 16), nn.Linear(16, 1), nn.Sigmoid())), sequence_sums,
                 bce, ADAM, 0.01),
         half, note="LSTM with softmax of one unit"),
    Case("51_traffic_sign", ("activation", "architecture"),
         Program(sign_network("relu", "relu", 3), signs, sparse_cce, ADAM, steps=400),
         Program(sign_network("sigmoid", "elu", 3), signs, sparse_cce, ADAM, steps=400),
         accuracy, note="ReLU after a 1×1 convolution of three channels: colours that are negative are lost"),
)  # fmt: skip
