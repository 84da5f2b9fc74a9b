"""The headline says what is wrong, where and how much, by numbers found another way, and what was not checked."""

import re

import numpy as np
import pytest
import torch
from evaluation.published.seeded_bugs import FAULTS
from torch import nn

import initscope
from initscope.geometry import Row, numbered


def samples(count=32, width=24):
    return torch.rand(count, width, generator=torch.Generator().manual_seed(0)) - 0.5


def stack(depth=12, width=24, scale=1.0, activation=nn.Tanh):
    generator = torch.Generator().manual_seed(1)
    layers = [nn.Linear(width, width, bias=False) for _ in range(depth)]
    for layer in layers:
        with torch.no_grad():
            layer.weight.normal_(0, scale / width**0.5, generator=generator)
    return nn.Sequential(*(module for layer in layers for module in (layer, activation())))


def diagnosed(model, **options):
    return initscope.inspect(model, samples(), pairs=12, alternatives=False, prediction=False, **options)


def test_names_of_ops_are_for_people():
    rows = [
        Row("input", "input", "measured", role="input"),
        Row("0", "Flatten", "measured"),
        Row("1", "Linear", "measured", role="weights"),
        Row("3.2", "ReLU", "measured"),
        Row("conv3", "Conv2d", "measured", role="weights"),
        Row("blocks.0.relu_1", "relu", "measured"),
        Row("encoder.fc1", "Linear", "measured", role="weights"),
    ]
    assert [(row.title, row.position) for row in numbered(rows)] == [
        ("input", "input"),
        ("Flatten before layer 1", "Flatten (module 0) before layer 1 of 3"),
        ("layer 1 (Linear)", "layer 1 of 3 (Linear, module 1)"),
        ("ReLU after layer 1", "ReLU (module 3.2) after layer 1 of 3"),
        ("conv3", "layer 2 of 3 (conv3)"),
        ("blocks.0.relu_1", "blocks.0.relu_1 after layer 2 of 3"),
        ("encoder.fc1 (Linear)", "layer 3 of 3 (encoder.fc1, Linear)"),
    ]


def test_one_count_of_layers_everywhere():
    """Forty Linear layers and forty ReLUs are forty layers and 81 ops, wherever a number is shown."""
    torch.manual_seed(0)
    model = nn.Sequential(*(part for _ in range(40) for part in (nn.Linear(24, 24), nn.ReLU())))
    report = diagnosed(model)
    numbers = {f"{2 * index}": index + 1 for index in range(40)}
    collapse = next(finding for finding in report.findings if finding.name == "collapse")
    said = f"layer {numbers[collapse.layer]} of 40 (Linear, module {collapse.layer})"
    assert report.layers == report.to_dict()["layers"] == 40
    for text in (collapse.message, report.headline, repr(report), report.to_markdown(), report.to_html()):
        assert said in text
        assert max(int(number) for number in re.findall(r"\blayers? (?:\d+–)?(\d+)", text)) <= 40
        assert "40 layers" in text or text == collapse.message
    named = re.compile(r"input|layer (\d+)( \(Linear\))?|ReLU after layer (\d+)|layers (\d+)–(\d+)")
    for lines in (report.blocks(0), report.blocks(few=True)):
        titles = [named.fullmatch(line["title"]) for line in lines]
        assert all(titles)
        last = [max(int(number) for number in title.groups() if number and number.isdigit()) for title in titles[1:]]
        assert last == sorted(last)
        assert last[-1] == 40
    (line,) = (line for line in report.blocks(few=True) if "collapse" in line["findings"])
    assert line["title"] == f"layer {numbers[collapse.layer]} (Linear)"


def test_gradients_that_vanish_are_called_so():
    """Of 8 sigmoid layers the first gets (1/4)⁷ of the last's at most: slopes of a sigmoid are at most 1/4."""
    report = diagnosed(stack(depth=8, activation=nn.Sigmoid))
    assert "gradient-imbalance" in report.headline
    (found,) = (finding for finding in report.errors if finding.name == "gradient-imbalance")
    assert "Gradients vanish" in found.message
    shares = report.gradients_over_last["gradient_over_last"]
    known = shares[np.isfinite(shares)]
    assert known[-1] == 1
    model, x = stack(depth=8, activation=nn.Sigmoid), report.observation.x[0]
    (model(x) @ torch.ones(24)).backward()
    share = float(model[0].weight.grad.norm() / model[14].weight.grad.norm())
    # Another sample and another direction at the output: the same order of magnitude.
    assert share / 10 < known[0] < 10 * share


