"""Networks from images to images: U-Net, autoencoders, the U-Net of diffusion, generator and discriminator."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import nn

from evaluation.published.initialization import normal_, zero_
from evaluation.published.losses import evidence_bound, is_real, squares
from evaluation.published.members import Member
from evaluation.published.samples import denoising, flat_digits, photographs


def _double(inputs, outputs):
    layers = []
    for channels in (inputs, outputs):
        layers += [nn.Conv2d(channels, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(True)]
    return nn.Sequential(*layers)


class SegmentingUNet(nn.Module):
    """U-Net of three scales with batch norm, torch's own start; one logit per pixel and class."""

    def __init__(self, width=16, classes=3):
        super().__init__()
        self.down1, self.down2 = _double(3, width), _double(width, 2 * width)
        self.bottom = _double(2 * width, 4 * width)
        self.up2, self.up1 = (nn.ConvTranspose2d(2 * w, w, 2, 2) for w in (2 * width, width))
        self.join2, self.join1 = _double(4 * width, 2 * width), _double(2 * width, width)
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        fine = self.down1(x)
        middle = self.down2(F.max_pool2d(fine, 2))
        x = self.up2(self.bottom(F.max_pool2d(middle, 2)))
        x = self.up1(self.join2(torch.cat([middle, x], 1)))
        return self.head(self.join1(torch.cat([fine, x], 1)))


def brightness(count):
    """Photographs, and whether each pixel is dark, middling or bright."""
    images, _ = photographs(count)
    return images, torch.bucketize(images.mean(1), torch.tensor([-0.5, 0.5]))


def dense_autoencoder():
    """Digits to 8 values and back."""
    sizes = (64, 48, 24, 8, 24, 48, 64)
    layers = [layer for a, b in pairwise(sizes) for layer in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:5], *layers[6:-1])  # none behind the code nor behind the end


def convolutional_autoencoder():
    """Photographs halved three times and doubled back."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 16, 3, 2, 1),
        nn.ReLU(), nn.ConvTranspose2d(16, 32, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.ReLU(),
        nn.ConvTranspose2d(16, 3, 4, 2, 1),
    )  # fmt: skip


class Variational(nn.Module):
    """VAE of digits: the code is a mean plus noise of a learned size."""

    def __init__(self, hidden=64, code=8):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(64, hidden), nn.ReLU())
        self.mean, self.log_variance = nn.Linear(hidden, code), nn.Linear(hidden, code)
        self.decode = nn.Sequential(nn.Linear(code, hidden), nn.ReLU(), nn.Linear(hidden, 64))

    def forward(self, x):
        x = self.encode(x)
        mean, log_variance = self.mean(x), self.log_variance(x)
        code = mean + torch.exp(log_variance / 2) * torch.randn_like(mean)
        return self.decode(code), mean, log_variance


class TimedBlock(nn.Module):
    """DDPM's residual block: group norm, SiLU, the step's embedding added between; the last convolution begins at 0."""

    def __init__(self, inputs, outputs, embedding):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, inputs), nn.GroupNorm(8, outputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.conv2 = zero_(nn.Conv2d(outputs, outputs, 3, padding=1))
        self.time = nn.Linear(embedding, outputs)
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x, time):
        y = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(time))[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(y)))


class ImageAttention(nn.Module):
    """Self-attention of the places of an image, its output projection beginning at 0."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.project = nn.GroupNorm(8, width), nn.Conv2d(width, 3 * width, 1)
        self.out = zero_(nn.Conv2d(width, width, 1))

    def forward(self, x):
        query, key, value = self.project(self.norm(x)).flatten(2).chunk(3, dim=1)
        weights = torch.softmax(query.transpose(1, 2) @ key / math.sqrt(x.shape[1]), dim=-1)
        return x + self.out((value @ weights.transpose(1, 2)).view_as(x))


class DiffusionUNet(nn.Module):
    """DDPM in miniature: two scales, attention at the coarser, the last convolution beginning at 0."""

    def __init__(self, width=32):
        super().__init__()
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, 4 * width))
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.down1 = TimedBlock(width, width, 4 * width)
        self.coarser = nn.Conv2d(width, width, 3, 2, 1)
        self.down2, self.attention = TimedBlock(width, 2 * width, 4 * width), ImageAttention(2 * width)
        self.middle = TimedBlock(2 * width, 2 * width, 4 * width)
        self.finer = nn.Conv2d(2 * width, 2 * width, 3, padding=1)
        self.up = TimedBlock(3 * width, width, 4 * width)
        self.norm, self.last = nn.GroupNorm(8, width), zero_(nn.Conv2d(width, 3, 3, padding=1))

    def forward(self, x, step):
        half = self.width // 2
        rates = torch.exp(-math.log(10000) * torch.arange(half, device=x.device) / half)
        angles = step[:, None].float() * rates
        time = self.time(torch.cat([angles.sin(), angles.cos()], dim=1))
        fine = self.down1(self.stem(x), time)
        coarse = self.attention(self.down2(self.coarser(fine), time))
        coarse = self.finer(F.interpolate(self.middle(coarse, time), scale_factor=2.0))
        return self.last(F.silu(self.norm(self.up(torch.cat([fine, coarse], dim=1), time))))


def generator():
    """DCGAN's generator of 16×16 images: weights of deviation .02."""
    return normal_(nn.Sequential(
        nn.Linear(32, 64 * 16), nn.Unflatten(1, (64, 4, 4)), nn.BatchNorm2d(64), nn.ReLU(),
        nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.BatchNorm2d(32), nn.ReLU(), nn.ConvTranspose2d(32, 3, 4, 2, 1),
        nn.Tanh(),
    ))  # fmt: skip


def latent(count):
    """Gaussian codes, which is what a generator is given, and photographs that it could make."""
    return torch.randn(count, 32, generator=torch.Generator().manual_seed(0)), photographs(count, 16)[0].clamp(-1, 1)


def discriminator():
    """DCGAN's discriminator: strided convolutions, leaky slopes of .2, weights of deviation .02."""
    return normal_(nn.Sequential(
        nn.Conv2d(3, 32, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(32, 64, 4, 2, 1), nn.BatchNorm2d(64),
        nn.LeakyReLU(0.2), nn.Conv2d(64, 128, 4, 2, 1), nn.BatchNorm2d(128), nn.LeakyReLU(0.2), nn.Flatten(),
        nn.Linear(2048, 1),
    ))  # fmt: skip


def itself(samples):
    """Data whose target is the input."""
    return lambda count: (samples(count)[0],) * 2


MEMBERS = (
    Member("U-Net", "Ronneberger et al. 2015", SegmentingUNet, brightness, F.cross_entropy),
    Member("autoencoder", "Hinton, Salakhutdinov 2006", dense_autoencoder, itself(flat_digits), squares),
    Member("conv autoencoder", "Masci et al. 2011", convolutional_autoencoder, itself(photographs), squares),
    Member("VAE", "Kingma, Welling 2014", Variational, itself(flat_digits), evidence_bound),
    Member("diffusion U-Net", "Ho et al. 2020", DiffusionUNet, denoising, squares),
    Member("DCGAN generator", "Radford et al. 2016", generator, latent, squares),
    Member("DCGAN discriminator", "Radford et al. 2016", discriminator, photographs, is_real),
)
