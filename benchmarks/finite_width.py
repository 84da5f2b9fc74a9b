"""`predict(..., finite_width=True)` against drawn networks of 40 architectures: the table of ``docs/finite_width.rst``.

    python benchmarks/finite_width.py [NAME …]      # only these networks, without writing the table

The whole takes some five minutes of one core.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import initscope
from initscope.initializers import He

DRAWS = 200
TABLE = Path(__file__).parents[1] / "docs" / "finite_width_table.txt"


def dense(width: int, depth: int, activation: type[nn.Module] = nn.ReLU, *, bias: bool = False) -> nn.Module:
    layers: list[nn.Module] = []
    inputs = 40
    for _ in range(depth):
        layers += [nn.Linear(inputs, width, bias=bias), activation()]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(width, width, bias=bias))


def conv(inputs: int, outputs: int, size: int = 3, **options: object) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, size, padding=size // 2, bias=False, **options)  # type: ignore[arg-type]


def plain(width: int, depth: int, activation: type[nn.Module] = nn.ReLU, **options: object) -> nn.Module:
    layers: list[nn.Module] = []
    inputs = 3
    for _ in range(depth):
        layers += [conv(inputs, width, **options), activation()]
        inputs = width
    return nn.Sequential(*layers)


class Residual(nn.Module):
    """x + branch(x)."""

    def __init__(self, *branch: nn.Module) -> None:
        super().__init__()
        self.branch = nn.Sequential(*branch)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.branch(x)


class Gated(nn.Module):
    """SwiGLU."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Joined(nn.Module):
    """Channels of the input and of the branch, one after the other."""

    def __init__(self, *branch: nn.Module) -> None:
        super().__init__()
        self.branch = nn.Sequential(*branch)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.branch(x)], dim=1)