@pytest.mark.parametrize(
    ("scale", "said"),
    [
        (0.3, r"The signal shrinks to (\S+) times the input's scale"),
        (8.0, r"The signal grows to (\S+) times the input's scale"),
    ],
)
def test_sizes_that_run_away_are_told_with_their_factor(scale, said):
    model = stack(scale=scale, activation=nn.ReLU)
    report = diagnosed(model)
    told = next(filter(None, (re.search(said, finding.message) for finding in report.errors)))
    x = report.observation.x
    with torch.no_grad():
        after = [model[: k + 1](x).norm(dim=1) / x.norm(dim=1) for k in range(len(model))]
    medians = [float(ratios.median()) for ratios in after]
    # All layers are as wide as the input; one or two digits are told. What the last weights make may be small.
    assert float(told[1]) == pytest.approx(min(medians[:-2]) if scale < 1 else max(medians), rel=0.3)
    assert re.match(r"\d errors? .*\(12 layers, \d+ checks\): ", report.headline)


def test_a_number_in_the_title_says_of_what_it_is():
    report = initscope.inspect(stack(depth=2), 1000 * samples(), pairs=12, alternatives=False, prediction=False)
    size = float((1000 * samples()).square().mean().sqrt())
    told = re.search(r"What input feeds into the first weights has a root mean square of (\d+)", report.headline)
    assert told, report.headline
    assert float(told[1]) == pytest.approx(size, rel=0.01)


def test_a_network_without_findings_says_what_was_not_checked():
    report = diagnosed(stack(depth=3))
    assert report.headline.startswith(f"No problems found (3 layers, {report.checks} checks).")
    assert report.headline.endswith("Not checked: the loss (no targets were given; pass targets).")
    (missing,) = report.not_checked
    assert missing.give == "targets="
    ready = initscope.inspection.checks()
    assert report.checks == len(ready) - len(missing.codes)


def test_a_warning_is_never_called_no_problem():
    """Terminal, page, Markdown, JSON and repr start from one headline."""
    linear = nn.Sequential(nn.Linear(24, 24), nn.Linear(24, 24), nn.Linear(24, 8))
    report = diagnosed(linear)
    assert (report.healthy, len(report.errors), len(report.warnings)) == (True, 0, 1)
    assert report.headline.startswith("1 warning (3 layers,")
    for text in (repr(report), report.to_markdown(), report.to_dict()["headline"], report.to_html()):
        assert "1 warning (3 layers," in text
        assert "No problems found" not in text


def test_an_effect_points_to_its_cause_and_the_headline_shows_the_cause():
    """Without the trial, which would show whether the bottleneck hurts."""
    report = FAULTS["a bottleneck of 1"].inspect(0, trial=False)
    found = {finding.name: finding for finding in report.findings}
    assert found["bottleneck"].caused_by is None
    following = [finding for finding in report.findings if finding.caused_by]
    assert "IS804" in {finding.caused_by for finding in following}
    assert all("Follows from" in str(finding) for finding in following)
    assert (report.errors[0].name, found["bottleneck"].level) == ("bottleneck", "error")  # as bad as what it causes
    assert found["bottleneck"].message in report.headline


def test_the_title_of_the_page_is_the_headline():
    report = diagnosed(stack(scale=8.0, activation=nn.ReLU))
    page = report.to_html()
    title = re.search(r"<title>(.*?) · initscope</title>", page)[1]
    assert title == re.search(r"<h1>(.*?)</h1>", page)[1]
    assert "(12 layers, " in title
    # The number of a finding says what it is, and what is out of bounds is marked.
    assert re.search(r"\(scale per unit over the input&#39;s: [\d.e+]+, threshold 1000\)", page)
    assert "</i>out of bounds</span>" in page


def test_equal_layers_are_one_line_of_what_can_be_recovered():
    """Of twelve ReLU layers of equal width eleven are alike: one line for all of them, not eleven."""
    report = diagnosed(nn.Sequential(nn.Linear(24, 32), nn.ReLU(), *stack(depth=11, width=32, activation=nn.ReLU)))
    page = report.to_html()
    part = page[page.index("Can the input be recovered?") :].split("</table>")[0]
    assert part.count("<tr>") == 1 + 2
    assert "11 layers: layer 2 (Linear) to layer 12 (Linear)" in part


class Detached(nn.Module):
    """Its outputs are cut off from the last layer, before a log_softmax."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(24, 16), nn.Linear(16, 4)

    def forward(self, x):
        return torch.log_softmax(self.last(torch.relu(self.first(x))).detach(), dim=1)


def test_the_headline_begins_with_the_cause():
    """Without a gradient the loss is stuck, and at a rate of next to nothing no weight moves: neither is the cause."""
    targets = torch.arange(32) % 4
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 4))
    slow = diagnosed(model, targets=targets, optimizer=torch.optim.SGD(model.parameters(), lr=1e-9))
    cut = diagnosed(Detached(), targets=targets, loss=nn.NLLLoss(), trial=False)
    for report, cause, symptom in ((cut, "IS312", "IS210"), (slow, "IS404", "IS407")):
        causes = {finding.code: finding.caused_by for finding in report.findings}
        assert (causes[cause], causes[symptom]) == (None, cause)
        first = report.errors[0]
        assert first.code == cause
        assert first.message in report.headline
