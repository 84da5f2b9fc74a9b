"""Networks that make pictures and densities."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from evaluation.declared import network
from evaluation.development_1.data import pictures, unit_pictures


def timestep_embedding(t, dim):
    half = dim // 2
    freqs = torch.exp(-math.log(10000) * torch.arange(half) / half)
    args = t[:, None].float() * freqs[None]
    return torch.cat([torch.cos(args), torch.sin(args)], -1)


def zero_module(module):
    for p in module.parameters():
        p.detach().zero_()
    return module


def _noised(count, generator):
    x, _ = pictures(16, 3)(count, generator)
    t = torch.randint(0, 1000, (count,), generator=generator)
    alpha = torch.cos(t / 1000 * math.pi / 2)[:, None, None, None] ** 2
    noise = torch.randn(x.shape, generator=generator)
    return (alpha.sqrt() * x + (1 - alpha).sqrt() * noise, t), noise


@network(_noised, loss=F.mse_loss, rate=2e-3)
def guided_diffusion_unet() -> nn.Module:
    class ResBlock(nn.Module):
        def __init__(self, i, emb, o):
            super().__init__()
            self.in_layers = nn.Sequential(nn.GroupNorm(8, i), nn.SiLU(), nn.Conv2d(i, o, 3, padding=1))
            self.emb_layers = nn.Sequential(nn.SiLU(), nn.Linear(emb, 2 * o))
            self.out_norm = nn.GroupNorm(8, o)
            self.out_rest = nn.Sequential(nn.SiLU(), nn.Dropout(0.1), zero_module(nn.Conv2d(o, o, 3, padding=1)))
            self.skip = nn.Identity() if i == o else nn.Conv2d(i, o, 1)

        def forward(self, x, emb):
            h = self.in_layers(x)
            scale, shift = self.emb_layers(emb)[..., None, None].chunk(2, 1)
            return self.skip(x) + self.out_rest(self.out_norm(h) * (1 + scale) + shift)

    class AttentionBlock(nn.Module):
        def __init__(self, c, heads=2):
            super().__init__()
            self.norm, self.qkv, self.heads = nn.GroupNorm(8, c), nn.Conv1d(c, 3 * c, 1), heads
            self.proj_out = zero_module(nn.Conv1d(c, c, 1))

        def forward(self, x):
            b, c, *spatial = x.shape
            x = x.reshape(b, c, -1)
            q, k, v = self.qkv(self.norm(x)).reshape(b * self.heads, 3 * c // self.heads, -1).split(c // self.heads, 1)
            scale = 1 / math.sqrt(math.sqrt(c // self.heads))
            weight = torch.softmax(torch.einsum("bct,bcs->bts", q * scale, k * scale).float(), -1)
            h = torch.einsum("bts,bcs->bct", weight, v).reshape(b, -1, x.shape[-1])
            return (x + self.proj_out(h)).reshape(b, c, *spatial)

    class UNet(nn.Module):
        def __init__(self, c=32):
            super().__init__()
            e = 4 * c
            self.c, self.time_embed = c, nn.Sequential(nn.Linear(c, e), nn.SiLU(), nn.Linear(e, e))
            self.conv_in, self.d1, self.down = (
                nn.Conv2d(3, c, 3, padding=1),
                ResBlock(c, e, c),
                nn.Conv2d(c, c, 3, 2, 1),
            )
            self.d2, self.mid1, self.attn, self.mid2 = (
                ResBlock(c, e, 2 * c),
                ResBlock(2 * c, e, 2 * c),
                AttentionBlock(2 * c),
                ResBlock(2 * c, e, 2 * c),
            )
            self.u2, self.up, self.u1 = ResBlock(4 * c, e, c), nn.Conv2d(c, c, 3, padding=1), ResBlock(2 * c, e, c)
            self.out = nn.Sequential(nn.GroupNorm(8, c), nn.SiLU(), zero_module(nn.Conv2d(c, 3, 3, padding=1)))

        def forward(self, x, timesteps):
            emb = self.time_embed(timestep_embedding(timesteps, self.c))
            h1 = self.d1(self.conv_in(x), emb)
            h2 = self.d2(self.down(h1), emb)
            h = self.mid2(self.attn(self.mid1(h2, emb)), emb)
            h = self.u2(torch.cat([h, h2], 1), emb)
            h = self.up(F.interpolate(h, scale_factor=2, mode="nearest"))
            return self.out(self.u1(torch.cat([h, h1], 1), emb))

    return UNet()


class VAEOutput(NamedTuple):
    recon: torch.Tensor
    mu: torch.Tensor
    logvar: torch.Tensor


def _elbo(out, x):
    bce = F.binary_cross_entropy_with_logits(out.recon, x, reduction="none").sum((1, 2, 3)).mean()
    return bce - 0.5 * (1 + out.logvar - out.mu.pow(2) - out.logvar.exp()).sum(1).mean()


@network(unit_pictures(28), loss=_elbo, rate=2e-3)
def beta_vae_of_convolutions() -> nn.Module:
    class View(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.size = size

        def forward(self, x):
            return x.view(self.size)

    class VAE(nn.Module):
        def __init__(self, z=8):
            super().__init__()
            self.z = z
            self.encoder = nn.Sequential(
                nn.Conv2d(1, 16, 4, 2, 1),
                nn.ReLU(True),
                nn.Conv2d(16, 32, 4, 2, 1),
                nn.ReLU(True),
                View((-1, 32 * 49)),
                nn.Linear(32 * 49, 64),
                nn.ReLU(True),
                nn.Linear(64, 2 * z),
            )
            self.decoder = nn.Sequential(
                nn.Linear(z, 64),
                nn.ReLU(True),
                nn.Linear(64, 32 * 49),
                nn.ReLU(True),
                View((-1, 32, 7, 7)),
                nn.ConvTranspose2d(32, 16, 4, 2, 1),
                nn.ReLU(True),
                nn.ConvTranspose2d(16, 1, 4, 2, 1),
            )
            for m in self.modules():
                if isinstance(m, nn.Linear | nn.Conv2d):
                    nn.init.kaiming_normal_(m.weight)
                    m.bias.data.fill_(0)

        def forward(self, x):
            d = self.encoder(x)
            mu, logvar = d[:, : self.z], d[:, self.z :]
            z = mu + logvar.div(2).exp() * torch.randn_like(mu)
            return VAEOutput(self.decoder(z), mu, logvar)

    return VAE()


def _latent(count, generator):
    return torch.randn(count, 64, generator=generator), unit_pictures(16, 3)(count, generator)[0] * 2 - 1


def _moments(out, real):
    """Stands for a critic: means and deviations of every pixel."""
    return F.mse_loss(out.mean(0), real.mean(0)) + F.mse_loss(out.std(0), real.std(0))


@network(_latent, loss=_moments, rate=2e-3)
def style_generator_with_modulation() -> nn.Module:
    class EqualLinear(nn.Module):
        def __init__(self, i, o, bias_init=0.0, lr_mul=1.0):
            super().__init__()
            self.weight, self.bias = (
                nn.Parameter(torch.randn(o, i) / lr_mul),
                nn.Parameter(torch.zeros(o).fill_(bias_init / lr_mul)),
            )
            self.scale, self.lr_mul = (1 / math.sqrt(i)) * lr_mul, lr_mul

        def forward(self, x):
            return F.linear(x, self.weight * self.scale, self.bias * self.lr_mul)

    class ModulatedConv2d(nn.Module):
        def __init__(self, i, o, k, style, demodulate=True):
            super().__init__()
            self.weight, self.modulation = nn.Parameter(torch.randn(1, o, i, k, k)), EqualLinear(style, i, bias_init=1)
            self.scale, self.demodulate, self.k = 1 / math.sqrt(i * k**2), demodulate, k

        def forward(self, x, style):
            batch, i, h, w = x.shape
            weight = self.scale * self.weight * self.modulation(style).view(batch, 1, i, 1, 1)
            if self.demodulate:
                weight = weight * torch.rsqrt(weight.pow(2).sum([2, 3, 4]) + 1e-8)[:, :, None, None, None]
            weight = weight.view(-1, i, self.k, self.k)
            out = F.conv2d(x.reshape(1, batch * i, h, w), weight, padding=self.k // 2, groups=batch)
            return out.view(batch, -1, h, w)

    class Generator(nn.Module):
        def __init__(self, d=64, c=32):
            super().__init__()
            self.style = nn.ModuleList(EqualLinear(d, d, lr_mul=0.01) for _ in range(4))
            self.input = nn.Parameter(torch.randn(1, c, 4, 4))
            self.convs = nn.ModuleList(ModulatedConv2d(c, c, 3, d) for _ in range(3))
            self.rgbs = nn.ModuleList(ModulatedConv2d(c, 3, 1, d, demodulate=False) for _ in range(3))
            self.biases = nn.ParameterList(torch.zeros(1, c, 1, 1) for _ in range(3))

        def forward(self, z):
            w = z * torch.rsqrt(z.pow(2).mean(1, keepdim=True) + 1e-8)
            for layer in self.style:
                w = F.leaky_relu(layer(w), 0.2) * 2**0.5
            x, image = self.input.expand(len(z), -1, -1, -1), 0
            for i, (conv, rgb, bias) in enumerate(zip(self.convs, self.rgbs, self.biases, strict=True)):
                if i:
                    x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
                    image = F.interpolate(image, scale_factor=2, mode="bilinear", align_corners=False)
                x = F.leaky_relu(conv(x, w) + bias, 0.2) * 2**0.5
                image = image + rgb(x, w)
            return image

    return Generator()


def _real_or_fake(count, generator):
    x = unit_pictures(16, 3)(count, generator)[0] * 2 - 1
    y = torch.randint(2, (count,), generator=generator).float()
    fake = torch.randn(x.shape, generator=generator)
    return torch.where(y[:, None, None, None] > 0, x, 0.6 * x + 0.6 * fake), y


def _hinge(out, real):
    return torch.where(real > 0, F.relu(1 - out.view(-1)), F.relu(1 + out.view(-1))).mean()


@network(_real_or_fake, loss=_hinge, rate=2e-3)
def hinge_critic_with_spectral_norms_and_attention() -> nn.Module:
    sn = nn.utils.parametrizations.spectral_norm

    class SelfAttention(nn.Module):
        def __init__(self, c):
            super().__init__()
            self.theta, self.phi, self.g, self.o = (
                sn(nn.Conv2d(a, b, 1, bias=False)) for a, b in ((c, c // 8), (c, c // 8), (c, c // 2), (c // 2, c))
            )
            self.gamma = nn.Parameter(torch.tensor(0.0))

        def forward(self, x):
            b, c, h, w = x.shape
            theta, phi, g = self.theta(x).view(b, -1, h * w), F.max_pool2d(self.phi(x), 2), F.max_pool2d(self.g(x), 2)
            beta = F.softmax(torch.bmm(theta.transpose(1, 2), phi.view(b, -1, h * w // 4)), -1)
            o = self.o(torch.bmm(g.view(b, -1, h * w // 4), beta.transpose(1, 2)).view(b, c // 2, h, w))
            return self.gamma * o + x

    class DBlock(nn.Module):
        def __init__(self, i, o, preactivation=True):
            super().__init__()
            self.conv1, self.conv2, self.conv_sc = (
                sn(nn.Conv2d(i, o, 3, padding=1)),
                sn(nn.Conv2d(o, o, 3, padding=1)),
                sn(nn.Conv2d(i, o, 1)),
            )
            self.pre = preactivation

        def forward(self, x):
            h = F.avg_pool2d(self.conv2(F.relu(self.conv1(F.relu(x) if self.pre else x))), 2)
            return h + F.avg_pool2d(self.conv_sc(x), 2)

    class Critic(nn.Module):
        def __init__(self, c=32):
            super().__init__()
            self.blocks = nn.Sequential(DBlock(3, c, False), SelfAttention(c), DBlock(c, 2 * c), DBlock(2 * c, 2 * c))
            self.linear = sn(nn.Linear(2 * c, 1))
            for m in self.modules():
                if isinstance(m, nn.Conv2d | nn.Linear):
                    nn.init.orthogonal_(m.weight)

        def forward(self, x):
            return self.linear(F.relu(self.blocks(x)).sum([2, 3]))

    return Critic()


def _moons(count, generator):
    t = math.pi * torch.rand(count, generator=generator)
    s = torch.randint(2, (count,), generator=generator) * 2.0 - 1
    x = torch.stack([s * t.cos() + 0.5 * s, s * t.sin()], 1) + 0.05 * torch.randn(count, 2, generator=generator)
    return x, x


@network(_moons, loss=lambda out, _: -(-0.5 * out[0].pow(2).sum(1) - math.log(2 * math.pi) + out[1]).mean(), rate=3e-3)
def masked_autoregressive_flow() -> nn.Module:
    class MaskedLinear(nn.Linear):
        def __init__(self, i, o, mask):
            super().__init__(i, o)
            self.register_buffer("mask", mask)

        def forward(self, x):
            return F.linear(x, self.mask * self.weight, self.bias)

    class MADE(nn.Module):
        def __init__(self, d=2, h=32):
            super().__init__()
            degrees, hidden = torch.arange(1, d + 1), torch.arange(h) % (d - 1) + 1
            self.net = nn.Sequential(
                MaskedLinear(d, h, (hidden[:, None] >= degrees[None]).float()),
                nn.Tanh(),
                MaskedLinear(h, h, (hidden[:, None] >= hidden[None]).float()),
                nn.Tanh(),
                MaskedLinear(h, 2 * d, (degrees.repeat(2)[:, None] > hidden[None]).float()),
            )

        def forward(self, x):
            mu, alpha = self.net(x).chunk(2, 1)
            return (x - mu) * torch.exp(-alpha), -alpha.sum(1)

    class MAF(nn.Module):
        def __init__(self, blocks=4):
            super().__init__()
            self.blocks = nn.ModuleList(MADE() for _ in range(blocks))

        def forward(self, x):
            logdet = torch.zeros(len(x))
            for block in self.blocks:
                x, ld = block(x)
                x, logdet = x.flip(1), logdet + ld
            return x, logdet

    return MAF()


def _flow_pairs(count, generator):
    target = _moons(count, generator)[0]
    x0, t = torch.randn(count, 2, generator=generator), torch.rand(count, 1, generator=generator)
    return {"x": (1 - t) * x0 + t * target, "t": t}, target - x0


@network(_flow_pairs, loss=F.mse_loss, rate=3e-3)
def flow_matching_of_two_moons() -> nn.Module:
    class Swish(nn.Module):
        def forward(self, x):
            return torch.sigmoid(x) * x

    class Velocity(nn.Module):
        def __init__(self, h=64):
            super().__init__()
            self.main = nn.Sequential(
                nn.Linear(3, h), Swish(), nn.Linear(h, h), Swish(), nn.Linear(h, h), Swish(), nn.Linear(h, 2)
            )

        def forward(self, x, t):
            return self.main(torch.cat([x, t], -1))

    return Velocity()


@network(_moons, loss=lambda out, _: (0.5 * out.pow(2).sum(1)).mean(), rate=3e-3)
def denoising_score_by_autograd_in_the_call() -> nn.Module:
    class Energy(nn.Module):
        """The score is the gradient of an energy, taken in the call."""

        def __init__(self, h=64):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(2, h), nn.Softplus(), nn.Linear(h, h), nn.Softplus(), nn.Linear(h, 1))

        def forward(self, x):
            with torch.enable_grad():
                noise = 0.3 * torch.randn_like(x)
                at = (x + noise).requires_grad_(True)
                score = -torch.autograd.grad(self.net(at).sum(), at, create_graph=True)[0]
            return 0.3 * score + noise / 0.3

    return Energy()


@network(
    lambda n, g: (lambda x: (F.interpolate(x, size=8), x))(unit_pictures(16, 3)(n, g)[0]), loss=F.l1_loss, rate=2e-3
)
def residual_dense_super_resolution() -> nn.Module:
    class RDB(nn.Module):
        def __init__(self, c=32, g=16):
            super().__init__()
            self.convs = nn.ModuleList(nn.Conv2d(c + i * g, g if i < 3 else c, 3, padding=1) for i in range(4))
            for m in self.convs:
                nn.init.kaiming_normal_(m.weight)
                m.weight.data *= 0.1
                m.bias.data.zero_()

        def forward(self, x):
            have = [x]
            for conv in self.convs[:-1]:
                have.append(F.leaky_relu(conv(torch.cat(have, 1)), 0.2, inplace=True))
            return x + 0.2 * self.convs[-1](torch.cat(have, 1))

    class ESRGAN(nn.Module):
        def __init__(self, c=32):
            super().__init__()
            self.first, self.trunk, self.trunk_conv = (
                nn.Conv2d(3, c, 3, padding=1),
                nn.Sequential(*[RDB(c) for _ in range(3)]),
                nn.Conv2d(c, c, 3, padding=1),
            )
            self.up, self.hr, self.last = (
                nn.Conv2d(c, c, 3, padding=1),
                nn.Conv2d(c, c, 3, padding=1),
                nn.Conv2d(c, 3, 3, padding=1),
            )

        def forward(self, x):
            fea = self.first(x)
            fea = fea + self.trunk_conv(self.trunk(fea))
            fea = F.leaky_relu(self.up(F.interpolate(fea, scale_factor=2, mode="nearest")), 0.2)
            return self.last(F.leaky_relu(self.hr(fea), 0.2))

    return ESRGAN()
