"""Predicted gradients of weights, against autograd on wide random networks.

The mean over draws of ‖∂ℓ/∂W‖² is compared as a z-score; ``slack`` is what a network of this width may be off by beside
it. With some 40 draws an error of 4 to 8 % in a gradient is seen.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import initscope
from initscope.initializers import LeCun
from initscope.propagate.origins.weights import WeightedSums


def squares(make: Callable[[], nn.Module], x: Tensor, draws: int) -> dict[str, np.ndarray]:
    """Of every layer's weights: squared gradient ratios, the mean over samples, of each drawn network."""
    found: dict[str, list[float]] = {}
    for draw in range(draws):
        torch.manual_seed(100 + draw)
        model = make()
        weights = {name: module.weight for name, module in model.named_modules() if hasattr(module, "in_features")}
        weights |= {name: module.weight for name, module in model.named_modules() if hasattr(module, "in_channels")}
        total = dict.fromkeys(weights, 0.0)
        for sample in x[:, None]:
            output = model(sample)
            v = torch.randn_like(output)
            for name, gradient in zip(weights, torch.autograd.grad((output * v).sum(), list(weights.values()))):
                total[name] += float(gradient.square().sum() / v.square().sum() / sample.square().sum()) / len(x)
        for name, value in total.items():
            found.setdefault(name, []).append(value)
    return {name: np.array(values) for name, values in found.items()}


def deviations(
    make: Callable[[], nn.Module], x: Tensor, draws: int = 40, slack: float = 0.02
) -> dict[str, tuple[float, float]]:
    """Predicted less measured square, over its standard error; and the predicted ratio."""
    torch.manual_seed(7)
    predicted = initscope.predict(make(), x, x.flip(0), gradients=True)
    assert predicted.gradient_ratio is not None
    assert predicted.gradient_ratio_se is not None
    rows = {row.layer: index for index, row in enumerate(predicted.rows)}
    result = {}
    for name, values in squares(make, x, draws).items():
        ratio, drawn = (float(one[rows[name]]) for one in (predicted.gradient_ratio, predicted.gradient_ratio_se))
        error = math.hypot(values.std(ddof=1) / math.sqrt(draws), 2 * ratio * drawn, slack * values.mean())
        result[name] = ((ratio**2 - values.mean()) / error, ratio)
    return result


def agree(make: Callable[[], nn.Module], x: Tensor, **options: float) -> None:
    found = deviations(make, x, **options)  # type: ignore[arg-type]
    wrong = {name: z for name, (z, ratio) in found.items() if not abs(z) < 4}
    assert not wrong, found


def dense(width: int = 256) -> nn.Module:
    sizes = [24, width, width, width, 64]
    layers = [nn.Linear(a, b) for a, b in itertools.pairwise(sizes)]
    return nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.Tanh(), layers[2], nn.GELU(), layers[3])


def signals(samples: int, *shape: int) -> Tensor:
    """Smooth along the last axis, so that positions are correlated."""
    generator = torch.Generator().manual_seed(3)
    return torch.randn((samples, *shape), generator=generator).cumsum(dim=-1)


def test_dense_layers_and_activations() -> None:
    """ReLU, tanh (slopes by formula) and GELU (by quadrature)."""
    agree(dense, signals(4, 24))


def test_convolutions_with_stride_groups_and_averages() -> None:
    """Gradients behind an average are equal at all positions: all covariances between positions count."""
    agree(
        lambda: nn.Sequential(
            nn.Conv2d(3, 128, 3, padding=1), nn.ReLU(), nn.Conv2d(128, 128, 3, stride=2, padding=1, groups=2),
            nn.GroupNorm(1, 128), nn.ReLU(), nn.AvgPool2d(2),
            nn.Conv2d(128, 128, 2, padding=1, padding_mode="circular"), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 64),
        ),
        signals(2, 3, 8, 8),
        draws=30,
    )  # fmt: skip


def test_max_pooling_sends_gradients_to_the_largest() -> None:
    """Drawn windows, behind a ReLU whose slope at the largest is not the mean slope; and a convolution flattened."""
    agree(
        lambda: nn.Sequential(
            nn.Conv1d(3, 128, 3, padding=1), nn.ReLU(), nn.MaxPool1d(2), nn.Conv1d(128, 128, 3), nn.ReLU(),
            nn.AvgPool1d(2), nn.Flatten(), nn.Linear(256, 64),
        ),
        signals(2, 3, 12),
    )  # fmt: skip


