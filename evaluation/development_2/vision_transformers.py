"""More networks of pictures: transformers of pictures, detectors, pairs of views, text in pictures."""

from __future__ import annotations

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

from evaluation.declared import network
from evaluation.development_1.data import pictures, unit_pictures


class Block(nn.Module):
    """A block as timm writes it."""

    def __init__(self, dim, heads, mlp_ratio=4, init_values=None):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim, eps=1e-6), nn.LayerNorm(dim, eps=1e-6)
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.fc1, self.fc2, self.act = nn.Linear(dim, mlp_ratio * dim), nn.Linear(mlp_ratio * dim, dim), nn.GELU()
        self.ls1 = nn.Parameter(init_values * torch.ones(dim)) if init_values else 1.0
        self.ls2 = nn.Parameter(init_values * torch.ones(dim)) if init_values else 1.0

    def attend(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(B, N, C))

    def forward(self, x):
        x = x + self.ls1 * self.attend(self.norm1(x))
        return x + self.ls2 * self.fc2(self.act(self.fc1(self.norm2(x))))


def _trunc(m):
    if isinstance(m, nn.Linear):
        nn.init.trunc_normal_(m.weight, std=0.02)
        nn.init.zeros_(m.bias)


@network(pictures(), loss=lambda out, y: (F.cross_entropy(out[0], y) + F.cross_entropy(out[1], y)) / 2)
def deit_distilled_layer_scale() -> nn.Module:
    class DeiT(nn.Module):
        def __init__(self, dim=64, depth=4):
            super().__init__()
            self.patch = nn.Conv2d(3, dim, 8, 8)
            self.cls_token, self.dist_token = nn.Parameter(torch.zeros(1, 1, dim)), nn.Parameter(torch.zeros(1, 1, dim))
            self.pos_embed = nn.Parameter(torch.zeros(1, 18, dim))
            self.blocks = nn.ModuleList([Block(dim, 4, init_values=1e-4) for _ in range(depth)])
            self.norm, self.head, self.head_dist = nn.LayerNorm(dim), nn.Linear(dim, 10), nn.Linear(dim, 10)
            for t in (self.cls_token, self.dist_token, self.pos_embed):
                nn.init.trunc_normal_(t, std=0.02)
            self.apply(_trunc)

        def forward(self, x):
            x = self.patch(x).flatten(2).transpose(1, 2)
            x = torch.cat([self.cls_token.expand(len(x), -1, -1), self.dist_token.expand(len(x), -1, -1), x], 1)
            x = x + self.pos_embed
            for block in self.blocks:
                x = block(x)
            x = self.norm(x)
            return self.head(x[:, 0]), self.head_dist(x[:, 1])

    return DeiT()


def _patches(images, p=4):
    n, c, h, w = images.shape
    return images.reshape(n, c, h // p, p, w // p, p).permute(0, 2, 4, 3, 5, 1).reshape(n, -1, p * p * c)


def _mae_loss(out, images):
    pred, mask = out
    return (((pred - _patches(images)) ** 2).mean(-1) * mask).sum() / mask.sum()


@network(unit_pictures(24, 3), loss=_mae_loss)
def masked_autoencoder() -> nn.Module:
    class MAE(nn.Module):
        def __init__(self, dim=64, dec=32, n=36):
            super().__init__()
            self.embed, self.pos = nn.Linear(48, dim), nn.Parameter(0.02 * torch.randn(1, n, dim), requires_grad=False)
            self.blocks, self.norm = nn.ModuleList(Block(dim, 4) for _ in range(3)), nn.LayerNorm(dim)
            self.decoder_embed, self.mask_token = nn.Linear(dim, dec), nn.Parameter(0.02 * torch.randn(1, 1, dec))
            self.decoder_pos = nn.Parameter(0.02 * torch.randn(1, n, dec), requires_grad=False)
            self.decoder, self.decoder_norm = Block(dec, 4), nn.LayerNorm(dec)
            self.pred = nn.Linear(dec, 48)

        def forward(self, images):
            x = self.embed(_patches(images)) + self.pos
            B, N, D = x.shape
            keep = N // 4
            shuffle = torch.rand(B, N).argsort(1)
            restore = shuffle.argsort(1)
            x = torch.gather(x, 1, shuffle[:, :keep, None].expand(-1, -1, D))
            mask = torch.ones(B, N)
            mask[:, :keep] = 0
            mask = torch.gather(mask, 1, restore)
            for block in self.blocks:
                x = block(x)
            x = self.decoder_embed(self.norm(x))
            x = torch.cat([x, self.mask_token.expand(B, N - keep, -1)], 1)
            x = torch.gather(x, 1, restore[..., None].expand(-1, -1, x.shape[2])) + self.decoder_pos
            return self.pred(self.decoder_norm(self.decoder(x))), mask

    return MAE()


def _two_views(count, generator):
    x, y = pictures(24)(count, generator)
    noisy = [x + 0.2 * torch.randn(x.shape, generator=generator) for _ in range(2)]
    return tuple(noisy), y


@network(_two_views, loss=lambda out, _: (2 - 2 * F.cosine_similarity(*out[:2])).mean()
         + (2 - 2 * F.cosine_similarity(*out[2:])).mean())  # fmt: skip
def byol_online_and_target() -> nn.Module:
    class BYOL(nn.Module):
        def __init__(self):
            super().__init__()
            self.online = nn.Sequential(
                nn.Conv2d(3, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1),
                nn.BatchNorm2d(64), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 128),
                nn.BatchNorm1d(128), nn.ReLU(),
                nn.Linear(128, 32),
            )  # fmt: skip
            self.target = copy.deepcopy(self.online)
            for p in self.target.parameters():
                p.requires_grad = False
            self.predictor = nn.Sequential(nn.Linear(32, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 32))

        def forward(self, a, b):
            p1, p2 = self.predictor(self.online(a)), self.predictor(self.online(b))
            with torch.no_grad():
                z1, z2 = self.target(a), self.target(b)
            return p1, z2.detach(), p2, z1.detach()

    return BYOL()


