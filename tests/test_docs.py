"""What the documentation adds to Sphinx: names that become links."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from chromium import PROGRAM, Browser

import initscope

pytest.importorskip("sphinx")


@pytest.fixture(scope="module")
def linked_names():
    path = Path(__file__).parents[1] / "docs" / "linked_names.py"
    spec = importlib.util.spec_from_file_location("linked_names", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_literals_that_name_something(linked_names):
    named = linked_names.named
    assert named("plan.width") == "plan.width"
    assert named('report.to_html("page.html")') == "Report.to_html"
    assert named("ZeroSum(strength=0.5)") == "ZeroSum"
    assert named("expected_cosine") == "expected_cosine"
    # Parameters, options, files and words of one's own are nobody's name.
    assert [named(text) for text in ("draws", "--out FILE", "report.html", "pairs=8", "[rows, pairs]")] == [None] * 5


def test_a_name_that_may_mean_two_things_means_none(linked_names):
    function = SimpleNamespace(objtype="function", aliased=False)
    names = ("a.width", "b.plan.width", "c.one_only", "initscope.twice", "initscope.room.twice")
    python = SimpleNamespace(objects=dict.fromkeys(names, function))
    environment = SimpleNamespace(domains={"py": python})
    meaning = linked_names.meaning
    assert meaning(environment, "width") is None
    assert meaning(environment, "plan.width")[0] == "b.plan.width"
    assert meaning(environment, "one_only")[0] == "c.one_only"
    assert meaning(environment, "nobody") is None
    assert meaning(environment, "twice")[0] == "initscope.twice"


def test_every_reproduction_can_be_linked(linked_names):
    found = linked_names.reproductions()
    assert found["initscope.reproductions.cosine_scatter.run"] == "cnn-figure-1"


@pytest.mark.parametrize("page", ["README.md", "docs/plan.rst"])
def test_widths_beside_the_code_are_those_it_gives(page):
    text = (Path(__file__).parents[1] / page).read_text(encoding="utf-8")
    line = r"(?:initscope\.)?plan\.width\((.*)\)\n\s*\w+\.paper, \w+\.chernoff, \w+\.exact\s+# (.*)\n"
    arguments, printed = re.search(line, text).groups()
    found = initscope.plan.width(**eval(f"dict({arguments})"))
    assert [found.paper, found.chernoff, found.exact] == [int(number) for number in printed.split(", ")]


def test_every_public_name_is_in_the_reference():
    listed = (Path(__file__).parents[1] / "docs" / "api.rst").read_text(encoding="utf-8").split()
    missing = []
    for name in initscope.__all__:
        value, full = getattr(initscope, name), f"initscope.{name}"
        inside = isinstance(value, ModuleType) and any(word.startswith(f"{full}.") for word in listed)
        documented = f"{getattr(value, '__module__', '')}.{name}".rpartition(".")[0]
        if not (full in listed or inside or any(documented.startswith(word) for word in listed if "." in word)):
            missing.append(full)
    assert not missing


PAGES = sorted((Path(__file__).parents[1] / "docs").glob("*.rst"))
CODE_WIDTH = 120


def test_code_of_the_pages_is_no_wider_than_the_column():
    """Indented lines of code blocks; ``test_code_is_not_cut_off`` shows that this width fits."""
    block = re.compile(r"^(?:(?!\.\. ).*::|\.\. code-block:: \w+)\n\n((?:(?: {3,}.*)?\n)+)", re.MULTILINE)
    wide = []
    for page in PAGES:
        for code in block.findall(page.read_text(encoding="utf-8")):
            wide += [(page.name, line) for line in code.splitlines() if len(line.strip()) > CODE_WIDTH]
    assert wide == []


@pytest.mark.skipif(PROGRAM is None, reason="no Chromium on this machine")
def test_code_is_not_cut_off(tmp_path):
    """A page with the theme and style sheet of the documentation, at 1280 px: a wide line of code fits into its box."""
    sphinx = pytest.importorskip("sphinx.application")
    pytest.importorskip("pydata_sphinx_theme")
    (tmp_path / "index.rst").write_text(f"Title\n=====\n\nText::\n\n    {'x' * CODE_WIDTH}\n", encoding="utf-8")
    settings = {
        "html_theme": "pydata_sphinx_theme",
        "html_static_path": [str(Path(__file__).parents[1] / "docs" / "_static")],
        "html_css_files": ["index.css"],
        "html_sidebars": {"**": ["searchbox.html"]},
    }
    folders = [str(tmp_path), None, str(tmp_path / "out"), str(tmp_path / "trees"), "html"]
    sphinx.Sphinx(*folders, confoverrides=settings, status=None, warning=None).build()
    widths = "['scrollWidth', 'clientWidth'].map((width) => document.querySelector('article pre')[width])"
    with Browser(tmp_path / "profile") as browser:
        needed, given = browser.tab((tmp_path / "out" / "index.html").as_uri(), 1280, 900).run(widths)
    assert needed <= given
