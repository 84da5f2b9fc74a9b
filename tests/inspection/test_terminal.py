"""The report on a terminal: a screen at most, headline first, next step last, nothing wider than the terminal."""

import json
import re
from dataclasses import replace
from html import unescape

import pytest
import torch
from torch import nn

import initscope
from initscope.inspection.terminal import MOST_LINES, report_lines


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.one, self.two = nn.LayerNorm(width), nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        return x + self.two(torch.relu(self.one(self.norm(x))))


def deep(depth, activation=nn.ReLU, end=()):
    layers = [part for _ in range(depth) for part in (nn.Linear(64, 64), activation())]
    return nn.Sequential(nn.Flatten(), *layers, nn.Linear(64, 10), *end)


def transformer():
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    encoder = nn.TransformerEncoder(layer, num_layers=3)
    return nn.Sequential(nn.Flatten(), nn.Unflatten(1, (4, 16)), encoder, nn.Flatten(), nn.Linear(64, 10))


def convolutional():
    blocks = [part for _ in range(6) for part in (nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())]
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), *blocks, nn.Flatten(), nn.Linear(256, 10))


def frozen():
    model = deep(3)
    model[1:5].requires_grad_(False)
    return model


NETWORKS = {
    "healthy": (lambda: deep(2), {}),
    "deep": (lambda: deep(40), {}),
    "deep, with a trial": (lambda: deep(30), {"trial": None, "alternatives": True}),
    "sigmoids": (lambda: deep(10, nn.Sigmoid), {}),
    "linear": (lambda: deep(3, nn.Identity), {}),
    "softmax": (lambda: deep(2, end=(nn.Softmax(1),)), {"loss": nn.functional.cross_entropy, "trial": None}),
    "residual": (lambda: nn.Sequential(nn.Flatten(), *(Block(64) for _ in range(24)), nn.Linear(64, 10)), {}),
    "transformer": (transformer, {}),
    "convolutional": (convolutional, {}),
    "frozen": (frozen, {"targets": None}),
}


@pytest.fixture(scope="module")
def reports():
    digits = initscope.data.load("digits").take(96)
    images, labels = torch.as_tensor(digits.images), torch.as_tensor(digits.labels).long()
    made = {}
    for name, (make, options) in NETWORKS.items():
        torch.manual_seed(0)
        quick = {"pairs": 16, "prediction": False, "alternatives": False, "trial": False, "targets": labels}
        made[name] = initscope.inspect(make(), (images - images.mean()) / images.std(), **(quick | options))
    assert len(made) == 10
    return made


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_a_report_is_a_screen_of_lines_that_fit(reports, width):
    for name, report in reports.items():
        lines = report_lines(report, width)
        assert max(map(len, lines)) <= width, name
        assert len(lines) <= MOST_LINES, name
        text = " ".join(" ".join(lines).split())
        assert text.startswith(report.headline), name
        last = next(index for index, line in enumerate(lines) if line.startswith("Next: "))
        assert len(lines) - last <= 3, name
        assert not any(re.match("[A-Z]", line) for line in lines[last + 1 :]), name
        causes = [finding for finding in (*report.errors, *report.warnings) if not finding.caused_by]
        for finding in causes[:1]:
            assert f"{finding.level}: {finding.code} {finding.name}" in text, name
            assert finding.fix is None or (finding.fix.code or finding.fix.advice) in text, name
        details = report_lines(report, width, verbose=True)
        assert max(map(len, details)) <= width, name
        shown = " ".join(" ".join(details).split())
        assert all(f"{finding.level}: {finding.code} {finding.name}: " in shown for finding in report.findings), name


@pytest.mark.parametrize("width", [60, 120, None])
def test_a_finding_that_is_not_shown_is_named_with_its_level(reports, width):
    hidden = 0
    for name, report in reports.items():
        for depth in (None, 1):
            lines = report_lines(report, width, depth=depth)
            shown = [line for line in lines if re.match(r"(error|warning): IS", line)]
            text = " ".join(" ".join(lines).split())
            more = text.partition("More with --verbose: ")[2].partition(" Tried: ")[0].partition(" Next: ")[0]
            for finding in report.findings:
                visible = any(f"{finding.level}: {finding.code} {finding.name}" in line for line in shown)
                assert visible != bool(re.search(rf"\b{finding.name}\b[^()]*\({finding.level}\)", more)), name
                hidden += not visible
        assert "More with" not in " ".join(report_lines(report, width, verbose=True))
    assert hidden > 10


def test_the_next_step_names_no_option_that_is_given(reports):
    for name, report in reports.items():
        usual = report_lines(report)[-1]
        assert "--out" in usual, name
        assert "--verbose" in usual, name
        assert ("--apply" in usual) == (report.fix is not None and report.fix.initializer is not None), name
        bare = report_lines(report, given=("--out", "--apply"), verbose=True)[-1]
        assert not re.search("--out|--apply|--verbose", bare), name
        assert re.fullmatch(r"Next: [^;]+[^;.]\.", bare), name


def test_the_message_of_an_exception_ends_before_what_follows(reports):
    report = reports["deep"]
    assert len(report.errors) > 1
    first = replace(report.errors[0], message="One step raises: sizes do not match")
    changed = replace(report, findings=(first, *report.findings[1:]))
    assert changed.errors[0] is first
    assert "sizes do not match. Also: " in changed.headline


def test_a_pipe_gets_every_sentence_on_one_line(reports):
    for report in reports.values():
        lines = report_lines(report)
        assert lines[0] == report.headline
        assert lines[-1].startswith("Next: ")


def test_terminal_page_markdown_json_and_repr_have_one_headline(reports):
    kinds = {"No problems found": 0, "warnings": 0, "errors": 0}
    for name, report in reports.items():
        headline, errors, warnings = report.headline, len(report.errors), len(report.warnings)
        counts = [(errors, "error"), (warnings, "warning")]
        said = " and ".join(f"{count} {word}{'s' * (count > 1)}" for count, word in counts if count)
        kinds["errors" if errors else "warnings" if warnings else "No problems found"] += 1
        assert headline.startswith(f"{said or 'No problems found'} ({report.layers} layers, {report.checks} checks)"), (
            name
        )
        if said:
            assert (report.errors or report.warnings)[0].message in headline, name
            assert "othing to change" not in report.to_html(), name
        unknown = [str(missing) for missing in report.not_checked]
        assert headline.endswith(f"Not checked: {', '.join(unknown)}." if unknown else "All checks ran."), name
        assert all(option in headline for missing in report.not_checked for option in missing.options), name
        page = report.to_html()
        assert unescape(re.search(r"<title>(.*?) · initscope</title>", page)[1]) == headline, name
        assert unescape(re.search(r"<h1>(.*?)</h1>", page)[1]) == headline, name
        assert headline in report.to_markdown().replace("\\", ""), name
        assert json.loads(report.to_json())["headline"] == headline, name
        assert headline in repr(report), name
        assert report_lines(report)[0] == headline, name
    assert all(kinds.values()), kinds
