"""Networks that make data: translated pictures, critics, codes, scores, diffusion transformers, flows."""

from __future__ import annotations

import itertools
import math

import torch
from torch import nn
from torch.nn import functional as F

from evaluation.declared import bug, network
from evaluation.development_1.data import pictures, unit_pictures
from evaluation.development_2.vision_transformers import Block


def _normal_002(m):
    if isinstance(m, nn.Conv2d | nn.ConvTranspose2d):
        nn.init.normal_(m.weight, 0.0, 0.02)
        if m.bias is not None:
            nn.init.zeros_(m.bias)
    elif isinstance(m, nn.BatchNorm2d):
        nn.init.normal_(m.weight, 1.0, 0.02)
        nn.init.zeros_(m.bias)


def _translated(count, generator):
    x = 2 * unit_pictures(32, 3)(count, generator)[0] - 1
    return x, -x.flip(1)


@network(_translated, loss=F.l1_loss)
def pix2pix_generator() -> nn.Module:
    class UnetSkip(nn.Module):
        def __init__(self, outer, inner, inp=None, sub=None, outermost=False, innermost=False):
            super().__init__()
            self.outermost = outermost
            down = nn.Conv2d(inp or outer, inner, 4, 2, 1, bias=False)
            if outermost:
                self.model = nn.Sequential(down, sub, nn.ReLU(True), nn.ConvTranspose2d(2 * inner, outer, 4, 2, 1),
                                           nn.Tanh())  # fmt: skip
            elif innermost:
                self.model = nn.Sequential(
                    nn.LeakyReLU(0.2, True), down, nn.ReLU(True), nn.ConvTranspose2d(inner, outer, 4, 2, 1, bias=False),
                    nn.BatchNorm2d(outer),
                )  # fmt: skip
            else:
                self.model = nn.Sequential(
                    nn.LeakyReLU(0.2, True), down, nn.BatchNorm2d(inner), sub, nn.ReLU(True),
                    nn.ConvTranspose2d(2 * inner, outer, 4, 2, 1, bias=False), nn.BatchNorm2d(outer), nn.Dropout(0.5),
                )  # fmt: skip

        def forward(self, x):
            return self.model(x) if self.outermost else torch.cat([x, self.model(x)], 1)

    net = UnetSkip(64, 64, innermost=True)
    net = UnetSkip(32, 64, sub=net)
    net = UnetSkip(16, 32, sub=net)
    net = UnetSkip(3, 16, inp=3, sub=net, outermost=True)
    return net.apply(_normal_002)


def _real_and_fake(count, generator):
    x = 2 * unit_pictures(32, 3)(count, generator)[0] - 1
    y = (torch.rand(count, generator=generator) < 0.5).float()
    fake = x + 0.5 * torch.randn(x.shape, generator=generator)
    return torch.where(y[:, None, None, None] == 1, x, fake.clamp(-1, 1)), y


@network(_real_and_fake, loss=lambda out, y: F.mse_loss(out, y[:, None, None, None].expand_as(out)))
def patchgan_discriminator() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 32, 4, 2, 1), nn.LeakyReLU(0.2, True), nn.Conv2d(32, 64, 4, 2, 1, bias=False), nn.BatchNorm2d(64),
        nn.LeakyReLU(0.2, True), nn.Conv2d(64, 128, 4, 1, 1, bias=False), nn.BatchNorm2d(128), nn.LeakyReLU(0.2, True),
        nn.Conv2d(128, 1, 4, 1, 1),
    ).apply(_normal_002)  # fmt: skip


@network(_translated, loss=F.l1_loss)
def cyclegan_generator() -> nn.Module:
    class ResnetBlock(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.conv_block = nn.Sequential(
                nn.ReflectionPad2d(1), nn.Conv2d(dim, dim, 3), nn.InstanceNorm2d(dim), nn.ReLU(True),
                nn.ReflectionPad2d(1), nn.Conv2d(dim, dim, 3), nn.InstanceNorm2d(dim),
            )  # fmt: skip

        def forward(self, x):
            return x + self.conv_block(x)

    return nn.Sequential(
        nn.ReflectionPad2d(3), nn.Conv2d(3, 16, 7), nn.InstanceNorm2d(16), nn.ReLU(True),
        nn.Conv2d(16, 32, 3, 2, 1), nn.InstanceNorm2d(32), nn.ReLU(True),
        nn.Conv2d(32, 64, 3, 2, 1), nn.InstanceNorm2d(64), nn.ReLU(True), *[ResnetBlock(64) for _ in range(3)],
        nn.ConvTranspose2d(64, 32, 3, 2, 1, output_padding=1), nn.InstanceNorm2d(32), nn.ReLU(True),
        nn.ConvTranspose2d(32, 16, 3, 2, 1, output_padding=1), nn.InstanceNorm2d(16), nn.ReLU(True),
        nn.ReflectionPad2d(3), nn.Conv2d(16, 3, 7), nn.Tanh(),
    ).apply(_normal_002)  # fmt: skip


@network(_real_and_fake, loss=lambda out, y: ((1 - 2 * y) * out.view(-1)).mean() + 1e-3 * out.pow(2).mean())
def wgan_critic() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 32, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(32, 64, 4, 2, 1), nn.GroupNorm(1, 64),
        nn.LeakyReLU(0.2), nn.Conv2d(64, 128, 4, 2, 1), nn.GroupNorm(1, 128), nn.LeakyReLU(0.2), nn.Flatten(),
        nn.Linear(2048, 1),
    )  # fmt: skip