class Residual(nn.Module):
    """Three blocks; with ``post``, ReLU also on the sum, so that skips are no longer Gaussian."""

    def __init__(self, post: bool, width: int = 256) -> None:
        super().__init__()
        self.post, self.first, self.last = post, nn.Linear(24, width), nn.Linear(width, 64)
        self.inner, self.outer = (nn.ModuleList(nn.Linear(width, width) for _ in range(3)) for _ in range(2))
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                nn.init.normal_(layer.weight, 0, math.sqrt(2 / layer.in_features))
                nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.first(x))
        for inner, outer in zip(self.inner, self.outer, strict=True):
            x = F.relu(x + outer(F.relu(inner(x)))) if self.post else x + outer(F.relu(inner(x)))
        y: Tensor = self.last(x)
        return y


@pytest.mark.parametrize("post", [True, False])
def test_residual_networks(post: bool) -> None:
    """Slopes along a skip are those of one channel: their products are no products of means."""
    agree(lambda: Residual(post), signals(4, 24))


class Block(nn.Module):
    """Attention with rotated queries and keys, and a gated or plain part behind it; norms before or after."""

    def __init__(self, width: int, pre: bool) -> None:
        super().__init__()
        self.pre = pre
        self.q, self.k, self.v, self.o, self.gate, self.up, self.down = (nn.Linear(width, width) for _ in range(7))
        self.first, self.second = (nn.LayerNorm(width), nn.LayerNorm(width)) if not pre else (nn.RMSNorm(width),) * 2

    def attention(self, x: Tensor) -> Tensor:
        n, tokens, width = x.shape
        q, k, v = (layer(x).reshape(n, tokens, 4, -1).transpose(1, 2) for layer in (self.q, self.k, self.v))
        angle = torch.arange(tokens)[:, None] * torch.logspace(0, -2, q.shape[-1] // 2)
        q, k = (_rotated(one, angle) for one in (q, k))
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=self.pre)
        out: Tensor = self.o(heads.transpose(1, 2).reshape(n, tokens, width))
        return out

    def forward(self, x: Tensor) -> Tensor:
        if self.pre:
            x = x + self.attention(self.first(x))
            inner = self.second(x)
            return x + self.down(F.silu(self.gate(inner)) * self.up(inner))
        x = self.first(x + self.attention(x))
        y: Tensor = self.second(x + self.down(F.gelu(self.up(x))) + self.gate(x))
        return y


def _rotated(x: Tensor, angle: Tensor) -> Tensor:
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], dim=-1)


class Tokens(nn.Module):
    def __init__(self, pre: bool, width: int = 512, std: float = 0.055) -> None:
        super().__init__()
        self.embed, self.head = nn.Linear(16, width), nn.Linear(width, 64)
        self.blocks, self.norm = nn.ModuleList(Block(width, pre) for _ in range(2)), nn.LayerNorm(width)
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                nn.init.normal_(layer.weight, 0, std)
                nn.init.zeros_(layer.bias)
        nn.init.normal_(self.embed.weight, 0, 0.25)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        y: Tensor = self.head(self.norm(x))
        return y


@pytest.mark.parametrize("pre", [True, False])
def test_transformers(pre: bool) -> None:
    """Values by the transpose of the weights, queries and keys by the derivative of the softmax, drawn."""
    agree(lambda: Tokens(pre), signals(2, 6, 16), draws=24, slack=0.04)


def test_queries_of_the_last_block_have_much_smaller_gradients_than_values() -> None:
    """What attention does to gradients [Noci2022]_: with nearly equal tokens queries see next to nothing."""
    alike = signals(2, 1, 16).expand(2, 6, 16) + 0.1 * signals(2, 6, 16)
    torch.manual_seed(0)
    predicted = initscope.predict(Tokens(True), alike, alike.flip(0), gradients=True)
    assert predicted.gradient_ratio is not None
    ratio = {row.layer: value for row, value in zip(predicted.rows, predicted.gradient_ratio, strict=True)}
    assert ratio["blocks.1.q"] < 0.2 * ratio["blocks.1.v"]


