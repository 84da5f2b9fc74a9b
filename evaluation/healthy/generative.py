"""Autoencoders, flows, diffusion, segmentation, adversarial networks."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evaluation.healthy.convolutional import conv_bn
from evaluation.programs import Healthy, Program
from evaluation.samples import blobs, digits


def double_conv(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(conv_bn(inputs, outputs), conv_bn(outputs, outputs))


class UNet(nn.Module):
    """Two levels with joined skips (Ronneberger et al. 2015, as milesial writes it)."""

    def __init__(self) -> None:
        super().__init__()
        self.inc, self.down1, self.down2 = double_conv(3, 16), double_conv(16, 32), double_conv(32, 32)
        self.up1, self.up2 = nn.ConvTranspose2d(32, 32, 2, 2), nn.ConvTranspose2d(32, 16, 2, 2)
        self.conv1, self.conv2, self.outc = double_conv(64, 32), double_conv(32, 16), nn.Conv2d(16, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        x1 = self.inc(x)
        x2 = self.down1(F.max_pool2d(x1, 2))
        x3 = self.down2(F.max_pool2d(x2, 2))
        y = self.conv1(torch.cat([x2, self.up1(x3)], 1))
        return self.outc(self.conv2(torch.cat([x1, self.up2(y)], 1)))


def regions(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    images, _ = blobs()(count, generator)
    return images, (images.mean(1) > 0).long()


class ASPP(nn.Module):
    """Dilated branches and a pooled one (DeepLab v3, Chen et al. 2017)."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv_bn(3, 16, 3, 2), conv_bn(16, 32))
        self.branches = nn.ModuleList(nn.Conv2d(32, 16, 3, padding=rate, dilation=rate) for rate in (1, 2, 4))
        self.pool, self.out = nn.Conv2d(32, 16, 1), nn.Sequential(nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, 2, 1))

    def forward(self, x: Tensor) -> Tensor:
        y = self.stem(x)
        pooled = self.pool(y.mean((2, 3), keepdim=True)).expand(-1, -1, *y.shape[2:])
        y = self.out(torch.cat([*(branch(y) for branch in self.branches), pooled], 1))
        return F.interpolate(y, x.shape[2:], mode="bilinear", align_corners=False)


def own(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    images, _ = digits(flat=True)(count, generator)
    return images, images


def autoencoder() -> nn.Module:
    return nn.Sequential(
        *(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 24), nn.ReLU(), nn.Linear(24, 8)),
        *(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 48), nn.ReLU(), nn.Linear(48, 64), nn.Sigmoid()),
    )


class VAE(nn.Module):
    """The example of PyTorch's repository, smaller."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc21, self.fc22 = nn.Linear(64, 48), nn.Linear(48, 8), nn.Linear(48, 8)
        self.fc3, self.fc4 = nn.Linear(8, 48), nn.Linear(48, 64)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        h = F.relu(self.fc1(x))
        mu, logvar = self.fc21(h), self.fc22(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z)))), mu, logvar


def vae_loss(outputs: tuple[Tensor, Tensor, Tensor], x: Tensor) -> Tensor:
    recon, mu, logvar = outputs
    divergence = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
    return F.binary_cross_entropy(recon, x, reduction="none").sum(1).mean() + divergence


class Coupling(nn.Module):
    """An affine coupling (RealNVP, Dinh et al. 2017)."""

    def __init__(self, size: int, swap: bool) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(size // 2, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, size))
        self.swap, self.scale = swap, nn.Parameter(torch.zeros(size // 2))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a, b = x.chunk(2, 1)
        if self.swap:
            a, b = b, a
        s, t = self.net(a).chunk(2, 1)
        s = torch.tanh(s) * self.scale
        b = b * s.exp() + t
        return torch.cat([b, a] if self.swap else [a, b], 1), s.sum(1)


class RealNVP(nn.Module):
    """Six couplings; returns the code and the logarithm of the determinant."""

    def __init__(self, size: int = 6) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Coupling(size, bool(i % 2)) for i in range(6))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        total = torch.zeros(len(x))
        for layer in self.layers:
            x, log = layer(x)
            total = total + log
        return x, total


def flow_loss(outputs: tuple[Tensor, Tensor], _: Tensor) -> Tensor:
    z, log = outputs
    return (0.5 * z.square().sum(1) - log).mean()


def clusters(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    centre = 2 * torch.randint(2, (count, 1), generator=generator).float() - 1
    x = 2 * centre + 0.5 * torch.randn(count, 6, generator=generator)
    return x, torch.zeros(count)


class ResidualUnit(nn.Module):
    """GroupNorm, SiLU, a convolution, and the time added between (DDPM, Ho et al. 2020)."""

    def __init__(self, inputs: int, outputs: int, time: int) -> None:
        super().__init__()
        self.n1, self.c1 = nn.GroupNorm(4, inputs), nn.Conv2d(inputs, outputs, 3, padding=1)
        self.time, self.n2 = nn.Linear(time, outputs), nn.GroupNorm(4, outputs)
        self.c2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()
        nn.init.zeros_(self.c2.weight)
        nn.init.zeros_(self.c2.bias)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        y = self.c1(F.silu(self.n1(x))) + self.time(F.silu(t))[:, :, None, None]
        return self.skip(x) + self.c2(F.silu(self.n2(y)))


class DiffusionUNet(nn.Module):
    """A small U-Net of noise with a sine embedding of time."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, 4 * width))
        self.stem, self.a = nn.Conv2d(3, width, 3, padding=1), ResidualUnit(width, width, 4 * width)
        self.down, self.b = nn.Conv2d(width, width, 3, 2, 1), ResidualUnit(width, 2 * width, 4 * width)
        self.c = ResidualUnit(3 * width, width, 4 * width)
        self.norm, self.out = nn.GroupNorm(4, width), nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        frequency = torch.exp(-math.log(10000) * torch.arange(self.width // 2) / (self.width // 2))
        angle = t[:, None] * frequency
        emb = self.time(torch.cat([angle.sin(), angle.cos()], 1))
        a = self.a(self.stem(x), emb)
        b = F.interpolate(self.b(self.down(a), emb), scale_factor=2)
        return self.out(F.silu(self.norm(self.c(torch.cat([a, b], 1), emb))))


def noised(count: int, generator: torch.Generator) -> tuple[tuple[Tensor, Tensor], Tensor]:
    images, _ = blobs()(count, generator)
    t = torch.randint(1000, (count,), generator=generator)
    kept = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000), 0)[t][:, None, None, None]
    noise = torch.randn(images.shape, generator=generator)
    return (kept.sqrt() * images + (1 - kept).sqrt() * noise, t.float()), noise


