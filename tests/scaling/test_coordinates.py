"""The coordinate check: a model in μP passes, and each of three mistakes is named."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from initscope.errors import InputError
from initscope.scaling import coordinates, depth_coordinates
from initscope.scaling.coordinate_results import SCORES, CoordinateRow, width_findings
from initscope.testing import assert_coordinates

TOKENS, VOCABULARY, HEADS = 8, 32, 2
WIDTHS = (32, 64, 128, 256)


class Model(nn.Module):
    """One block of attention with a head, in μP; ``wrong`` names what is left as usual."""

    def __init__(self, width, wrong=""):
        super().__init__()
        self.table, self.norm, self.end = nn.Embedding(VOCABULARY, width), nn.RMSNorm(width), nn.RMSNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(width, 2 * width, bias=False), nn.Linear(2 * width, width, bias=False)
        self.head, self.wrong = nn.Linear(width, VOCABULARY, bias=False), wrong
        for layer in (self.q, self.k, self.v, self.o, self.up, self.down):
            nn.init.normal_(layer.weight, std=layer.in_features**-0.5)
        nn.init.normal_(self.table.weight, std=width**-0.5 if wrong == "embedding" else 1.0)
        nn.init.normal_(self.head.weight, std=0.2 if wrong == "output" else 1 / width)

    def forward(self, ids):
        x = self.table(ids)
        read = self.norm(x)
        q, k, v = (layer(read).view(*x.shape[:2], HEADS, -1).transpose(1, 2) for layer in (self.q, self.k, self.v))
        size = q.shape[-1]
        scale = {"attention": 1.0, "root": size**-0.5}.get(self.wrong, 8 / size)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)
        x = x + self.o(mixed.transpose(1, 2).reshape(x.shape))
        x = x + self.down(F.relu(self.up(self.end(x))))
        return self.head(self.end(x))


def ids(seed=0):
    return torch.randint(VOCABULARY, (16, TOKENS), generator=torch.Generator().manual_seed(seed))


def check(wrong="", **options):
    return coordinates(lambda width: Model(width, wrong), ids(), widths=WIDTHS, **({"steps": 3} | options))


def test_a_model_in_mup_passes():
    """Sizes do not depend on the width, predicted exponents are those of the start, and the assertion agrees."""
    found = check()
    assert found.passes, found.findings
    start = np.array([row.measured[0] for row in found.rows])
    told = np.array([row.predicted for row in found.rows])
    known = np.isfinite(told)
    assert known.sum() > 10
    assert np.abs(told - start)[known].max() < 0.12
    head = next(row for row in found.rows if row.layer == "head")
    assert abs(head.predicted + 0.5) < 4 * head.predicted_se < 0.08
    assert_coordinates(found)
    assert found.plot().get_xlabel() == "width"
    assert found.to_dict()["passes"]


@pytest.mark.parametrize(
    ("wrong", "layer", "advice"),
    [("attention", "scaled_dot_product_attention", "1/d attention"), ("output", "head", "output multiplier"),
     ("root", "scaled_dot_product_attention", "will grow like width^0."),
     ("embedding", "table", "scale the embedding")],
)  # fmt: skip
def test_mistakes_are_named(wrong, layer, advice):
    found = check(wrong)
    assert not found.passes
    assert any(layer in finding and advice in finding for finding in found.findings), found.findings
    with pytest.raises(AssertionError, match="width"):
        assert_coordinates(found)


def constant_stack(width):
    """Three layers of deviation .02 everywhere: each multiplies sizes by .02·√fan-in."""
    layers = [nn.Linear(6, width, bias=False), *(nn.Linear(width, width, bias=False) for _ in range(2))]
    for layer in layers:
        nn.init.normal_(layer.weight, std=0.02)
    return nn.Sequential(*layers)


def test_exponents_of_a_stack_with_constant_deviations():
    x = torch.randn(8, 6, generator=torch.Generator().manual_seed(1))
    found = coordinates(constant_stack, x, widths=(64, 256), steps=0)
    errors = np.array([row.predicted_se for row in found.rows[1:]])
    assert (errors < 0.02).all()
    assert (np.abs([row.predicted for row in found.rows[1:]] - np.array([0, 0.5, 1])) < 5 * errors).all()
    assert any("width^" in finding for finding in found.findings)


def test_errors_of_predicted_exponents_are_those_of_the_weights():
    """40 sets of four models at four widths, against the exact exponents 0, 1/2 and 1.

    Errors from four models each have about eight degrees of freedom, for which Student's z has a root mean square of
    1.15; 40 of them know theirs to 13 %. An error that is wrong by a factor of 1.5 would be found.
    """
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(1))
    z = []
    for seed in range(40):
        rows = coordinates(constant_stack, x, widths=(8, 16, 32, 64), steps=0, draws=1, seed=1000 * seed).rows[1:]
        z.append([(row.predicted - exact) / row.predicted_se for row, exact in zip(rows, (0, 0.5, 1), strict=True)])
    spread = np.sqrt(np.mean(np.square(z), axis=0))
    assert ((spread > 1.15 / 1.5) & (spread < 1.15 * 1.5)).all(), spread


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: coordinates(Model, ids(), widths=(8, 8)), "two different widths"),
        (lambda: coordinates(lambda: Model(8), ids(), widths=(8, 16)), "has no parameter for the width"),
        (lambda: coordinates(lambda width: 3, ids(), widths=(8, 16)), "must return a torch.nn.Module"),
        (lambda: coordinates(Model, ids()[:1], widths=(8, 16)), "at least two samples"),
    ],
)
def test_bad_input_is_told(call, told):
    with pytest.raises(InputError, match=told):
        call()


def test_no_steps_are_a_check_of_the_start_alone():
    found = check(steps=0)
    assert len(found.rows[0].measured) == 1
    assert math.isfinite(found.rows[0].predicted)


class Deep(nn.Module):
    """A stack of normed branches, whose outputs are drawn ``over`` a factor."""

    def __init__(self, width, depth, over):
        super().__init__()
        self.first, self.norm = nn.Linear(6, width, bias=False), nn.RMSNorm(width)
        self.layers = nn.ModuleList([nn.Linear(width, width, bias=False) for _ in range(depth)])
        self.head = nn.Linear(width, 5, bias=False)
        nn.init.normal_(self.first.weight, std=6**-0.5)
        nn.init.normal_(self.head.weight, std=1 / width)
        for layer in self.layers:
            nn.init.normal_(layer.weight, std=2 * width**-0.5 / over)

    def forward(self, x):
        x = self.first(x)
        for layer in self.layers:
            x = x + layer(self.norm(x))
        return self.head(self.norm(x))


def test_depth_of_a_factory():
    """Branches of size 2 make the stream √(1 + 4·depth): fitted at 4, 8, 16 blocks .49; over √depth it stays at √5."""
    x = torch.randn(8, 6, generator=torch.Generator().manual_seed(2))
    options = {"width": 128, "depths": (4, 8, 16), "steps": 1}
    options["optimizer"] = lambda model: torch.optim.SGD(model.parameters(), lr=1e-6)
    grown = depth_coordinates(lambda width, depth: Deep(width, depth, 1), x, **options)
    kept = depth_coordinates(lambda width, depth: Deep(width, depth, math.sqrt(depth)), x, **options)
    exact = float(np.polyfit(np.log([4, 8, 16]), 0.5 * np.log([17, 33, 65]), 1)[0])
    stream = grown.rows[0]
    assert [row.layer for row in grown.rows] == ["stream", "last branch's share", "output"]
    assert abs(stream.predicted - exact) < 0.05
    assert abs(stream.measured[0] - exact) < 0.08
    assert abs(grown.rows[1].predicted + exact) < 0.05
    assert "the stream grows like depth^0." in grown.findings[0]
    assert kept.passes, kept.findings
    assert abs(kept.rows[0].predicted) < 0.05
    assert kept.to_dict()["depths"] == [4, 8, 16]
    assert kept.plot().get_xlabel() == "depth"
    with pytest.raises(AssertionError, match="depth"):
        assert_coordinates(grown)


@pytest.mark.parametrize(
    ("factory", "depths", "told"),
    [
        (lambda width: Deep(width, 2, 1), (2, 4), "has no parameter depth"),
        (lambda width, depth: Deep(width, depth, 1), (2, 2), "two different depths"),
        (lambda width, depth: Deep(width, depth, 1), (0, 2), "depths"),
    ],
)
def test_bad_depths_are_told(factory, depths, told):
    with pytest.raises(InputError, match=told):
        depth_coordinates(factory, torch.ones(4, 6), width=16, depths=depths)


def test_inputs_that_the_model_cannot_take_are_told():
    """In the words of the other verbs, without torch's own: images for a network of vectors."""
    pictures = torch.rand(4, 1, 8, 8)
    with pytest.raises(InputError, match=r"fails on inputs of shape \(4, 1, 8, 8\).*Linear\(in_features=64"):
        coordinates(lambda width: nn.Sequential(nn.Linear(64, width), nn.ReLU()), pictures, widths=[8, 16])