class WrittenNorm(nn.Module):
    """RMS norm in ops of its own."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


def residual_dense(width: int, norm: Callable[[], nn.Module], blocks: int = 3) -> nn.Module:
    return nn.Sequential(
        nn.Linear(40, width, bias=False),
        *(Residual(norm(), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)) for _ in range(blocks)),
        norm(),
        nn.Linear(width, width),
    )


def residual_images(width: int, norm: Callable[[], nn.Module], *, pooled: bool = False) -> nn.Module:
    blocks = [Residual(norm(), nn.ReLU(), conv(width, width), norm(), nn.ReLU(), conv(width, width)) for _ in range(2)]
    end = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 50)) if pooled else (conv(width, width),)
    return nn.Sequential(conv(3, width, stride=4 if pooled else 1), *blocks, norm(), nn.ReLU(), *end)


ARCHITECTURES: dict[str, Callable[[], nn.Module]] = {
    "dense 100 × 2, ReLU": lambda: dense(100, 2),
    "dense 100 × 6, ReLU": lambda: dense(100, 6),
    "dense 64 × 4, ReLU": lambda: dense(64, 4),
    "dense 100 × 4, tanh": lambda: dense(100, 4, nn.Tanh),
    "dense 100 × 4, GELU": lambda: dense(100, 4, nn.GELU),
    "dense 100 × 4, SiLU, biases": lambda: dense(100, 4, nn.SiLU, bias=True),
    "dense 100 × 4, leaky ReLU": lambda: dense(100, 4, nn.LeakyReLU),
    "dense 100 × 4, ELU": lambda: dense(100, 4, nn.ELU),
    "dense 100 × 4, sigmoid": lambda: dense(100, 4, nn.Sigmoid),
    "dense 30-200-60": lambda: nn.Sequential(
        nn.Linear(40, 30), nn.ReLU(), nn.Linear(30, 200), nn.ReLU(), nn.Linear(200, 60), nn.ReLU()
    ),
    "dense, layer norm before ReLU": lambda: nn.Sequential(
        nn.Linear(40, 100),
        nn.LayerNorm(100),
        nn.ReLU(),
        nn.Linear(100, 100),
        nn.LayerNorm(100),
        nn.ReLU(),
        nn.Linear(100, 100),
    ),
    "dense, layer norm after GELU": lambda: nn.Sequential(
        nn.Linear(40, 100),
        nn.GELU(),
        nn.LayerNorm(100),
        nn.Linear(100, 100),
        nn.GELU(),
        nn.LayerNorm(100),
        nn.Linear(100, 100),
    ),
    "dense, RMS norm": lambda: nn.Sequential(
        nn.Linear(40, 100), nn.RMSNorm(100), nn.ReLU(), nn.Linear(100, 100), nn.RMSNorm(100), nn.Linear(100, 100)
    ),
    "dense, batch norm (eval)": lambda: nn.Sequential(
        nn.Linear(40, 100), nn.BatchNorm1d(100), nn.ReLU(), nn.Linear(100, 100), nn.BatchNorm1d(100), nn.ReLU()
    ).eval(),
    "residual dense, no norm": lambda: residual_dense(64, nn.Identity),
    "residual dense, layer norm": lambda: residual_dense(64, lambda: nn.LayerNorm(64)),
    "residual dense, RMS norm": lambda: residual_dense(64, lambda: nn.RMSNorm(64)),
    "residual dense, written RMS norm": lambda: residual_dense(64, WrittenNorm),
    "residual, gated (SwiGLU)": lambda: nn.Sequential(
        nn.Linear(40, 64, bias=False), *(Residual(nn.RMSNorm(64), Gated(64, 128)) for _ in range(3)), nn.RMSNorm(64)
    ),
    "convolutions 64 × 2": lambda: plain(64, 2),
    "convolutions 64 × 5": lambda: plain(64, 5),
    "convolutions 96 × 3, tanh": lambda: plain(96, 3, nn.Tanh),
    "convolutions 64 × 3, GELU": lambda: plain(64, 3, nn.GELU),
    "convolutions 5×5": lambda: nn.Sequential(conv(3, 64, 5), nn.ReLU(), conv(64, 64, 5), nn.ReLU()),
    "convolutions, stride 2": lambda: nn.Sequential(
        conv(3, 48, stride=2), nn.ReLU(), conv(48, 96, stride=2), nn.ReLU(), conv(96, 96), nn.ReLU()
    ),
    "convolutions, dilated": lambda: nn.Sequential(
        conv(3, 64), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=2, dilation=2), nn.ReLU(), conv(64, 64)
    ),
    "convolutions, circular": lambda: plain(64, 3, padding_mode="circular"),
    "convolutions, flattened": lambda: nn.Sequential(
        plain(64, 2), nn.Flatten(), nn.Linear(64 * 144, 100), nn.ReLU(), nn.Linear(100, 50)
    ),
    "convolutions, average pooling": lambda: nn.Sequential(
        conv(3, 64), nn.ReLU(), nn.AvgPool2d(2), conv(64, 64), nn.ReLU(), nn.AvgPool2d(2), conv(64, 64)
    ),
    "convolutions, global pooling": lambda: nn.Sequential(
        conv(3, 64, stride=2),
        nn.ReLU(),
        conv(64, 64),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 50),
    ),
    "convolutions, mean of positions": lambda: nn.Sequential(
        nn.Conv1d(3, 64, 3), nn.ReLU(), nn.Conv1d(64, 64, 3), nn.GELU(), nn.AdaptiveAvgPool1d(1), nn.Flatten()
    ),
    "convolutions, group norm": lambda: nn.Sequential(
        conv(3, 64), nn.GroupNorm(1, 64), nn.ReLU(), conv(64, 64), nn.GroupNorm(1, 64), nn.ReLU(), conv(64, 64)
    ),
    "convolutions, group norm of two": lambda: nn.Sequential(
        conv(3, 64), nn.GroupNorm(2, 64), nn.ReLU(), conv(64, 64), nn.GroupNorm(2, 64), nn.ReLU(), conv(64, 64)
    ),
    "convolutions, batch norm (eval)": lambda: nn.Sequential(
        conv(3, 64), nn.BatchNorm2d(64), nn.ReLU(), conv(64, 64), nn.BatchNorm2d(64), nn.ReLU()
    ).eval(),
    "depthwise separable": lambda: nn.Sequential(
        conv(3, 64),
        nn.ReLU(),
        conv(64, 64, groups=64),
        conv(64, 64, 1),
        nn.ReLU(),
        conv(64, 64, groups=64),
        conv(64, 64, 1),
    ),
    "residual, pre-activation": lambda: residual_images(48, nn.Identity),
    "residual, pre-activation, batch norm (eval)": lambda: residual_images(48, lambda: nn.BatchNorm2d(48)).eval(),
    "residual, pre-activation, pooled": lambda: residual_images(48, nn.Identity, pooled=True),
    "residual, pre-activation, group norm": lambda: residual_images(48, lambda: nn.GroupNorm(1, 48)),
    "channels put one after the other": lambda: nn.Sequential(
        conv(3, 48), Joined(nn.ReLU(), conv(48, 48)), nn.ReLU(), conv(96, 64), nn.ReLU(), conv(64, 64)
    ),
}


def pairs_for(model: nn.Module) -> tuple[Tensor, Tensor]:
    """Six pairs of cosines between .3 and .95: of vectors, sequences or smooth images."""
    generator = torch.Generator().manual_seed(0)
    first = next(module for module in model.modules() if isinstance(module, (nn.Linear, nn.Conv2d, nn.Conv1d)))
    share = torch.tensor([0.3, 0.5, 0.6, 0.7, 0.8, 0.95])
    if isinstance(first, nn.Linear):
        x, z = torch.randn(2, 6, 40, generator=generator)
    elif isinstance(first, nn.Conv1d):
        x, z = F.avg_pool1d(torch.randn(12, 3, 20, generator=generator), 3, 1, 1).split(6)
    else:
        x, z = F.avg_pool2d(torch.randn(12, 3, 12, 12, generator=generator), 3, 1, 1).split(6)
    share = share.reshape(-1, *[1] * (x.dim() - 1))
    return x, share * x + (1 - share.square()).sqrt() * z


def compared(model: nn.Module) -> dict[str, np.ndarray]:
    """Ratios of predicted to observed spreads, and z-scores of the mean, of every row."""
    x, y = pairs_for(model)
    began = time.process_time()
    predicted = initscope.predict(model, x, y, He(), finite_width=True)
    seconds = time.process_time() - began
    began = time.process_time()
    runs = [initscope.measure(model, x, y, initializer=He(), draws=1, seed=seed) for seed in range(DRAWS)]
    simulated = time.process_time() - began
    cosines, sizes = (np.array([getattr(run, name) for run in runs]) for name in ("cosine", "rms_ratio"))
    sd = cosines.std(axis=0, ddof=1)
    rms = sizes.std(axis=0, ddof=1)
    rms[rms < 1e-3 * sizes.mean(axis=0)] = np.nan  # a norm fixed it
    error = sd / DRAWS**0.5
    rows = slice(1, None)
    mean = cosines.mean(axis=0)

    def z_scores(difference: np.ndarray) -> np.ndarray:
        known = error > 1e-7
        return np.where(known, difference / np.where(known, error, 1), np.nan)[rows]

    return {
        "cosine": _ratio(predicted.cosine_sd, sd)[rows],
        "rms": _ratio(predicted.rms_sd, rms)[rows],
        "limit": z_scores(mean - predicted.cosine),
        "shifted": z_scores(mean - predicted.cosine - predicted.cosine_shift),
        "seconds": np.array([seconds, simulated]),
    }


def _ratio(predicted: np.ndarray, observed: np.ndarray) -> np.ndarray:
    known = observed > 1e-6
    squares = [np.where(known, side**2, 0).sum(axis=1) for side in (predicted, np.nan_to_num(observed))]
    return np.sqrt(np.where(known.any(axis=1), squares[0], np.nan) / squares[1])


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    everything: dict[str, list[np.ndarray]] = {}
    lines = [f"{'network':44}  rows  {'sd of cosines':15}{'sd of sizes':15}{'z, limit':>10}{'z, width':>10}   seconds"]
    for name in names or ARCHITECTURES:
        found = compared(ARCHITECTURES[name]())
        for key, values in found.items():
            everything.setdefault(key, []).append(values.ravel())
        low, high, least, most = (
            function(found[key]) for key in ("cosine", "rms") for function in (np.nanmin, np.nanmax)
        )
        limit, shifted = (np.sqrt(np.nanmean(found[key] ** 2)) for key in ("limit", "shifted"))
        covered = f"{np.isfinite(found['cosine']).sum()}/{len(found['cosine'])}"
        lines.append(
            f"{name:44}{covered:>6}  {f'{low:.2f} to {high:.2f}':15}{f'{least:.2f} to {most:.2f}':15}"
            f"{limit:10.2f}{shifted:10.2f}   {found['seconds'][0]:.1f}, {found['seconds'][1]:.1f}"
        )
        print(lines[-1], flush=True)
    lines.append("")
    for key, label in (("cosine", "sd of cosines"), ("rms", "sd of sizes")):
        ratios = np.concatenate(everything[key])
        known = ratios[np.isfinite(ratios)]
        low, high = np.quantile(known, (0.05, 0.95))
        lines.append(
            f"{label}: {len(known)} rows, {np.mean(np.abs(known - 1) < 0.15):.1%} within 15 %, "
            f"median {np.median(known):.3f}, 5 to 95 %: {low:.2f} to {high:.2f}"
        )
    for key, label in (("limit", "limit"), ("shifted", "mean at these widths")):
        z = np.concatenate(everything[key])
        z = z[np.isfinite(z)]
        lines.append(f"z of the {label}: mean {z.mean():.2f}, spread {z.std():.2f}, {np.mean(abs(z) < 2):.1%} within 2")
    print("\n".join(lines[-5:]))
    if not names:
        TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
