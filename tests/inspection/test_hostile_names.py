"""Names of layers that are markup, turn the direction of writing or steer a terminal are text in every report."""

import json
import re
import unicodedata

import pytest
import torch
from torch import nn

import initscope

NAMES = ["<img src=x onerror=alert(1)>", "[link](javascript:x)", "a\u202eb", "a\x1b[2Jb", "a\x9b\x7fb", "a`b|*c*&lt;"]


@pytest.fixture(scope="module")
def report():
    torch.manual_seed(0)
    model = nn.Sequential()
    for name in NAMES:
        model.add_module(name, nn.Linear(6, 6))
        model.add_module(f"{name} relu", nn.ReLU())
    nn.init.constant_(model[0].weight, 1e-6)  # a fault, so that names stand in findings and code too
    return initscope.inspect(model, torch.randn(32, 6), pairs=8, alternatives=False)


def unprintable(text):
    return {character for character in text if unicodedata.category(character) in ("Cc", "Cf")} - {"\n", "\t"}


def test_markdown(report):
    text = report.to_markdown()
    assert not unprintable(text)
    outside_code = re.sub(r"(`+).*?[^`]\1(?!`)", "", text)
    assert "<img" not in outside_code
    assert not re.search(r"(?<!\\)\]\(", outside_code)
    assert "&lt;img src=x onerror=alert(1)>" in text
    assert r"a\\u202eb" in text


def test_pages(report, tmp_path):
    """The whole page, the cell of a notebook, and what the script of the page reads."""
    report.to_html(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    for form in (text, report._repr_html_()):
        assert not unprintable(form)
        assert "<img src=x" not in form
        assert r"\u202e" in form
        assert r"\x1b" in form or r"\u001b" in form
    for data in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', text, re.DOTALL):
        json.loads(data)


def test_printable_is_what_unicode_says():
    from initscope.results import printable

    everything = "".join(map(chr, range(0x110000)))
    assert unprintable(printable(everything)) == set()
    kept = [c for c in everything if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf", "Cs")]
    assert printable("".join(kept)) == "".join(kept)
