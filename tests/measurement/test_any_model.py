"""Models of the kinds people have: every step has a row, and what can be measured is finite."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from initscope.measurement import observe


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Conv2d(3, 8, 3, 2, 1), nn.ConvTranspose2d(8, 4, 2, 2)
        self.out = nn.Conv2d(7, 2, 1)

    def forward(self, x):
        inner = F.gelu(self.down(x))
        return self.out(torch.cat([x, F.leaky_relu(self.up(inner))], 1))


class Attention(nn.Module):
    """A small ViT block: class token, heads by reshape and einsum, chunks."""

    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, 8, 4, 4)
        self.token, self.position = nn.Parameter(torch.randn(1, 1, 8)), nn.Parameter(torch.randn(1, 5, 8))
        self.qkv, self.norm, self.head = nn.Linear(8, 24), nn.LayerNorm(8), nn.Linear(8, 3)

    def forward(self, x):
        tokens = self.patch(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(x.shape[0], -1, -1), tokens], 1) + self.position
        q, k, v = self.qkv(self.norm(tokens)).chunk(3, dim=-1)
        scores = torch.softmax(torch.einsum("bid,bjd->bij", q, k) / q.size(-1) ** 0.5, -1)
        return self.head((tokens + scores @ v)[:, 0])


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(4, 6, batch_first=True), nn.Linear(6, 2)

    def forward(self, x):
        steps, (hidden, _) = self.lstm(x)
        return {"logits": self.head(steps[:, -1]), "hidden": hidden}


class Loop(nn.Module):
    """As many steps as the data ask for."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 5)

    def forward(self, x):
        while x.norm() > 1:
            x = torch.tanh(self.fc(x)) * 0.5
        return x


class Dense(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4 * (i + 1), 4) for i in range(4))

    def forward(self, x):
        features = [x]
        for layer in self.layers:
            features.append(F.relu(layer(torch.cat(features, 1)), inplace=True))
        return tuple(features[1:])


IMAGES = (16, 3, 8, 8)
CASES = [
    (UNet, IMAGES, ["down", "up", "out"]),
    (Attention, IMAGES, ["patch", "qkv", "head"]),
    (Recurrent, (10, 7, 4), ["head"]),
    (Loop, (10, 5), ["fc"]),
    (Dense, (10, 4), ["layers.0"]),
    (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2), (10, 5, 8), []),
]


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize(("build", "shape", "weighted"), CASES, ids=lambda value: getattr(value, "__name__", None))
@pytest.mark.parametrize("mode", ["train", "eval"])
def test_rows_are_complete(build, shape, weighted, mode):
    torch.manual_seed(0)
    seen = observe(build(), torch.randn(shape), mode=mode)
    names = [row.layer for row in seen.rows]
    assert len(set(names)) == len(names)
    for index, row in enumerate(seen.rows):
        assert row.note or np.isfinite(seen.norm_ratio[index]).all(), row
    for name in weighted:
        assert np.isfinite(seen.gradient_ratio[names.index(name)]).all(), name


def test_half_precision_and_models_without_parameters():
    """Non-negative weights and inputs: no sample switches all units off, which would leave it without a cosine."""
    model = nn.Sequential(nn.Linear(6, 6), nn.ReLU()).to(torch.bfloat16)
    model[0].weight.data.abs_()
    model[0].bias.data.abs_()
    assert np.isfinite(observe(model, torch.rand(8, 6) + 0.1).cosine).all()
    assert np.isfinite(observe(nn.Sequential(nn.ReLU()), torch.rand(8, 6) + 0.1).cosine).all()


class Labels(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 4)

    def forward(self, x):
        return self.fc(x).argmax(dim=1)


class Undifferentiable(Labels):
    """Runs, but autograd refuses the write into one of several views."""

    def forward(self, x):
        first, second = self.fc(x).chunk(2, dim=1)
        return first.relu_() + second


@dataclass
class Answer:
    logits: torch.Tensor


class Wrapped(Labels):
    def forward(self, x):
        return Answer(self.fc(x))


def test_what_has_no_gradient_is_measured_all_the_same():
    for build in (Labels, Undifferentiable):
        seen = observe(build(), torch.randn(8, 6))
        assert np.isfinite(seen.cosine[1]).all()
        assert np.isnan(seen.gradient_ratio).all()
        assert "no gradient" in seen.rows[1].note
        assert seen.samples == 8
    assert np.isfinite(observe(Wrapped(), torch.randn(8, 6)).gradient_ratio[1]).all()


class Overwriting(nn.Module):
    """Writes into the input of its second layer once that has run, or works on a new tensor instead."""

    def __init__(self, in_place):
        super().__init__()
        self.first, self.second, self.in_place = nn.Linear(6, 5), nn.Linear(5, 5), in_place

    def forward(self, x):
        h = self.first(x)
        out = self.second(h)
        return out + (h.add_(1.0) if self.in_place else h + 1.0)


def test_the_gradient_of_a_layer_whose_input_is_overwritten_is_never_a_wrong_number():
    """It is that of the same model without the write, or it is missing with a note; other layers keep theirs."""
    x, seen = torch.randn(16, 6), {}
    model = Overwriting(in_place=False)
    for model.in_place in (False, True):
        found = observe(model, x, pairs=6)
        seen[model.in_place] = {row.layer: (row.note, found.gradient_cosine[i]) for i, row in enumerate(found.rows)}
    assert np.isfinite(seen[False]["second"][1]).all()
    np.testing.assert_allclose(seen[True]["first"][1], seen[False]["first"][1], rtol=1e-6)
    note, cosine = seen[True]["second"]
    if np.isnan(cosine).all():
        assert "overwritten" in note
    else:
        np.testing.assert_allclose(cosine, seen[False]["second"][1], rtol=1e-6)
