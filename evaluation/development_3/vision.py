"""Networks of pictures and points as their repositories write them."""

from __future__ import annotations

import math
from collections import OrderedDict
from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional as F

from evaluation.declared import network
from evaluation.development_1.data import pictures, unit_pictures


class LayerNorm2d(nn.LayerNorm):
    def forward(self, x):
        return F.layer_norm(x.permute(0, 2, 3, 1), self.normalized_shape, self.weight, self.bias, self.eps).permute(
            0, 3, 1, 2
        )


class GRN(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.gamma, self.beta = nn.Parameter(torch.zeros(1, 1, 1, dim)), nn.Parameter(torch.zeros(1, 1, 1, dim))

    def forward(self, x):
        gx = torch.norm(x, p=2, dim=(1, 2), keepdim=True)
        nx = gx / (gx.mean(dim=-1, keepdim=True) + 1e-6)
        return self.gamma * (x * nx) + self.beta + x


def drop_path(x, p, training):
    if not training or not p:
        return x
    keep = x.new_empty((len(x),) + (1,) * (x.dim() - 1)).bernoulli_(1 - p)
    return x * keep / (1 - p)


@network(pictures(32), rate=2e-3)
def convnext_v2_with_response_norm() -> nn.Module:
    class Block(nn.Module):
        def __init__(self, dim, p):
            super().__init__()
            self.dwconv, self.norm = nn.Conv2d(dim, dim, 7, padding=3, groups=dim), nn.LayerNorm(dim, eps=1e-6)
            self.pwconv1, self.grn, self.pwconv2 = nn.Linear(dim, 4 * dim), GRN(4 * dim), nn.Linear(4 * dim, dim)
            self.p = p

        def forward(self, x):
            h = self.norm(self.dwconv(x).permute(0, 2, 3, 1))
            h = self.pwconv2(self.grn(F.gelu(self.pwconv1(h)))).permute(0, 3, 1, 2)
            return x + drop_path(h, self.p, self.training)

    class ConvNeXtV2(nn.Module):
        def __init__(self, depths=(1, 1, 2), dims=(16, 32, 64)):
            super().__init__()
            self.downsample_layers = nn.ModuleList([nn.Sequential(nn.Conv2d(3, dims[0], 2, 2), LayerNorm2d(dims[0]))])
            for a, b in pairwise(dims):
                self.downsample_layers.append(nn.Sequential(LayerNorm2d(a), nn.Conv2d(a, b, 2, 2)))
            self.stages = nn.ModuleList(
                nn.Sequential(*[Block(d, 0.1) for _ in range(n)]) for d, n in zip(dims, depths, strict=True)
            )
            self.norm, self.head = nn.LayerNorm(dims[-1], eps=1e-6), nn.Linear(dims[-1], 10)
            self.apply(self._init_weights)

        def _init_weights(self, m):
            if isinstance(m, nn.Conv2d | nn.Linear):
                nn.init.trunc_normal_(m.weight, std=0.02)
                nn.init.constant_(m.bias, 0)

        def forward(self, x):
            for down, stage in zip(self.downsample_layers, self.stages, strict=True):
                x = stage(down(x))
            return self.head(self.norm(x.mean([-2, -1])))

    return ConvNeXtV2()


@network(pictures(32), rate=2e-3)
def efficientnet_v2_with_fused_blocks() -> nn.Module:
    class SE(nn.Module):
        def __init__(self, c, r):
            super().__init__()
            self.fc = nn.Sequential(nn.Linear(c, r), nn.SiLU(), nn.Linear(r, c), nn.Sigmoid())

        def forward(self, x):
            return x * self.fc(x.mean((2, 3))).view(*x.shape[:2], 1, 1)

    class MBConv(nn.Module):
        def __init__(self, i, o, stride, expand, fused):
            super().__init__()
            h, self.identity = i * expand, stride == 1 and i == o
            wide = (
                [nn.Conv2d(i, h, 3, stride, 1, bias=False), nn.BatchNorm2d(h), nn.SiLU()]
                if fused
                else [
                    nn.Conv2d(i, h, 1, bias=False),
                    nn.BatchNorm2d(h),
                    nn.SiLU(),
                    nn.Conv2d(h, h, 3, stride, 1, groups=h, bias=False),
                    nn.BatchNorm2d(h),
                    nn.SiLU(),
                    SE(h, i // 4),
                ]
            )
            self.conv = nn.Sequential(*wide, nn.Conv2d(h, o, 1, bias=False), nn.BatchNorm2d(o))

        def forward(self, x):
            return x + self.conv(x) if self.identity else self.conv(x)

    class EffNetV2(nn.Module):
        def __init__(self):
            super().__init__()
            layers = [nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.SiLU())]
            for i, o, s, t, fused in (
                (16, 16, 1, 1, True),
                (16, 24, 2, 4, True),
                (24, 24, 1, 4, True),
                (24, 32, 2, 4, False),
                (32, 32, 1, 4, False),
            ):
                layers.append(MBConv(i, o, s, t, fused))
            self.features = nn.Sequential(*layers, nn.Conv2d(32, 128, 1, bias=False), nn.BatchNorm2d(128), nn.SiLU())
            self.avgpool, self.classifier = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(128, 10)
            for m in self.modules():
                if isinstance(m, nn.Conv2d):
                    m.weight.data.normal_(0, math.sqrt(2.0 / (m.kernel_size[0] * m.kernel_size[1] * m.out_channels)))
                elif isinstance(m, nn.Linear):
                    m.weight.data.normal_(0, 0.001)
                    m.bias.data.zero_()

        def forward(self, x):
            return self.classifier(self.avgpool(self.features(x)).flatten(1))

    return EffNetV2()


class SDPA(nn.Module):
    def __init__(self, dim, heads, qk_norm=False):
        super().__init__()
        self.qkv, self.proj, self.heads = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim), heads
        self.q_norm, self.k_norm = (
            (nn.LayerNorm(dim // heads) for _ in range(2)) if qk_norm else (nn.Identity() for _ in range(2))
        )

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        x = F.scaled_dot_product_attention(self.q_norm(q), self.k_norm(k), v)
        return self.proj(x.transpose(1, 2).reshape(B, N, C))


class ViTBlock(nn.Module):
    def __init__(self, d, heads, qk_norm=False, scale=None):
        super().__init__()
        self.norm1, self.attn, self.norm2 = nn.LayerNorm(d), SDPA(d, heads, qk_norm), nn.LayerNorm(d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
        self.ls1, self.ls2 = (nn.Parameter(scale * torch.ones(d)) for _ in range(2)) if scale else (1.0, 1.0)

    def forward(self, x):
        x = x + self.ls1 * self.attn(self.norm1(x))
        return x + self.ls2 * self.mlp(self.norm2(x))


@network(pictures(32), rate=2e-3)
def vit_with_registers_and_query_norms() -> nn.Module:
    class ViT(nn.Module):
        def __init__(self, d=64, depth=4, registers=4):
            super().__init__()
            self.patch_embed = nn.Conv2d(3, d, 4, 4)
            self.cls_token, self.register_tokens = (
                nn.Parameter(torch.zeros(1, 1, d)),
                nn.Parameter(torch.zeros(1, registers, d)),
            )
            self.pos_embed = nn.Parameter(torch.zeros(1, 65, d))
            self.blocks = nn.ModuleList(ViTBlock(d, 4, qk_norm=True, scale=1e-5) for _ in range(depth))
            self.norm, self.head = nn.LayerNorm(d), nn.Linear(2 * d, 10)
            nn.init.trunc_normal_(self.pos_embed, std=0.02)
            nn.init.normal_(self.cls_token, std=1e-6)
            nn.init.normal_(self.register_tokens, std=1e-6)
            for m in self.modules():
                if isinstance(m, nn.Linear):
                    nn.init.trunc_normal_(m.weight, std=0.02)
                    nn.init.zeros_(m.bias)

        def forward(self, x):
            x = self.patch_embed(x).flatten(2).transpose(1, 2)
            x = torch.cat((self.cls_token.expand(len(x), -1, -1), x), 1) + self.pos_embed
            x = torch.cat((x[:, :1], self.register_tokens.expand(len(x), -1, -1), x[:, 1:]), 1)
            for block in self.blocks:
                x = block(x)
            x = self.norm(x)
            return self.head(torch.cat([x[:, 0], x[:, 5:].mean(1)], 1))

    return ViT()


def _two_views(count, generator):
    x, y = pictures(16)(count, generator)
    other = x + 0.3 * torch.randn(x.shape, generator=generator)
    return (x, other), y


def _dino(out, labels):
    student, teacher = out
    return -(F.softmax(teacher.detach() / 0.04, -1) * F.log_softmax(student / 0.1, -1)).sum(-1).mean()


@network(_two_views, loss=_dino, rate=1e-3)
def dino_with_weight_normed_head() -> nn.Module:
    class Head(nn.Module):
        def __init__(self, i, o=64, hidden=64, bottleneck=32):
            super().__init__()
            self.mlp = nn.Sequential(
                nn.Linear(i, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, bottleneck)
            )
            self.last_layer = nn.utils.parametrizations.weight_norm(nn.Linear(bottleneck, o, bias=False))
            self.last_layer.parametrizations.weight.original0.data.fill_(1)
            self.last_layer.parametrizations.weight.original0.requires_grad = False
            for m in self.mlp:
                if isinstance(m, nn.Linear):
                    nn.init.trunc_normal_(m.weight, std=0.02)
                    nn.init.zeros_(m.bias)

        def forward(self, x):
            return self.last_layer(F.normalize(self.mlp(x), dim=-1, p=2))

    class Dino(nn.Module):
        def __init__(self, d=48):
            super().__init__()

            def backbone():
                return nn.Sequential(
                    nn.Conv2d(3, d, 4, 4),
                    nn.Flatten(2),
                    Transposed(),
                    ViTBlock(d, 4),
                    ViTBlock(d, 4),
                    nn.LayerNorm(d),
                    Mean(),
                )

            self.student, self.teacher = nn.Sequential(backbone(), Head(d)), nn.Sequential(backbone(), Head(d))
            self.teacher.load_state_dict(self.student.state_dict())
            self.teacher.requires_grad_(False)
            self.register_buffer("center", torch.zeros(1, 64))

        def forward(self, a, b):
            with torch.no_grad():
                t = self.teacher(b) - self.center
            return self.student(a), t

    return Dino()


class Transposed(nn.Module):
    def forward(self, x):
        return x.transpose(1, 2)


class Mean(nn.Module):
    def forward(self, x):
        return x.mean(1)


@network(pictures(32, 1), rate=2e-3)
def ghost_bottlenecks_with_hard_swish() -> nn.Module:
    class Ghost(nn.Module):
        def __init__(self, i, o, relu=True):
            super().__init__()
            self.primary = nn.Sequential(
                nn.Conv2d(i, o // 2, 1, bias=False), nn.BatchNorm2d(o // 2), nn.Hardswish() if relu else nn.Sequential()
            )
            self.cheap = nn.Sequential(
                nn.Conv2d(o // 2, o // 2, 3, 1, 1, groups=o // 2, bias=False),
                nn.BatchNorm2d(o // 2),
                nn.Hardswish() if relu else nn.Sequential(),
            )

        def forward(self, x):
            x1 = self.primary(x)
            return torch.cat([x1, self.cheap(x1)], 1)

    class Bottleneck(nn.Module):
        def __init__(self, i, h, o, stride):
            super().__init__()
            self.ghost1, self.ghost2 = Ghost(i, h), Ghost(h, o, relu=False)
            self.down = (
                nn.Sequential(nn.Conv2d(h, h, 3, stride, 1, groups=h, bias=False), nn.BatchNorm2d(h))
                if stride > 1
                else nn.Identity()
            )
            self.shortcut = (
                nn.Identity()
                if i == o and stride == 1
                else nn.Sequential(
                    nn.Conv2d(i, i, 3, stride, 1, groups=i, bias=False),
                    nn.BatchNorm2d(i),
                    nn.Conv2d(i, o, 1, bias=False),
                    nn.BatchNorm2d(o),
                )
            )

        def forward(self, x):
            return self.ghost2(self.down(self.ghost1(x))) + self.shortcut(x)

    return nn.Sequential(
        OrderedDict(
            stem=nn.Sequential(nn.Conv2d(1, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.Hardswish()),
            b1=Bottleneck(16, 32, 16, 1),
            b2=Bottleneck(16, 48, 24, 2),
            b3=Bottleneck(24, 72, 24, 1),
            b4=Bottleneck(24, 96, 40, 2),
            pool=nn.AdaptiveAvgPool2d(1),
            conv=nn.Conv2d(40, 96, 1),
            act=nn.Hardswish(),
            flat=nn.Flatten(),
            drop=nn.Dropout(0.2),
            fc=nn.Linear(96, 10),
        )
    )


@network(pictures(16), rate=3e-3)
def highway_and_maxout() -> nn.Module:
    class Highway(nn.Module):
        def __init__(self, d, bias=-2.0):
            super().__init__()
            self.H, self.T = nn.Linear(d, d), nn.Linear(d, d)
            self.T.bias.data.fill_(bias)

        def forward(self, x):
            t = torch.sigmoid(self.T(x))
            return F.relu(self.H(x)) * t + x * (1 - t)

    class Maxout(nn.Module):
        def __init__(self, i, o, pieces=3):
            super().__init__()
            self.lin, self.o, self.k = nn.Linear(i, o * pieces), o, pieces

        def forward(self, x):
            return self.lin(x).view(*x.shape[:-1], self.o, self.k).max(-1).values

    return nn.Sequential(
        nn.Flatten(), nn.LazyLinear(64), nn.ReLU(), *[Highway(64) for _ in range(10)], Maxout(64, 32), nn.Linear(32, 10)
    )


@network(pictures(32), rate=2e-3)
def deformable_by_grid_sample() -> nn.Module:
    class Deformable(nn.Module):
        def __init__(self, i, o):
            super().__init__()
            self.offset, self.conv = nn.Conv2d(i, 2, 3, padding=1), nn.Conv2d(i, o, 3, padding=1)
            nn.init.zeros_(self.offset.weight)
            nn.init.zeros_(self.offset.bias)

        def forward(self, x):
            h, w = x.shape[2:]
            ys, xs = torch.meshgrid(torch.linspace(-1, 1, h), torch.linspace(-1, 1, w), indexing="ij")
            grid = torch.stack([xs, ys], -1).to(x) + 0.1 * torch.tanh(self.offset(x)).permute(0, 2, 3, 1)
            return self.conv(F.grid_sample(x, grid, align_corners=True))

    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1),
        nn.GroupNorm(4, 16),
        nn.ReLU(),
        Deformable(16, 32),
        nn.GroupNorm(8, 32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        Deformable(32, 64),
        nn.GroupNorm(8, 64),
        nn.ReLU(),
        nn.AdaptiveMaxPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


def _clouds(count, generator):
    labels = torch.randint(4, (count,), generator=generator)
    points = torch.randn(count, 64, 3, generator=generator)
    points = torch.where((labels < 2)[:, None, None], F.normalize(points, dim=-1), points.clamp(-1, 1))
    points[..., 2] *= torch.where(labels % 2 == 0, 1.0, 0.3)[:, None]
    return points.transpose(1, 2), labels


def _regularised(out, labels):
    scores, transform = out
    identity = torch.eye(transform.shape[1])
    penalty = (transform @ transform.transpose(1, 2) - identity).norm(dim=(1, 2)).mean()
    return F.nll_loss(scores, labels) + 0.001 * penalty


@network(_clouds, loss=_regularised, rate=2e-3)
def pointnet_with_t_net() -> nn.Module:
    class TNet(nn.Module):
        def __init__(self, k):
            super().__init__()
            self.k, self.conv1, self.conv2 = k, nn.Conv1d(k, 32, 1), nn.Conv1d(32, 64, 1)
            self.fc1, self.fc2 = nn.Linear(64, 32), nn.Linear(32, k * k)
            self.bn1, self.bn2, self.bn3 = nn.BatchNorm1d(32), nn.BatchNorm1d(64), nn.BatchNorm1d(32)

        def forward(self, x):
            x = F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))
            x = torch.max(x, 2, keepdim=True)[0].view(-1, 64)
            x = self.fc2(F.relu(self.bn3(self.fc1(x))))
            return (x + torch.eye(self.k).flatten()[None]).view(-1, self.k, self.k)

    class PointNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.stn, self.fstn = TNet(3), TNet(32)
            self.conv1, self.conv2, self.conv3 = nn.Conv1d(3, 32, 1), nn.Conv1d(32, 64, 1), nn.Conv1d(64, 128, 1)
            self.bn1, self.bn2, self.bn3, self.bn4 = (nn.BatchNorm1d(k) for k in (32, 64, 128, 64))
            self.fc1, self.fc2, self.drop = nn.Linear(128, 64), nn.Linear(64, 4), nn.Dropout(0.3)

        def forward(self, x):
            x = torch.bmm(x.transpose(2, 1), self.stn(x)).transpose(2, 1)
            x = F.relu(self.bn1(self.conv1(x)))
            trans = self.fstn(x)
            x = torch.bmm(x.transpose(2, 1), trans).transpose(2, 1)
            x = self.bn3(self.conv3(F.relu(self.bn2(self.conv2(x)))))
            x = torch.max(x, 2)[0]
            return F.log_softmax(self.fc2(self.drop(F.relu(self.bn4(self.fc1(x))))), dim=1), trans

    return PointNet()


@network(_clouds, rate=2e-3)
def edge_convolutions_of_neighbours() -> nn.Module:
    def knn(x, k):
        inner = -2 * torch.matmul(x.transpose(2, 1), x)
        xx = torch.sum(x**2, dim=1, keepdim=True)
        return (-xx - inner - xx.transpose(2, 1)).topk(k=k, dim=-1)[1]

    def graph_feature(x, k=8):
        b, c, n = x.shape
        idx = (knn(x, k) + torch.arange(0, b).view(-1, 1, 1) * n).view(-1)
        feature = x.transpose(2, 1).contiguous().view(b * n, -1)[idx, :].view(b, n, k, c)
        x = x.transpose(2, 1).view(b, n, 1, c).repeat(1, 1, k, 1)
        return torch.cat((feature - x, x), dim=3).permute(0, 3, 1, 2).contiguous()

    class DGCNN(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Sequential(nn.Conv2d(6, 32, 1, bias=False), nn.BatchNorm2d(32), nn.LeakyReLU(0.2))
            self.conv2 = nn.Sequential(nn.Conv2d(64, 32, 1, bias=False), nn.BatchNorm2d(32), nn.LeakyReLU(0.2))
            self.conv3 = nn.Sequential(nn.Conv1d(64, 64, 1, bias=False), nn.BatchNorm1d(64), nn.LeakyReLU(0.2))
            self.linear = nn.Linear(128, 4)

        def forward(self, x):
            x1 = self.conv1(graph_feature(x)).max(dim=-1)[0]
            x2 = self.conv2(graph_feature(x1)).max(dim=-1)[0]
            x = self.conv3(torch.cat((x1, x2), 1))
            return self.linear(torch.cat([x.amax(-1), x.mean(-1)], 1))

    return DGCNN()


@network(pictures(16), rate=2e-3, steps=80, mode="eval")
def cnn_checkpoint_in_eval() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1, bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(64, 10),
    )


@network(
    lambda n, g: (lambda x, y: (x, x))(*unit_pictures(16)(n, g)),
    rate=3e-3,
    loss=lambda out, x: F.mse_loss(out[0], x) + 0.1 * F.mse_loss(out[1], out[2].detach()),
)
def joint_embedding_prediction() -> nn.Module:
    class IJepa(nn.Module):
        def __init__(self, d=48):
            super().__init__()
            self.patch, self.pos = nn.Linear(16, d), nn.Parameter(0.02 * torch.randn(1, 16, d))
            self.context, self.target = (nn.Sequential(ViTBlock(d, 4), nn.LayerNorm(d)) for _ in range(2))
            self.target.load_state_dict(self.context.state_dict())
            self.target.requires_grad_(False)
            self.mask_token = nn.Parameter(torch.zeros(1, 1, d))
            self.predictor, self.decode = (
                nn.Sequential(ViTBlock(d, 4), nn.LayerNorm(d), nn.Linear(d, d)),
                nn.Linear(d, 16),
            )

        def forward(self, x):
            patches = F.unfold(x, 4, stride=4).transpose(1, 2)
            tokens = self.patch(patches) + self.pos
            with torch.no_grad():
                target = F.layer_norm(self.target(tokens), (tokens.shape[-1],))[:, 10:]
            seen = self.context(tokens[:, :10])
            asked = self.mask_token + self.pos[:, 10:]
            h = self.predictor(torch.cat([seen, asked.expand(len(x), -1, -1)], 1))
            pixels = F.fold(self.decode(torch.cat([seen, h[:, 10:]], 1)).transpose(1, 2), (16, 16), 4, stride=4)
            return pixels, h[:, 10:], target

    return IJepa()