def _boxes(count, generator):
    x, y = pictures(32)(count, generator)
    cells = torch.zeros(count, 4, 4, 6)
    where = torch.randint(4, (count, 2), generator=generator)
    n = torch.arange(count)
    cells[n, where[:, 0], where[:, 1], 0] = 1
    cells[n, where[:, 0], where[:, 1], 1:5] = 0.5
    cells[n, where[:, 0], where[:, 1], 5] = y.float()
    for i in range(count):
        x[i, :, where[i, 0] * 8 : where[i, 0] * 8 + 8, where[i, 1] * 8 : where[i, 1] * 8 + 8] += 2
    return x, cells


def _focal(out, cells):
    scores, boxes = out
    p, t = scores.sigmoid(), F.one_hot(cells[..., 5].long(), 10) * cells[..., :1]
    ce = F.binary_cross_entropy_with_logits(scores, t, reduction="none")
    weight = torch.where(t == 1, 0.25 * (1 - p) ** 2, 0.75 * p**2)
    near = F.smooth_l1_loss(boxes, cells[..., 1:5], reduction="none").sum(-1) * cells[..., 0]
    return ((weight * ce).sum() + near.sum()) / cells[..., 0].sum().clamp(min=1)


@network(_boxes, loss=_focal)
def retina_with_prior_bias() -> nn.Module:
    class Retina(nn.Module):
        def __init__(self):
            super().__init__()

            def conv(i, o, s):
                return nn.Sequential(nn.Conv2d(i, o, 3, s, 1, bias=False), nn.BatchNorm2d(o), nn.LeakyReLU(0.1))

            self.body = nn.Sequential(conv(3, 16, 1), conv(16, 32, 2), conv(32, 64, 2), conv(64, 64, 2))
            self.cls = nn.Sequential(nn.Conv2d(64, 64, 3, 1, 1), nn.ReLU(), nn.Conv2d(64, 10, 3, 1, 1))
            self.box = nn.Sequential(nn.Conv2d(64, 64, 3, 1, 1), nn.ReLU(), nn.Conv2d(64, 4, 3, 1, 1))
            for m in [*self.cls, *self.box]:
                if isinstance(m, nn.Conv2d):
                    nn.init.normal_(m.weight, std=0.01)
                    nn.init.zeros_(m.bias)
            nn.init.constant_(self.cls[-1].bias, -math.log((1 - 0.01) / 0.01))

        def forward(self, x):
            x = self.body(x)
            return self.cls(x).permute(0, 2, 3, 1), self.box(x).permute(0, 2, 3, 1)

    return Retina()


def _words_in_pictures(count, generator):
    digits = torch.randint(1, 6, (count, 4), generator=generator)
    strips = torch.randn(6, 16, 12, generator=torch.Generator().manual_seed(3))[digits]
    image = strips.permute(0, 2, 1, 3).flatten(2)[:, None]
    return image + 0.2 * torch.randn(image.shape, generator=generator), digits


def ctc(out, targets):
    steps, n, _ = out.shape
    return F.ctc_loss(out, targets, torch.full((n,), steps), torch.full((n,), targets.shape[1]), zero_infinity=True)