class VQVAE(nn.Module):
    def __init__(self, k=64, d=16, far=False):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, 32, 4, 2, 1), nn.ReLU(), nn.Conv2d(32, 32, 4, 2, 1), nn.ReLU(), nn.Conv2d(32, d, 1)
        )
        self.codebook = nn.Embedding(k, d)
        if not far:
            self.codebook.weight.data.uniform_(-1.0 / k, 1.0 / k)
        self.decoder = nn.Sequential(
            nn.Conv2d(d, 32, 3, padding=1), nn.ReLU(), nn.ConvTranspose2d(32, 32, 4, 2, 1), nn.ReLU(),
            nn.ConvTranspose2d(32, 3, 4, 2, 1),
        )  # fmt: skip

    def forward(self, x):
        z = self.encoder(x).permute(0, 2, 3, 1).contiguous()
        flat = z.view(-1, z.shape[-1])
        e = self.codebook.weight
        d = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ e.t() + e.pow(2).sum(1)
        q = self.codebook(d.argmin(1)).view(z.shape)
        loss = F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(q.detach(), z)
        q = z + (q - z).detach()
        return self.decoder(q.permute(0, 3, 1, 2)), loss


def _vq_loss(out, images):
    return F.mse_loss(out[0], images) + out[1]


@network(unit_pictures(24, 3), loss=_vq_loss, rate=3e-3)
def vq_vae() -> nn.Module:
    return VQVAE()


@bug(unit_pictures(24, 3), "collapse", "rank-loss", loss=_vq_loss)
def codebook_far_from_the_codes() -> nn.Module:
    """One word for all places: after 240 steps two are used, where a start in a small cube uses 16."""
    return VQVAE(far=True)


def _noised(count, generator):
    x = pictures(16)(count, generator)[0]
    t = torch.rand(count, generator=generator)
    noise = torch.randn(x.shape, generator=generator)
    labels = torch.randint(10, (count,), generator=generator)
    t4 = t[:, None, None, None]
    return {"x": (1 - t4) * x + t4 * noise, "t": t, "y": labels}, noise - x