@pytest.mark.parametrize(("start", "error", "named"), [(-0.2, 0.1, False), (-0.2, 0.01, True), (-0.2, math.nan, True),
                                                       (-0.4, 0.01, False), (-0.4, 0.2, False)])  # fmt: skip
def test_scores_are_named_only_beyond_two_errors(start, error, named):
    """Scores must start below width^-0.25: -0.2 is above it by half an error of 0.1, and by five errors of 0.01."""
    row = CoordinateRow("attention", SCORES, SCORES, math.nan, math.nan, (start, 0.0), (error, 0.0))
    assert bool(width_findings([row], [()], 0.2, frozenset({0}))) is named


@pytest.mark.parametrize("place", [0, -1])
def test_exponents_are_named_only_beyond_two_errors(place):
    """0.3 exceeds a tolerance of 0.2 by one error of 0.1, and by ten errors of 0.01."""
    for error, named in ((0.1, False), (0.01, True), (math.nan, True)):
        measured, errors = [0.0, 0.0], [0.0, 0.0]
        measured[place], errors[place] = 0.3, error
        row = CoordinateRow("layer", "Linear", "weights", math.nan, math.nan, tuple(measured), tuple(errors))
        assert bool(width_findings([row], [()], 0.2)) is named


def test_one_draw_has_no_error():
    found = check(steps=0, draws=1)
    assert all(math.isnan(row.errors[0]) for row in found.rows)