@network(_words_in_pictures, loss=ctc)
def crnn_with_ctc() -> nn.Module:
    class CRNN(nn.Module):
        def __init__(self):
            super().__init__()
            self.cnn = nn.Sequential(
                nn.Conv2d(1, 32, 3, 1, 1), nn.ReLU(True), nn.MaxPool2d(2, 2), nn.Conv2d(32, 64, 3, 1, 1),
                nn.BatchNorm2d(64), nn.ReLU(True), nn.MaxPool2d((4, 1)), nn.Conv2d(64, 64, (2, 1)), nn.ReLU(True),
            )  # fmt: skip
            self.rnn, self.fc = nn.LSTM(64, 32, bidirectional=True, num_layers=2), nn.Linear(64, 6)

        def forward(self, x):
            x = self.cnn(x).squeeze(2).permute(2, 0, 1)
            x, _ = self.rnn(x)
            return self.fc(x).log_softmax(2)

    return CRNN()


def _captioned(count, generator):
    x, y = pictures(24)(count, generator)
    return (x, torch.stack([y, y * 3 % 20 + 10, torch.randint(30, (count,), generator=generator)], 1)), y


def _clip_loss(logits, _):
    labels = torch.arange(len(logits))
    return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2


@network(_captioned, loss=_clip_loss)
def clip_of_pictures_and_words() -> nn.Module:
    class CLIP(nn.Module):
        def __init__(self, d=64):
            super().__init__()
            self.visual = nn.Sequential(
                nn.Conv2d(3, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, d, 3, 2, 1), nn.BatchNorm2d(d),
                nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
            )  # fmt: skip
            self.token, self.pos = nn.Embedding(40, d), nn.Parameter(0.01 * torch.randn(3, d))
            nn.init.normal_(self.token.weight, std=0.02)
            self.block, self.ln_final = Block(d, 4), nn.LayerNorm(d)
            self.image_projection = nn.Parameter(d**-0.5 * torch.randn(d, 32))
            self.text_projection = nn.Parameter(d**-0.5 * torch.randn(d, 32))
            self.logit_scale = nn.Parameter(torch.ones([]) * math.log(1 / 0.07))

        def forward(self, image, text):
            i = self.visual(image) @ self.image_projection
            t = self.ln_final(self.block(self.token(text) + self.pos))[:, -1] @ self.text_projection
            i, t = i / i.norm(dim=1, keepdim=True), t / t.norm(dim=1, keepdim=True)
            return self.logit_scale.exp() * i @ t.t()

    return CLIP()


@network(lambda n, g: (lambda x: (x + 0.2 * torch.randn(x.shape, generator=g), x))(unit_pictures(24)(n, g)[0]),
         loss=F.mse_loss)  # fmt: skip
def dncnn_of_seventeen() -> nn.Module:
    class DnCNN(nn.Module):
        def __init__(self, depth=17, c=24):
            super().__init__()
            layers = [nn.Conv2d(1, c, 3, padding=1), nn.ReLU(inplace=True)]
            for _ in range(depth - 2):
                layers += [nn.Conv2d(c, c, 3, padding=1, bias=False), nn.BatchNorm2d(c, eps=1e-4, momentum=0.95),
                           nn.ReLU(inplace=True)]  # fmt: skip
            layers.append(nn.Conv2d(c, 1, 3, padding=1, bias=False))
            self.dncnn = nn.Sequential(*layers)
            for m in self.modules():
                if isinstance(m, nn.Conv2d):
                    nn.init.orthogonal_(m.weight)

        def forward(self, x):
            return x - self.dncnn(x)

    return DnCNN()


def _triplets(count, generator):
    x, y = pictures(24, classes=4)(count, generator)
    order = torch.argsort(y, stable=True)
    return x[order], y[order]


def _hard_triplets(e, labels):
    d = torch.cdist(e, e)
    same = labels[:, None] == labels[None]
    return F.relu((d * same).max(1).values - (d + 10 * same).min(1).values + 0.2).mean()


@network(_triplets, loss=_hard_triplets)
def triplet_embedding_on_the_sphere() -> nn.Module:
    class FaceNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.features = nn.Sequential(
                nn.Conv2d(3, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.PReLU(), nn.Conv2d(32, 64, 3, 2, 1),
                nn.BatchNorm2d(64), nn.PReLU(), nn.Flatten(), nn.Linear(64 * 36, 32), nn.BatchNorm1d(32),
            )  # fmt: skip

        def forward(self, x):
            return F.normalize(self.features(x), p=2, dim=1)

    return FaceNet()
