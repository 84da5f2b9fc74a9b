"""Networks that make pictures: adversarial, variational, of diffusion."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from evaluation.declared import network
from evaluation.development_1.data import pictures, unit_pictures


def _dcgan_init(m):
    if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(m.weight, 0.0, 0.02)
    elif isinstance(m, nn.BatchNorm2d):
        nn.init.normal_(m.weight, 1.0, 0.02)
        nn.init.zeros_(m.bias)


def _latents(count, generator):
    codes = torch.randn(count, 64, 1, 1, generator=generator)
    return codes, torch.tanh(F.interpolate(codes[:, :48].reshape(count, 3, 4, 4), size=32, mode="bicubic"))


@network(_latents, loss=F.mse_loss, rate=2e-3)
def dcgan_generator() -> nn.Module:
    def up(before, after, stride=2, padding=1):
        return [nn.ConvTranspose2d(before, after, 4, stride, padding, bias=False), nn.BatchNorm2d(after), nn.ReLU(True)]

    return nn.Sequential(
        *up(64, 128, 1, 0), *up(128, 64), *up(64, 32), nn.ConvTranspose2d(32, 3, 4, 2, 1, bias=False), nn.Tanh()
    ).apply(_dcgan_init)


def _real_or_smooth(count, generator):
    images, labels = pictures(32, 3, 2)(count, generator)
    return torch.tanh(images), labels.float()


def _bce_squeezed(out, targets):
    return F.binary_cross_entropy(out.flatten(), targets)


@network(_real_or_smooth, loss=_bce_squeezed)
def dcgan_discriminator() -> nn.Module:
    def down(before, after):
        return [nn.Conv2d(before, after, 4, 2, 1, bias=False), nn.BatchNorm2d(after), nn.LeakyReLU(0.2, inplace=True)]

    return nn.Sequential(
        nn.Conv2d(3, 32, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True), *down(32, 64), *down(64, 128),
        nn.Conv2d(128, 1, 4, 1, 0, bias=False), nn.Sigmoid(),
    ).apply(_dcgan_init)  # fmt: skip


@network(_real_or_smooth, loss=lambda out, t: F.relu(1 - (2 * t - 1) * out.flatten()).mean())
def spectral_norm_critic() -> nn.Module:
    sn = nn.utils.parametrizations.spectral_norm
    return nn.Sequential(
        sn(nn.Conv2d(3, 32, 3, 1, 1)), nn.LeakyReLU(0.1), sn(nn.Conv2d(32, 64, 4, 2, 1)), nn.LeakyReLU(0.1),
        sn(nn.Conv2d(64, 64, 4, 2, 1)), nn.LeakyReLU(0.1), sn(nn.Conv2d(64, 128, 4, 2, 1)), nn.LeakyReLU(0.1),
        nn.Flatten(), sn(nn.Linear(2048, 1)),
    )  # fmt: skip


@dataclass
class VAEOutput:
    reconstruction: torch.Tensor
    mu: torch.Tensor
    logvar: torch.Tensor


def _elbo(out, images):
    bce = F.binary_cross_entropy(out.reconstruction, images.flatten(1), reduction="sum") / len(images)
    return bce - 0.5 * (1 + out.logvar - out.mu**2 - out.logvar.exp()).sum() / len(images)


@network(unit_pictures(28), loss=_elbo)
def vae_dataclass() -> nn.Module:
    class VAE(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1, self.fc21, self.fc22 = nn.Linear(784, 400), nn.Linear(400, 20), nn.Linear(400, 20)
            self.fc3, self.fc4 = nn.Linear(20, 400), nn.Linear(400, 784)

        def forward(self, x):
            h = F.relu(self.fc1(x.view(-1, 784)))
            mu, logvar = self.fc21(h), self.fc22(h)
            z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
            return VAEOutput(torch.sigmoid(self.fc4(F.relu(self.fc3(z)))), mu, logvar)

    return VAE()


def _diffusion(count, generator):
    clean, _ = pictures(16)(count, generator)
    time = torch.randint(1000, (count,), generator=generator)
    noise = torch.randn(clean.shape, generator=generator)
    keep = torch.cos(time / 1000 * math.pi / 2)[:, None, None, None]
    return (keep * clean + (1 - keep**2).sqrt() * noise, time), noise


@network(_diffusion, loss=F.mse_loss)
def diffusion_unet() -> nn.Module:
    class ResBlock(nn.Module):
        def __init__(self, before, after, emb=128):
            super().__init__()
            self.norm1, self.conv1 = nn.GroupNorm(8, before), nn.Conv2d(before, after, 3, padding=1)
            self.emb = nn.Linear(emb, after)
            self.norm2, self.conv2 = nn.GroupNorm(8, after), nn.Conv2d(after, after, 3, padding=1)
            nn.init.zeros_(self.conv2.weight)
            nn.init.zeros_(self.conv2.bias)
            self.skip = nn.Conv2d(before, after, 1) if before != after else nn.Identity()

        def forward(self, x, emb):
            h = self.conv1(F.silu(self.norm1(x))) + self.emb(F.silu(emb))[..., None, None]
            return self.skip(x) + self.conv2(F.silu(self.norm2(h)))

    class Attention(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.norm, self.qkv = nn.GroupNorm(8, channels), nn.Conv1d(channels, 3 * channels, 1)
            self.proj = nn.Conv1d(channels, channels, 1)
            nn.init.zeros_(self.proj.weight)
            nn.init.zeros_(self.proj.bias)

        def forward(self, x):
            n, c, h, w = x.shape
            q, k, v = self.qkv(self.norm(x).reshape(n, c, h * w)).chunk(3, 1)
            weight = torch.softmax(torch.einsum("nct,ncs->nts", q, k) / math.sqrt(c), -1)
            return x + self.proj(torch.einsum("nts,ncs->nct", weight, v)).reshape(n, c, h, w)

    class UNet(nn.Module):
        def __init__(self, c=32):
            super().__init__()
            self.time = nn.Sequential(nn.Linear(c, 128), nn.SiLU(), nn.Linear(128, 128))
            self.conv_in = nn.Conv2d(3, c, 3, padding=1)
            self.down1, self.pool, self.down2 = ResBlock(c, c), nn.Conv2d(c, c, 3, 2, 1), ResBlock(c, 2 * c)
            self.mid, self.attn = ResBlock(2 * c, 2 * c), Attention(2 * c)
            self.up2, self.up1 = ResBlock(4 * c, c), ResBlock(2 * c, c)
            self.norm, self.conv_out = nn.GroupNorm(8, c), nn.Conv2d(c, 3, 3, padding=1)
            nn.init.zeros_(self.conv_out.weight)

        def forward(self, x, t):
            freqs = torch.exp(-math.log(10000) * torch.arange(16) / 16)
            args = t[:, None].float() * freqs[None]
            emb = self.time(torch.cat([args.cos(), args.sin()], -1))
            h1 = self.down1(self.conv_in(x), emb)
            h2 = self.down2(self.pool(h1), emb)
            h = self.attn(self.mid(h2, emb))
            h = self.up2(torch.cat([h, h2], 1), emb)
            h = self.up1(torch.cat([F.interpolate(h, scale_factor=2), h1], 1), emb)
            return self.conv_out(F.silu(self.norm(h)))

    return UNet()
