"""The drawing of a network: boxes of the table's sections, every dependency an edge, no two lanes on each other."""

import json
import re

import pytest
import torch
from chromium import PROGRAM, Browser
from torch import nn

import initscope
from initscope.rendering.layered import box_ranks, layered_layout
from initscope.rendering.network import network_figure


class Bottleneck(nn.Module):
    """As in ResNet-50."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        sizes = [(inputs, width, 1, 1), (width, width, 3, stride), (width, 4 * width, 1, 1)]
        self.convs = nn.ModuleList(nn.Conv2d(i, o, k, s, k // 2, bias=False) for i, o, k, s in sizes)
        self.norms = nn.ModuleList(nn.BatchNorm2d(o) for _, o, _, _ in sizes)
        self.down = None
        if stride != 1 or inputs != 4 * width:
            self.down = nn.Sequential(nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))

    def forward(self, x):
        y = x
        for number, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            y = norm(conv(y if number == 0 else torch.relu(y)))
        return torch.relu(y + (x if self.down is None else self.down(x)))


class ResNet50(nn.Module):
    """All layers of ResNet-50, with fewer channels."""

    def __init__(self, width=8):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 7, 2, 3), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2))
        blocks, inputs = [], width
        for stage, count in enumerate((3, 4, 6, 3)):
            for number in range(count):
                blocks.append(Bottleneck(inputs, width << stage, 2 if stage and not number else 1))
                inputs = 4 * (width << stage)
        self.blocks, self.fc = nn.Sequential(*blocks), nn.Linear(inputs, 10)

    def forward(self, x):
        return self.fc(self.blocks(self.stem(x)).mean((2, 3)))


class UNet(nn.Module):
    """Three scales, each with a skip connection from the way down to the way up."""

    def __init__(self, width=4, depth=3):
        super().__init__()

        def two(inputs, outputs):
            convs = nn.Conv2d(inputs, outputs, 3, padding=1), nn.Conv2d(outputs, outputs, 3, padding=1)
            return nn.Sequential(convs[0], nn.ReLU(), convs[1], nn.ReLU())

        sizes = [width << scale for scale in range(depth + 1)]
        self.down = nn.ModuleList(map(two, [3, *sizes], sizes[:-1]))
        self.middle = two(sizes[-2], sizes[-1])
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * size, size, 2, 2) for size in sizes[-2::-1])
        self.join = nn.ModuleList(two(2 * size, size) for size in sizes[-2::-1])

    def forward(self, x):
        kept = []
        for block in self.down:
            kept.append(block(x))
            x = torch.max_pool2d(kept[-1], 2)
        x = self.middle(x)
        for up, join in zip(self.up, self.join, strict=True):
            x = join(torch.cat([up(x), kept.pop()], 1))
        return x


def inspected(model, data):
    torch.manual_seed(0)
    return initscope.inspect(model, data, pairs=4, alternatives=False, trial=False, prediction=False)


@pytest.fixture(scope="module")
def drawn():
    images = torch.rand(8, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    coder = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    tokens = torch.randn(8, 6, 16, generator=torch.Generator().manual_seed(1))
    return {
        "resnet": inspected(ResNet50(), images),
        "unet": inspected(UNet(), images),
        "transformer": inspected(nn.TransformerEncoder(coder, 3, enable_nested_tensor=False), tokens),
    }


def picture(report):
    from initscope.inspection.layer_quantities import layer_quantities
    from initscope.inspection.page import as_comparison

    found = layer_quantities(report, as_comparison(report))
    return network_figure(report.rows, found.sections, found.columns, {})


def test_ranks_follow_the_edges():
    edges = [(0, 1), (1, 2), (0, 2), (3, 4), (2, 4)]
    ranks = box_ranks(5, edges)
    assert all(ranks[source] < ranks[target] for source, target in edges)
    assert ranks == [0, 1, 2, 2, 3]  # box 3 reads nothing and stands just above the box that reads it


def test_lanes_that_overlap_are_apart():
    """Nested skip connections: each vertical line has its own x, and no box lies on it."""
    count = 8
    edges = [(number, number + 1) for number in range(count - 1)] + [(0, 7), (1, 6), (2, 5), (5, 7)]
    layout = layered_layout(count, edges, box=(100, 20), gap=(10, 10))
    lines = [re.search(r"Q(\d+) (\d+) .*V(\d+)", path) for path in layout.paths[count - 1 :]]
    spans = [tuple(map(int, match.groups())) for match in lines]
    for number, (x, top, bottom) in enumerate(spans):
        assert top < bottom
        assert x > max(corner[0] + 100 for corner in layout.boxes)
        for other_x, other_top, other_bottom in spans[:number]:
            assert x != other_x or bottom < other_top or other_bottom < top
    assert spans[2][0] < spans[1][0] < spans[0][0] < layout.width  # short ones inside


def test_boxes_of_one_rank_do_not_overlap():
    layout = layered_layout(5, [(0, 1), (0, 2), (0, 3), (1, 4), (2, 4), (3, 4)], box=(100, 20), gap=(10, 10))
    assert len(set(layout.boxes)) == 5
    assert len({y for _, y in layout.boxes}) == 3


def test_a_resnet_shows_its_blocks(drawn):
    found = picture(drawn["resnet"])
    blocks = [box for box in found["boxes"] if box["title"].startswith("block ")]
    assert len(blocks) == 16
    assert all("skip" in box["note"].split(" · ") for box in blocks)
    assert len({box["inside"] for box in blocks}) == 2  # with and without a convolution on the skip connection
    assert len(found["boxes"]) < 25


def test_a_unet_has_a_lane_for_every_scale(drawn):
    found = picture(drawn["unet"])
    assert sum("Q" in path for path in found["paths"]) == 3


def test_a_transformer_shows_its_attention(drawn):
    notes = [box["note"] for box in picture(drawn["transformer"])["boxes"]]
    assert sum("attention" in note and "skip" in note for note in notes) == 3


def test_the_softmax_of_a_classifier_is_no_attention():
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4), nn.Softmax(1))
    data = torch.rand(12, 8, generator=torch.Generator().manual_seed(0))
    report = initscope.inspect(model, data, pairs=4, prediction=False, alternatives=False, trial=False)
    notes = [box["note"] for box in picture(report)["boxes"]]
    assert len(notes) >= 4
    assert not any("attention" in note for note in notes)


def test_every_row_is_in_one_box(drawn):
    for report in drawn.values():
        found = picture(report)
        members = [index for section in found["data"]["members"] for index in section]
        assert sorted(members) == list(range(len(report.rows)))
        assert all(len(column["text"]) == len(found["boxes"]) for column in found["data"]["columns"].values())


@pytest.mark.skipif(PROGRAM is None, reason="no Chromium on this machine")
def test_the_picture_in_a_browser(drawn, tmp_path):
    """Colors by a column, moves by arrow keys, leads to the table; text is readable in both schemes."""
    page = drawn["resnet"].to_html(tmp_path / "net.html")
    assert page.stat().st_size < 2_000_000
    whole = json.loads(drawn["resnet"].to_json())
    with Browser(tmp_path / "profile") as browser:
        for width, dark in ((1280, False), (390, True)):
            tab = browser.tab(page.as_uri(), width, 900, dark=dark)
            assert tab.run("document.documentElement.scrollWidth") == width
            choose = "(() => { const s = document.querySelector('.network select'); s.value = 'angle_measured';"
            tab.run(choose + " s.dispatchEvent(new Event('change')); })()")
            assert tab.run("document.querySelector('.box .value').textContent") != ""
            tab.run("document.querySelector('.box').focus()")
            assert tab.run("document.querySelector('.box').classList.contains('here')")
            press = "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: '%s', bubbles: true}))"
            for key in ("ArrowDown", "End", "ArrowUp", "Enter"):
                tab.run(press % key)
            boxes = tab.run("document.querySelectorAll('.box').length")
            assert tab.run("Number(document.querySelector('.box[tabindex=\"0\"]').dataset.box)") == boxes - 2
            assert tab.run("document.querySelectorAll('.row.here').length") == 1
            assert tab.run(CONTRAST) >= 4.5
            tab.run(KEPT)
            assert json.loads(tab.run("new Promise((done) => setTimeout(() => done(kept), 200))")) == whole
            assert tab.complaints() == []
            tab.close()


KEPT = """(() => {
  window.kept = "null";
  URL.createObjectURL = (blob) => { blob.text().then((text) => (window.kept = text)); return "data:,"; };
  document.querySelector("[data-export=json]").click();
})()"""
"""Reads the file that the button offers."""

CONTRAST = """(() => {
  const light = (color) => {
    const [r, g, b] = color.match(/[\\d.]+/g).slice(0, 3).map((v) => v / 255)
      .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = light(getComputedStyle(document.querySelector('.network .map')).backgroundColor);
  return Math.min(...[...document.querySelectorAll('.network text')].map((text) => {
    const ink = light(getComputedStyle(text).fill);
    return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
  }));
})()"""
