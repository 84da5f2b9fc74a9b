"""What a report looks like: one line, Markdown, JSON with its schema, blocks on the page and in the terminal."""

import base64
import gzip
import importlib.util
import json
import re
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import initscope
from initscope.cli import main

DOCS = Path(__file__).parents[2] / "docs"


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x):
        return x + self.two(torch.relu(self.one(x)))


def network(depth=4, scale=1.0):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), *(Residual() for _ in range(depth)), nn.Linear(32, 10))
    with torch.no_grad():
        for block in model[2:-1]:
            block.two.weight.mul_(scale)
    return model


@pytest.fixture(scope="module")
def reports():
    """A healthy network and one whose signal explodes, without a trial (`test_levels.py` has what that adds)."""
    data = initscope.data.load("digits").take(64)
    return [initscope.inspect(network(scale=scale), data, pairs=16, trial=False) for scale in (1.0, 300.0)]


def test_a_report_in_one_line(reports):
    healthy, failing = reports
    assert healthy.healthy
    assert healthy.headline.startswith("No problems found (10 layers,")
    assert healthy.fix is None
    assert healthy.what_if.alternatives == ()
    assert healthy.what_if.best.code is None
    assert not failing.healthy
    assert failing.headline.startswith(f"{len(failing.errors)} errors")
    for name in ("code", "name", "level", "layer", "value", "threshold", "message", "fix", "caused_by"):
        assert hasattr(failing.errors[0], name)
    (exploding,) = (finding for finding in failing.errors if finding.name == "exploding")
    assert (exploding.code, exploding.layer.partition(".")[0] in {"2", "3", "4", "5"}) == ("IS106", True)
    for name in ("name", "code", "advice", "before", "after"):
        assert hasattr(failing.fix, name)


def test_markdown_is_a_table_of_blocks_with_the_findings_above(reports):
    healthy, failing = (report.to_markdown() for report in reports)
    assert "**No problems found (10 layers," in healthy
    assert "Alternatives" not in healthy
    assert "- **IS106 exploding** (error): " in failing
    assert failing.count("\n| ") >= 8
    assert all(line.count("|") == next(iter(re.findall(r"\n(\| layer .*\|)\n", failing))).count("|")
               for line in failing.split("Alternatives")[0].splitlines() if line.startswith("|"))  # fmt: skip


def test_markdown_says_each_thing_once_and_the_fix():
    """As a reviewer reads it: the headline, one line per finding, the fix with what its trial showed."""
    torch.manual_seed(0)
    layers = [layer for _ in range(30) for layer in (nn.Linear(32, 32), nn.ReLU())]
    report = initscope.inspect(nn.Sequential(*layers), torch.rand(60, 32), pairs=16)
    text = report.to_markdown()
    assert f"**{report.headline}**\n\n" in text
    assert re.search(r"- \*\*IS103 collapse\*\* \(error\): Inputs become indistinguishable at layer \d+", text)
    assert f"Suggested fix: {report.fix.name}: `{report.fix.code}` (tried: score 0 → " in text
    assert "\n\n\n" not in text
    angles = [
        line.split(" | ")[1] for line in text.split("Alternatives")[0].splitlines() if line.startswith("| layer")
    ][1:]
    assert angles[-1] == "<1e-05"  # below it cosines of float32 are rounding


def test_json_has_the_keys_that_the_documentation_describes(reports):
    text = (DOCS / "inspection.rst").read_text(encoding="utf-8")
    described = text[text.index("==================  ") :].split("Numbers that do not apply")[0]
    keys = re.findall(r"^``(\w+)``", described, re.MULTILINE)
    for report in reports:
        json.dumps(report.to_dict(), allow_nan=False)
        found = json.loads(report.to_json())
        assert list(found) == keys or set(found) == set(keys)
        assert found["schema"] == 2
        for name in ("findings", "not_checked", "fixes", "audit", "precision", "what_if"):
            assert all(f"``{key}``" in described for row in found[name] for key in row)


def test_the_page_opens_blocks_by_a_click(reports):
    page = reports[0].to_html()
    assert page.count('<tbody class="folds') >= 4
    assert re.search(r"block 2</span> <span class=\"ops\">4 ops", page)
    assert "2.one (Linear)" in page
    closed, opened = (set(re.findall(r'<tbody class="folds( open)?"', report.to_html())) for report in reports)
    assert closed == {""}
    assert opened == {"", " open"}


def test_depth_and_markdown_on_the_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(
        "import torch\nfrom torch import nn\n\n"
        "def make():\n    torch.manual_seed(0)\n"
        "    pair = lambda: nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), pair(), pair(), nn.Linear(32, 10))\n"
    )
    outputs = {}
    for options in ((), ("--depth", "0"), ("--format", "md")):
        main(["inspect", "net.py:make", "--data", "digits", "--pairs", "16", *options])
        outputs[options] = capsys.readouterr().out
    assert "No problems found (6 layers," in outputs[()]
    assert len(outputs["--depth", "0"].splitlines()) > len(outputs[()].splitlines()) + 4
    assert "3.2 (Linear)" in outputs["--depth", "0"]
    assert "3.2 (Linear)" not in outputs[()]
    assert "block 3 " in outputs[()]
    assert outputs["--format", "md"].startswith("## initscope: Sequential on")


