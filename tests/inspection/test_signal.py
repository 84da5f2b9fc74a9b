"""Where the signal runs: the main path, what carries it, and what only steers; and rows folded to blocks."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import initscope
from initscope.inspection.evidence import Evidence
from initscope.measurement import observe
from initscope.rendering.folding import block_names, fold


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def evidence(model, data):
    torch.manual_seed(0)
    return Evidence(observe(model, data, pairs=8, opened=True))


def names(found, indices):
    return {found.seen.rows[index].layer for index in indices}


class RootMeanSquare(nn.Module):
    """A norm written out, as in many language models."""

    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        scores = self.query(x) @ self.key(x).mT / x.shape[-1] ** 0.5
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        return self.out(scores.masked_fill(hidden, -torch.inf).softmax(-1) @ self.value(x))


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.before, self.attention, self.behind = RootMeanSquare(width), Attention(width), RootMeanSquare(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        x = x + self.attention(self.before(x))
        return x + self.drop(self.down(F.gelu(self.up(self.behind(x)))))


class Language(nn.Module):
    def __init__(self, depth=12, width=16):
        super().__init__()
        self.words, self.blocks = nn.Embedding(50, width), nn.ModuleList(Block(width) for _ in range(depth))
        self.norm, self.head = RootMeanSquare(width), nn.Linear(width, 50)

    def forward(self, words):
        x = self.words(words)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


WORDS = torch.randint(0, 50, (24, 8), generator=torch.Generator().manual_seed(0))


def test_the_main_path_of_a_transformer_is_its_stream():
    found = evidence(Language(2), WORDS)
    main_path = names(found, found.signal.main_path)
    assert {"words", "blocks.0.add", "blocks.0.add (2)", "blocks.1.add (2)", "head"} <= main_path
    assert not [name for name in main_path if ".attention." in name or ".before." in name or ".up" in name]
    assert not [name for name in main_path if "rsqrt" in name or "pow" in name]
    carrying = names(found, found.signal.carrying)
    assert {"blocks.0.attention.value", "blocks.0.up"} <= carrying
    assert names(found, found.signal.scoring) == {f"blocks.{i}.attention.{n}" for i in (0, 1) for n in ("query", "key")}
    assert names(found, found.signal.attending) == {"blocks.0.attention.softmax", "blocks.1.attention.softmax"}


class Additive(nn.Module):
    """Bahdanau's attention: tokens of one sequence look at another's; even weights give all of them one mean."""

    def __init__(self):
        super().__init__()
        self.words, self.wanted = nn.Embedding(50, 16), nn.Embedding(50, 16)
        self.hidden, self.score, self.head = nn.Linear(32, 16), nn.Linear(16, 1), nn.Linear(32, 50)

    def forward(self, words, wanted):
        keys, queries = self.words(words), self.wanted(wanted)
        both = [queries[:, :, None].expand(-1, -1, 8, -1), keys[:, None].expand(-1, 8, -1, -1)]
        found = self.score(torch.tanh(self.hidden(torch.cat(both, -1)))).squeeze(-1).softmax(-1) @ keys
        return self.head(torch.cat([queries, found], -1))


def test_what_tokens_of_another_input_look_at_is_not_their_collapse():
    found = evidence(Additive(), (WORDS, WORDS.flip(0)))
    assert names(found, found.signal.looked_at) >= {"matmul"}
    assert not names(found, found.signal.looked_at) & {"cat (2)", "head"}
    assert not (found.token_spread < 0.1).any()


class Squeezed(nn.Module):
    """A residual block with squeeze-and-excite."""

    def __init__(self, channels=8):
        super().__init__()
        self.conv, self.shrink, self.grow = (
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.Conv2d(channels, 2, 1),
            nn.Conv2d(2, channels, 1),
        )

    def forward(self, x):
        y = self.conv(x)
        gate = self.grow(F.relu(self.shrink(y.mean((2, 3), keepdim=True)))).sigmoid()
        return x + y * gate


def test_gates_steer_and_do_not_carry():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), Squeezed(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)
    )
    found = evidence(model, normal(24, 3, 8, 8))
    assert names(found, found.signal.scoring) == {"1.shrink", "1.grow"}
    assert {"0", "1.add", "2", "4"} <= names(found, found.signal.main_path)
    assert "1.conv" in names(found, found.signal.carrying)
    assert found.signal.rows[found.signal.head].layer == "4"
    assert names(found, found.signal.reductions) == {"2"}


class TwoInputs(nn.Module):
    """Images and a step, as a diffusion model has them, and a mask that is the same for all."""

    def __init__(self):
        super().__init__()
        self.step, self.first, self.last = nn.Linear(1, 8), nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 3, 3, padding=1)

    def forward(self, x, time, mask):
        h = self.first(x) + self.step(time)[:, :, None, None]
        return self.last(F.relu(h) * (1 + mask))


def test_small_inputs_and_constant_ones_are_not_where_the_signal_begins():
    data = {"x": normal(24, 3, 8, 8), "time": normal(24, 1), "mask": torch.full((24, 8, 8, 8), -1e4)}
    found = evidence(TwoInputs(), data)
    assert names(found, found.signal.entries) == {"input (x)"}
    assert "step" not in names(found, found.signal.main_path)


def test_weights_behind_layer_scale_are_judged_by_the_stream():
    """Branches scaled by 1e-6: gradients of their weights are as small, those of the stream are not."""

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.scale = nn.Linear(32, 32), nn.Parameter(torch.full((32,), 1e-6))

        def forward(self, x):
            return x + self.scale * F.gelu(self.layer(x))

    found = evidence(nn.Sequential(nn.Linear(32, 32), *(Scaled() for _ in range(6)), nn.Linear(32, 4)), normal(48, 32))
    passed, places = found.gradient_by_block
    assert len(places) == 7
    assert passed.max() / passed.min() < 2
    assert np.nanmax(found.gradients) / np.nanmin(found.gradients) > 1e4


def test_twelve_layers_fold_into_thirty_lines():
    torch.manual_seed(0)
    report = initscope.inspect(Language(), WORDS, pairs=8, alternatives=False, prediction=False)
    assert len(report.rows) > 300
    lines = report.blocks()
    assert len(lines) <= 30
    assert [line["layer"] for line in lines if line["layer"].startswith("blocks")] == [f"blocks.{i}" for i in range(12)]
    assert sum(line["rows"] for line in lines) == len(report.rows)
    # A block has the numbers of its last row, which is its output.
    last = [row["cosine_measured"] for row in report.table() if row["layer"] == "blocks.3.add (2)"]
    assert [line["cosine_measured"] for line in lines if line["layer"] == "blocks.3"] == last
    assert len(lines) < len(report.blocks(depth=3)) < len(report.blocks(depth=0))
    assert [line["layer"] for line in report.blocks(depth=0)] == [row.layer for row in report.rows]
    assert [line["layer"] for line in report.blocks(depth=1)][:3] == ["input", "words", "blocks"]


def test_views_and_dropout_fold_into_the_row_before():
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.ReLU(), nn.Dropout(0.5), nn.Identity(), nn.Linear(8, 3))
    seen = observe(model, normal(16, 3, 4), pairs=4)
    assert [(name, len(members)) for name, members in fold(seen.rows)] == [("input", 2), ("1", 1), ("2", 3), ("5", 1)]
    assert len(set(block_names(seen.rows))) == len(seen.rows)


@pytest.mark.parametrize("depth", [3, 8])
def test_stages_of_blocks_fold_to_the_blocks(depth):
    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x):
            return x + self.two(F.relu(self.one(x)))

    stages = nn.Sequential(*(nn.Sequential(*(Residual() for _ in range(depth))) for _ in range(2)))
    seen = observe(nn.Sequential(nn.Linear(4, 8), stages, nn.Linear(8, 2)), normal(16, 4), pairs=4)
    assert [name for name, _ in fold(seen.rows)] == [
        "input", "0", *(f"1.{stage}.{block}" for stage in range(2) for block in range(depth)), "2",
    ]  # fmt: skip