def timesteps(t, dim):
    freqs = torch.exp(-math.log(10000) * torch.arange(dim // 2) / (dim // 2))
    args = 1000 * t[:, None] * freqs[None]
    return torch.cat([torch.cos(args), torch.sin(args)], -1)


@network(_noised, loss=F.mse_loss, rate=3e-3)
def diffusion_transformer_adaln_zero() -> nn.Module:
    class DiTBlock(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.block, self.ada = Block(d, 4), nn.Sequential(nn.SiLU(), nn.Linear(d, 6 * d))
            self.block.norm1 = nn.LayerNorm(d, elementwise_affine=False)
            self.block.norm2 = nn.LayerNorm(d, elementwise_affine=False)

        def forward(self, x, c):
            s1, b1, g1, s2, b2, g2 = self.ada(c)[:, None].chunk(6, -1)
            x = x + g1 * self.block.attend(self.block.norm1(x) * (1 + s1) + b1)
            h = self.block.norm2(x) * (1 + s2) + b2
            return x + g2 * self.block.fc2(self.block.act(self.block.fc1(h)))

    class DiT(nn.Module):
        def __init__(self, d=64, depth=3):
            super().__init__()
            self.patch, self.pos = nn.Conv2d(3, d, 4, 4), nn.Parameter(0.02 * torch.randn(1, 16, d))
            self.t_embed = nn.Sequential(nn.Linear(64, d), nn.SiLU(), nn.Linear(d, d))
            self.y_embed = nn.Embedding(11, d)
            self.blocks = nn.ModuleList([DiTBlock(d) for _ in range(depth)])
            self.norm, self.ada = nn.LayerNorm(d, elementwise_affine=False), nn.Linear(d, 2 * d)
            self.final = nn.Linear(d, 48)
            nn.init.normal_(self.y_embed.weight, std=0.02)
            for layer in [*[b.ada[1] for b in self.blocks], self.ada, self.final]:
                nn.init.zeros_(layer.weight)
                nn.init.zeros_(layer.bias)

        def forward(self, x, t, y):
            x = self.patch(x).flatten(2).transpose(1, 2) + self.pos
            c = self.t_embed(timesteps(t, 64)) + self.y_embed(y)
            for block in self.blocks:
                x = block(x, c)
            shift, scale = self.ada(F.silu(c))[:, None].chunk(2, -1)
            x = self.final(self.norm(x) * (1 + scale) + shift)
            return x.view(-1, 4, 4, 4, 4, 3).permute(0, 5, 1, 3, 2, 4).reshape(-1, 3, 16, 16)

    return DiT()


def _perturbed(count, generator):
    angle = 6.283 * torch.rand(count, generator=generator)
    points = 2 * torch.stack([angle.cos(), angle.sin()], 1)
    sigma = 25 ** torch.rand(count, 1, generator=generator) / 10
    noise = torch.randn(points.shape, generator=generator)
    return (points + sigma * noise, sigma), -noise


@network(_perturbed, loss=lambda out, t: F.mse_loss(out, t), rate=3e-3)
def score_network_fourier_time() -> nn.Module:
    class Score(nn.Module):
        def __init__(self, d=128):
            super().__init__()
            self.W = nn.Parameter(torch.randn(d // 2) * 30, requires_grad=False)
            self.embed, self.first = nn.Sequential(nn.Linear(d, d), nn.SiLU()), nn.Linear(2, d)
            self.layers = nn.ModuleList(nn.Linear(d, d) for _ in range(3))
            self.times, self.out = nn.ModuleList(nn.Linear(d, d) for _ in range(3)), nn.Linear(d, 2)

        def forward(self, x, sigma):
            proj = sigma.log() * self.W[None] * 2 * math.pi
            e = self.embed(torch.cat([proj.sin(), proj.cos()], -1))
            h = self.first(x / (1 + sigma**2).sqrt())
            for layer, time in zip(self.layers, self.times, strict=True):
                h = h + F.silu(layer(h) + time(e))
            return self.out(h)

    return Score()


@network(lambda n, g: (lambda x: ((x > 0.5).float().flatten(1),) * 2)(unit_pictures(12)(n, g)[0]),
         loss=F.binary_cross_entropy_with_logits, rate=1e-2)  # fmt: skip
def made_masked_autoregressive() -> nn.Module:
    class MaskedLinear(nn.Linear):
        def __init__(self, i, o, mask):
            super().__init__(i, o)
            self.register_buffer("mask", mask.float())

        def forward(self, x):
            return F.linear(x, self.mask * self.weight, self.bias)

    n, h = 144, 200
    degrees = [torch.arange(n), torch.arange(h) % (n - 1), torch.arange(h) % (n - 1)]
    layers = []
    for a, b in itertools.pairwise(degrees):
        layers += [MaskedLinear(len(a), len(b), b[:, None] >= a[None]), nn.ReLU()]
    return nn.Sequential(*layers, MaskedLinear(h, n, degrees[0][:, None] > degrees[-1][None]))


@network(unit_pictures(28), loss=lambda out, x: F.mse_loss(out, x.flatten(1)))
def tied_autoencoder() -> nn.Module:
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.w1, self.w2 = nn.Parameter(torch.empty(128, 784)), nn.Parameter(torch.empty(32, 128))
            self.b = nn.ParameterList(torch.zeros(k) for k in (128, 32, 128, 784))
            nn.init.xavier_uniform_(self.w1)
            nn.init.xavier_uniform_(self.w2)

        def forward(self, x):
            h = F.relu(F.linear(x.flatten(1), self.w1, self.b[0]))
            z = F.linear(h, self.w2, self.b[1])
            h = F.relu(F.linear(z, self.w2.t(), self.b[2]))
            return torch.sigmoid(F.linear(h, self.w1.t(), self.b[3]))

    return Tied()


def _activations(count, generator):
    from evaluation.development_1.data import fixed

    codes = torch.relu(torch.randn(count, 64, generator=generator) - 1.5)
    x = codes @ fixed(64, 32)
    return x, x


@network(_activations, loss=F.mse_loss, rate=3e-3)
def sparse_autoencoder_top_k() -> nn.Module:
    class SAE(nn.Module):
        def __init__(self, d=32, n=256, k=16):
            super().__init__()
            self.k = k
            self.encoder, self.b_dec = nn.Linear(d, n), nn.Parameter(torch.zeros(d))
            self.W_dec = nn.Parameter(F.normalize(self.encoder.weight.data.clone(), dim=1))
            nn.init.zeros_(self.encoder.bias)

        def forward(self, x):
            pre = F.relu(self.encoder(x - self.b_dec))
            values, index = pre.topk(self.k, dim=-1)
            codes = torch.zeros_like(pre).scatter(-1, index, values)
            return codes @ self.W_dec + self.b_dec

    return SAE()
