"""What commands print on a terminal: the conclusion first, the next step last, one screen, no line that is too wide."""

import re

import numpy as np
import pytest
import torch
from torch import nn

import initscope
from initscope.cli import main
from initscope.geometry import Comparison
from initscope.inspection.terminal import report_lines
from initscope.rendering.summary import comparison_lines, headline, suggestion
from initscope.rendering.table import MOST_LINES

WIDTHS = [60, 80, 100, 120]


def dense(depth, activation):
    parts = [part for _ in range(depth) for part in (nn.Linear(16, 16), activation())]
    return nn.Sequential(*parts, nn.Linear(16, 4)), (16,)


def convolutional():
    blocks = [part for _ in range(4) for part in (nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU())]
    return nn.Sequential(*blocks, nn.Flatten(), nn.Linear(48, 4)), (3, 4, 4)


def attention():
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    encoder = nn.TransformerEncoder(layer, num_layers=2)
    return nn.Sequential(nn.Unflatten(1, (4, 4)), nn.Linear(4, 16), encoder, nn.Flatten(), nn.Linear(64, 4)), (16,)


def unknown():
    norms = [part for _ in range(9) for part in (nn.Conv2d(4, 4, 1), nn.LocalResponseNorm(2), nn.Softshrink())]
    return nn.Sequential(*norms), (4, 3, 3)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first_layer_of_the_branch, self.second_layer_of_the_branch = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x):
        return x + self.second_layer_of_the_branch(torch.relu(self.first_layer_of_the_branch(x)))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.loop, self.head = nn.LSTM(4, 8, num_layers=2, batch_first=True), nn.Linear(8, 4)

    def forward(self, x):
        return self.head(self.loop(x)[0][:, -1])


def nested():
    inner = nn.Sequential(nn.Sequential(nn.Sequential(nn.Linear(16, 16), nn.GELU()), nn.Dropout(0.1)), nn.LayerNorm(16))
    return nn.Sequential(inner, nn.Linear(16, 4)), (16,)


def pooled():
    parts = (nn.Conv2d(3, 6, 3, groups=3), nn.SiLU(), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return nn.Sequential(*parts, nn.Linear(6, 4)), (3, 8, 8)


NETWORKS = {
    "small": lambda: dense(1, nn.ReLU),
    "deep": lambda: dense(30, nn.ReLU),
    "sigmoids": lambda: dense(6, nn.Sigmoid),
    "convolutional": convolutional,
    "attention": attention,
    "unknown": unknown,
    "residual": lambda: (nn.Sequential(*(Residual() for _ in range(12)), nn.Linear(16, 4)), (16,)),
    "recurrent": lambda: (Recurrent(), (5, 4)),
    "nested": nested,
    "pooled": pooled,
}


@pytest.fixture(scope="module", params=NETWORKS)
def shown(request):
    """The lines of `inspect`, `measure` and `predict` at a width, for one network."""
    torch.manual_seed(0)
    model, shape = NETWORKS[request.param]()
    x, y = torch.randn(2, 4, *shape, generator=torch.Generator().manual_seed(0))
    prediction = initscope.predict(model, x, y)
    both = Comparison(prediction, initscope.measure(model, x, y, draws=2))
    alone = Comparison(prediction)
    report = initscope.inspect(model, torch.cat([x, y]), pairs=4, prediction=False, alternatives=False, trial=False)
    return {
        "inspect": lambda width: report_lines(report, width),
        "measure": lambda width: comparison_lines(both, suggestion(both), width),
        "predict": lambda width: comparison_lines(alone, suggestion(alone), width),
    }


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("command", ["inspect", "measure", "predict"])
def test_a_result_is_one_screen(shown, command, width):
    lines = shown[command](width)
    assert max(map(len, lines)) <= width
    assert len(lines) <= MOST_LINES
    assert re.match(r"Angles|No |\d+ (error|warning)", lines[0])
    (step,) = [index for index, line in enumerate(lines) if line.startswith("Next: ")]
    assert len(lines) - step <= 4


def test_a_pipe_gets_sentences_on_one_line_and_depth_0_every_op():
    model, _ = dense(30, nn.ReLU)
    comparison = Comparison(initscope.predict(model, torch.eye(16)[:4], torch.eye(16)[4:8]))
    lines = comparison_lines(comparison, "Try it.", depth=0)
    assert lines[0] == headline(comparison)
    assert lines[-1] == "Next: try it."
    names = [line.split()[0] for line in lines if line]
    assert [name for name in names if name.isdigit()] == [row.layer for row in comparison.rows[1:]]


def test_kernel_begins_with_what_it_says_and_ends_with_the_next_step(tmp_path, capsys):
    out = tmp_path / "kernel.npy"
    main(["kernel", "dense8-relu-dense1", "--data", "digits", "--limit", "20", "--out", str(out)])
    first, *_, last = capsys.readouterr().out.splitlines()
    off = np.load(out)[np.triu_indices(20, 1)]
    said = re.search(r"20 inputs: cosines between different inputs are (\S+) on average, from (\S+) to (\S+)\. ", first)
    assert [float(number) for number in said.groups()] == pytest.approx([off.mean(), off.min(), off.max()], rel=1e-3)
    assert last == f"Next: numpy.load({str(out)!r}) reads the matrix; row and column k are of input k."


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_inspect_takes_a_table_with_a_target(tmp_path, capsys, suffix):
    pandas = pytest.importorskip("pandas")
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    numbers = np.random.default_rng(0).normal(size=(40, 5))
    table = pandas.DataFrame(numbers, columns=list("abcde")).assign(target=np.arange(40) % 3)
    getattr(table, f"to_{suffix[1:]}")(tmp_path / f"t{suffix}", index=False)
    options = ["--no-prediction", "--no-alternatives", "--no-trial"]
    main(["inspect", "dense8-relu-dense3", "--data", str(tmp_path / f"t{suffix}"), "--pairs", "4", *options])
    shown = capsys.readouterr()
    assert "40 vectors 5, 3 classes; labels from column 'target'" in shown.err
    assert "Not checked: learning" in shown.out.splitlines()[0]  # the loss was found from the labels
    assert shown.out.splitlines()[-1].startswith("Next: ")