def test_a_wrong_backward_variance_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same check fails when gradients grow by 10 % at every layer of weights."""
    right = WeightedSums.back
    monkeypatch.setattr(WeightedSums, "back", lambda *arguments: 1.1 * right(*arguments))
    found = deviations(dense, signals(4, 24))
    assert max(abs(z) for z, _ in found.values()) > 4


def test_a_step_without_a_rule_leaves_out_what_is_before_it_and_says_so() -> None:
    """Batch norm in training couples samples; the layer behind it has a gradient all the same."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(24, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 64))
    x = signals(8, 24)
    predicted = initscope.predict(model, x, x.flip(0), gradients=True)
    assert predicted.gradient_ratio is not None
    assert math.isnan(predicted.gradient_ratio[1])
    assert predicted.gradient_ratio[4] > 0
    assert "no gradient predicted: " in predicted.rows[1].note
    assert "no gradient predicted" not in predicted.rows[4].note
    assert predicted.table()[1]["gradient_ratio_predicted"] is None


def test_sampled_gradients_see_the_statistics_of_the_whole_batch() -> None:
    """Of the last layer G = v hᵀ: its gradient is as long as h, also where the batch norm before it is of all samples.

    Those that gradients are predicted on are thirty times smaller than the others.
    """
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 144, 4))
    x, y = signals(6, 1, 14, 14), 30 * signals(6, 1, 14, 14)
    predicted = initscope.predict(model, x, y, gradients=True)
    assert predicted.gradient_ratio is not None
    assert predicted.rows[4].status == "sampled"
    expected = math.sqrt(np.square(predicted.norm_ratio[4]).mean())
    np.testing.assert_allclose(predicted.gradient_ratio[5], expected, rtol=1e-5)


def test_parameters_and_their_gradients_are_left_as_they_were() -> None:
    torch.manual_seed(0)
    model = Tokens(True, width=32)
    model.head.weight.requires_grad_(False)
    initscope.predict(model, signals(4, 6, 16), signals(4, 6, 16).flip(0), gradients=True)
    assert [name for name, one in model.named_parameters() if not one.requires_grad] == ["head.weight"]
    assert all(one.grad is None for one in model.parameters())


def test_large_images_have_none_and_say_why() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 1600, 4))
    x = signals(2, 1, 40, 40)
    predicted = initscope.predict(model, x, x.flip(0), gradients=True)
    assert predicted.gradient_ratio is not None
    assert math.isnan(predicted.gradient_ratio[1])
    assert "1600 positions" in predicted.rows[1].note


def test_outputs_of_many_positions_have_none_and_take_no_memory() -> None:
    """Covariances between 65,536 positions would be 32 GiB."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.ReLU())
    x = signals(2, 1, 256, 256)
    predicted = initscope.predict(model, x, x.flip(0), gradients=True)
    assert predicted.gradient_ratio is not None
    assert math.isnan(predicted.gradient_ratio[1])
    assert "65536 positions" in predicted.rows[1].note


def test_a_thousand_steps_are_no_recursion():
    """LeCun's law keeps variances of values and gradients: at every layer E‖G‖² = ‖v‖²‖x‖², whatever the depth."""
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(8, 8, bias=False) for _ in range(1100)])
    predicted = initscope.predict(model, torch.randn(4, 8), torch.randn(4, 8), LeCun(), gradients=True)
    np.testing.assert_allclose(predicted.gradient_ratio[1:], 1.0, rtol=1e-6)


class _Pooled(nn.Module):
    """Sampled maps of one position, with or without a mean over that position."""

    def __init__(self, pool: nn.Module) -> None:
        super().__init__()
        self.conv, self.pool, self.head = nn.Conv2d(3, 8, 4), pool, nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.pool(torch.sin(torch.cumsum(self.conv(x), 1)).relu()).flatten(1))  # type: ignore[no-any-return]


def test_a_mean_over_one_position_changes_no_gradient() -> None:
    """As at the end of a ResNet on small images: it once had itself as origin, and the recursion did not end."""
    images = torch.rand(8, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    found = []
    for pool in (nn.AdaptiveAvgPool2d(1), nn.Identity()):
        torch.manual_seed(0)
        gradients = initscope.predict(_Pooled(pool), images[:4], images[4:], gradients=True).gradient_ratio
        assert gradients is not None
        found.append(gradients[-1])
    assert found[0] == pytest.approx(found[1])
    assert found[0] > 0