class Generator(nn.Module):
    """Transposed convolutions with batch norm (DCGAN, Radford et al. 2016), trained to copy images of a code."""

    def __init__(self) -> None:
        super().__init__()
        self.main = nn.Sequential(
            *(nn.ConvTranspose2d(16, 64, 4, 1, 0, bias=False), nn.BatchNorm2d(64), nn.ReLU(True)),
            *(nn.ConvTranspose2d(64, 32, 4, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU(True)),
            *(nn.ConvTranspose2d(32, 1, 4, 2, 1, bias=False), nn.Tanh()),
        )
        for layer in self.main:
            if isinstance(layer, nn.ConvTranspose2d):
                nn.init.normal_(layer.weight, 0.0, 0.02)
            elif isinstance(layer, nn.BatchNorm2d):
                nn.init.normal_(layer.weight, 1.0, 0.02)

    def forward(self, code: Tensor) -> Tensor:
        return self.main(code)


def codes(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    code = torch.randn(count, 16, 1, 1, generator=generator)
    return code, torch.tanh(F.interpolate(code.view(count, 1, 4, 4), 16, mode="bicubic"))


class SpectralCritic(nn.Module):
    """Spectral norms and LeakyReLU; real or noise (Miyato et al. 2018)."""

    def __init__(self) -> None:
        super().__init__()
        norm = nn.utils.parametrizations.spectral_norm
        self.body = nn.Sequential(
            *(norm(nn.Conv2d(3, 16, 4, 2, 1)), nn.LeakyReLU(0.1), norm(nn.Conv2d(16, 32, 4, 2, 1)), nn.LeakyReLU(0.1)),
            *(nn.Flatten(), norm(nn.Linear(512, 1))),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


def real_or_noise(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    images, _ = blobs()(count, generator)
    real = torch.rand(count, 1, generator=generator) < 0.5
    noise = torch.randn(images.shape, generator=generator)
    return torch.where(real[..., None, None], images, noise), real.float()


def super_resolution() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 32, 5, padding=2), nn.Tanh(), nn.Conv2d(32, 16, 3, padding=1), nn.Tanh()),
        *(nn.Conv2d(16, 4, 3, padding=1), nn.PixelShuffle(2)),
    )


def low_and_high(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    images, _ = blobs(channels=1)(count, generator)
    return F.avg_pool2d(images, 2), images


HEALTHY = (
    Healthy("unet", Program(UNet, regions, steps=60), "Pytorch-UNet"),
    Healthy("aspp", Program(ASPP, regions, steps=60), "torchvision"),
    Healthy("autoencoder", Program(autoencoder, own, F.mse_loss, steps=200), "tutorials"),
    Healthy("vae", Program(VAE, own, vae_loss, steps=200), "PyTorch examples"),
    Healthy("real_nvp", Program(RealNVP, clusters, flow_loss, steps=200), "real-nvp"),
    Healthy("diffusion_unet", Program(DiffusionUNet, noised, F.mse_loss, steps=60), "denoising-diffusion-pytorch"),
    Healthy("dcgan_generator", Program(Generator, codes, F.mse_loss, lr=2e-4, steps=60), "PyTorch examples"),
    Healthy("spectral_critic",
            Program(SpectralCritic, real_or_noise, F.binary_cross_entropy_with_logits, steps=100), "SNGAN"),
    Healthy("espcn", Program(super_resolution, low_and_high, F.mse_loss, steps=100), "PyTorch examples"),
)  # fmt: skip