def test_the_page_of_ten_bugs_shows_what_is_reported_before_and_after_each_fix():
    """The page prints what the code prints now, but for digits; every bug is reported, and its fix removes it."""
    spec = importlib.util.spec_from_file_location("make_bugs", DOCS / "figures" / "make_bugs.py")
    page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(page)
    text = (DOCS / "ten_bugs.rst").read_text(encoding="utf-8")
    shown = [
        re.findall(r"IS\d+", block) for block in re.findall(r"code-block:: text\n\n(.*?)\n\n", f"{text}\n", re.DOTALL)
    ]
    assert len(page.BUGS) == 10
    for number, (_, _, wrong, right) in enumerate(page.BUGS):
        scope = {}
        page._run(page.SETUP, scope)
        before, after = (page._run(textwrap.dedent(code), scope) for code in (wrong, right))
        assert [re.findall(r"IS\d+", output) for output in (before, after)] == shown[2 * number : 2 * number + 2]
        assert re.search(r"\d (error|warning)s?( and \d warnings?)?$", before.strip())
        assert "Fix: " in before
        assert after.strip() == "No problems found"


def lines_of(report):
    """The few lines of a report with the rows that each stands for, which must be all rows in order."""
    lines = report.blocks(few=True)
    ends = np.cumsum([line["rows"] for line in lines])
    assert ends[-1] == len(report.rows)
    return {line["title"]: (line, range(end - line["rows"], end)) for line, end in zip(lines, ends, strict=True)}


def test_four_hundred_rows_are_a_screen_of_lines():
    """Every finding begins in a line of its own; other lines hold the numbers of their last row, and their worst."""
    torch.manual_seed(0)
    layers = [module for _ in range(199) for module in (nn.Linear(24, 24), nn.ReLU())]
    data = torch.rand(48, 24, generator=torch.Generator().manual_seed(3))
    options = {"pairs": 12, "alternatives": False, "prediction": False}
    report = initscope.inspect(nn.Sequential(*layers, nn.Linear(24, 10)), data, **options)
    lines, table = lines_of(report), report.table()
    faults = {finding.name: finding.layer for finding in (*report.errors, *report.warnings)}
    assert len(faults) >= 2
    assert 10 <= len(lines) <= 12 + 3 * len(faults)
    for title, (line, members) in lines.items():
        begun = {name for name, layer in faults.items() if layer in {table[i]["layer"] for i in members}}
        assert set(line["findings"]) == begun
        assert not begun or title == report.rows[members[0]].title
        assert line["rms_ratio_measured"] == table[members[-1]]["rms_ratio_measured"]
        dead = [table[i]["dead_fraction"] for i in members if table[i]["dead_fraction"] is not None]
        assert line["dead_fraction"] == max(dead, default=None)
    assert len(report.blocks(0)) == len(report.rows) == 400
    assert len(report.to_markdown().splitlines()) < 40


def test_many_healthy_blocks_are_few_lines(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(
        "import torch\nfrom torch import nn\n\n"
        "class Block(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        "        self.norm, self.one, self.two = nn.LayerNorm(32), nn.Linear(32, 32), nn.Linear(32, 32)\n"
        "    def forward(self, x):\n        return x + 0.1 * self.two(torch.relu(self.one(self.norm(x))))\n\n"
        "def make():\n    torch.manual_seed(0)\n"
        "    blocks = [Block() for _ in range(36)]\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), *blocks, nn.LayerNorm(32), nn.Linear(32, 10))\n"
    )
    outputs, quick = {}, ["--pairs", "4", "--no-prediction", "--no-gradients"]
    for options in ((), ("--verbose",), ("--depth", "0")):
        main(["inspect", "net.py:make", "--data", "digits", *quick, *options])
        outputs[options] = capsys.readouterr().out
    few, details, everything = outputs.values()
    assert "No problems found" in few
    assert len(few.splitlines()) < 25
    assert "ops in" in details
    assert "--depth 0 prints them all" in details
    assert all(re.search(r"blocks \d+–\d+ ", output) for output in (few, details))
    assert len(everything.splitlines()) > 180
    assert "prints them all" not in everything


def test_the_top_of_the_page_says_what_how_and_when(reports):
    """The conclusion, the size of the model, date, seed and versions; for failing models that errors were found."""
    healthy, failing = (report.to_html() for report in reports)
    assert '<p class="conclusion">No problem was found that keeps this model from learning.</p>' in healthy
    assert re.search(r'<p class="conclusion">(An error keeps|Errors keep) this model from learning', failing)
    for report, page in zip(reports, (healthy, failing), strict=True):
        assert report.provenance.size in page
        assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC, seed 0, initscope ", page)


def test_the_page_holds_the_report_as_json_and_markdown(reports):
    page = reports[1].to_html()
    packed = re.search(r'class="whole">\s*(\S+)\s*</script>', page)[1]
    assert json.loads(gzip.decompress(base64.b64decode(packed))) == json.loads(reports[1].to_json())
    data = json.loads(re.search(r'<script type="application/json">(.*?)</script>', page, re.DOTALL)[1])
    assert data["markdown"] == reports[1].to_markdown()


def test_the_page_has_an_overview_of_the_samples():
    rows = torch.rand(40, 6, generator=torch.Generator().manual_seed(0))
    rows[:, 2] = 0.5
    quick = {"pairs": 16, "alternatives": False, "prediction": False, "trial": False}
    page = initscope.inspect(torch.nn.Linear(6, 2), rows, **quick).to_html()
    assert "<h2>Data</h2>" in page
    assert "1 constant input carries no information: 2." in page
    words = torch.nn.Sequential(torch.nn.Embedding(9, 4), torch.nn.Flatten(), torch.nn.Linear(12, 2))
    tokens = torch.randint(0, 9, (40, 3), generator=torch.Generator().manual_seed(0))
    assert "<dt>Duplicates</dt>" in initscope.inspect(words, tokens, **quick).to_html()
    both = torch.nn.Bilinear(3, 3, 2)
    assert (
        "<h2>Data</h2>" not in initscope.inspect(both, (rows[:, :3], rows[:, 3:]), batch_args=(0, 1), **quick).to_html()
    )
