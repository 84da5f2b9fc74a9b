"""Make the figures of docs/inversion.rst.

Without arguments: rates, growth and the sparse transition (a minute). ``photographs vgg trained`` (or ``random``, or
``resnet`` for ``vgg``) inverts four photographs from several layers, a few minutes each, with the data and weights in
the folders of INITSCOPE_DATA; ``discriminate fashion-mnist`` (or ``cifar10``, ``digits``) cuts measurements.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from initscope import data
from initscope._utils.files import atomic_path
from initscope.data.locations import find
from initscope.initializers import he_
from initscope.invert import discriminate, error_growth, error_rate, invert_layers, sparse_transition
from initscope.models import load_model

HERE = Path(__file__).parent
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
PHOTOGRAPHS = (130, 207, 402, 950)  # of the ImageNet sample: flamingos, a golden retriever, a guitar, oranges


def vgg(trained):
    if trained:
        return load_model("initscope.class_geometry:vgg16", weights=find("vgg16_imagenet_convs.npz"))
    return he_(load_model("initscope.class_geometry:vgg16"), generator=torch.Generator().manual_seed(0))


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.stride, self.more = stride, (outputs - inputs) // 2

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        if self.stride > 1:
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.more, self.more))
        return torch.relu(y + x)


class ResNet20(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        self.layer1 = nn.Sequential(Block(16, 16, 1), Block(16, 16, 1), Block(16, 16, 1))
        self.layer2 = nn.Sequential(Block(16, 32, 2), Block(32, 32, 1), Block(32, 32, 1))
        self.layer3 = nn.Sequential(Block(32, 64, 2), Block(64, 64, 1), Block(64, 64, 1))
        self.linear = nn.Linear(64, 10)

    def forward(self, x):
        x = self.layer3(self.layer2(self.layer1(torch.relu(self.bn1(self.conv1(x))))))
        return self.linear(x.mean((2, 3)))


def resnet(trained, images):
    model = ResNet20()
    if trained:
        state = np.load(find("resnet20_cifar10.npz"))
        model.load_state_dict({name: torch.from_numpy(state[name]) for name in state.files}, strict=False)
        return model.eval()
    for part in model.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight, nonlinearity="relu")
        if isinstance(part, nn.BatchNorm2d):
            part.momentum = None  # running statistics: those of the photographs, as a first pass of training sets them
    with torch.no_grad():
        model.train()(images)
    return model.eval()


def say_aside(text):
    print(text, file=sys.stderr)


LAYERS = {
    "vgg": ("relu2", "relu4", "relu7", "relu10", "relu13"),
    "resnet": ("bn1", "layer1.2", "layer2.2", "layer3.2"),
}


ITERATIONS = {"relu13": 150}
"""At most; 100 for the other layers."""


def invert_photographs(which, kind, layers=None, photographs=PHOTOGRAPHS):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    sample = np.load(find("imagenet_sample_128.npz"))["images"]
    images, all_images = (sample[list(chosen)].transpose(0, 3, 1, 2).astype(np.float32) / 255
                          for chosen in (photographs, PHOTOGRAPHS))  # fmt: skip
    center, spread = (np.array(value, dtype=np.float32).reshape(3, 1, 1) for value in (MEAN, STD))
    trained = kind == "trained"
    model = vgg(trained) if which == "vgg" else resnet(trained, torch.from_numpy((all_images - center) / spread))
    options = {"mean": MEAN, "std": STD, "smoothness": 0.001, "progress": say_aside}
    inversions = [
        invert_layers(model, images, [layer], iterations=ITERATIONS.get(layer, 100), **options)
        for layer in layers or LAYERS[which]
    ]
    return replace(inversions[0], rows=tuple(row for part in inversions for row in part.rows))


def show_inversions(inversion, which, kind):
    for line in inversion.summary():
        print(which, kind, line)
    for note in inversion.notes():
        print(which, kind, note)
    save_sheet(inversion.sheet(), f"inversion_{which}_{kind}.jpg")


def save_sheet(sheet, name):
    from PIL import Image

    with atomic_path(HERE / name) as path:
        Image.fromarray(np.round(255 * np.moveaxis(sheet, 0, -1)).astype(np.uint8)).save(path, "JPEG", quality=72)


def save(ax, name):
    with atomic_path(HERE / name) as path:
        ax.figure.savefig(path, dpi=100)


def rates():
    rate, growth, transition = error_rate(), error_growth(), sparse_transition()
    print(rate.slopes(), growth.exponent(), transition.thresholds())
    for result, name in ((rate, "rate"), (growth, "growth"), (transition, "transition")):
        save(result.plot(), f"inversion_{name}.png")


def cut(name):
    """All 1,797 digits; of the others 10,000 images to train on and 2,000 to test on."""
    torch.set_num_threads(1)
    few = name == "digits"
    images = data.load(name, **({} if few else {"limit": 12_000}))
    options = {"test_share": 0.3, "epochs": 30} if few else {"test_share": 1 / 6, "epochs": 8}
    result = discriminate(images.images, images.labels, reconstruct=12, name=name, progress=say_aside, **options)
    print(
        f"{result.name}: all pixels {result.full:.3f} ± {result.full_se:.3f}, CNN {result.full_cnn:.3f} ± "
        f"{result.full_cnn_se:.3f}; mean image {result.mean_image_psnr:.1f} dB; {result.train} + {result.test}"
    )
    for row in result.rows:
        print(
            f"{row.measurement} 1:{row.ratio:g} ({row.outputs})  {row.features:.3f} ± {row.features_se:.3f}  "
            f"{row.cnn:.3f} ± {row.cnn_se:.3f}  {row.psnr:.1f} ± {row.psnr_se:.1f}  {row.ssim:.2f}  {row.solver}"
        )
    save(result.plot(), f"inversion_{name}.png")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["photographs", which, kind]:
            show_inversions(invert_photographs(which, kind), which, kind)
        case ["discriminate", name]:
            cut(name)
        case _:
            rates()
