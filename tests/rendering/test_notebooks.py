"""A report in a notebook's cell looks as it does on its own page, whatever the notebook says of tables and headings."""

import json
from pathlib import Path

import pytest
from chromium import PROGRAM, Browser

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium on this machine")

SHEETS = Path(__file__).parent / "notebooks"
HOSTS = {
    "jupyter": ("jupyter.css", 'data-jp-theme-light="{light}"', "jp-RenderedHTMLCommon jp-OutputArea-output"),
    "vscode": ("vscode.css", 'class="vscode-{scheme}"', "output"),
    "contrast": ("vscode.css", 'class="vscode-high-contrast vscode-high-contrast-{scheme}"', "output"),
    "alone": ("", "", ""),
}
LOOKED_AT = (
    "h1, h2, h3, p, table, thead, tr, th, td, code, button, figure, figcaption, svg, img, summary, dl, dt, dd, ol"
)
NAMES = (
    *("color", "backgroundColor", "fontSize", "fontWeight", "lineHeight", "whiteSpace", "textAlign", "verticalAlign"),
    *("paddingLeft", "paddingTop", "marginTop", "marginBottom", "maxWidth", "width", "height", "tableLayout"),
    *("borderBottomWidth", "borderTopWidth", "display"),
)
STYLES = """[...document.querySelectorAll(".initscope")].map((root) => [...root.querySelectorAll(%s)].map((element) => {
  const style = getComputedStyle(element);
  return [element.tagName + "." + element.getAttribute("class"), ...%s.map((name) => name + ": " + style[name])];
}))"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def cell(report, host, scheme):
    sheet, body, output = HOSTS[host]
    style = (SHEETS / sheet).read_text(encoding="utf-8") if sheet else ""
    body = body.format(light="true" if scheme == "light" else "false", scheme=scheme)
    shown = report._repr_html_()
    return (
        f"<!DOCTYPE html><meta charset='utf-8'><style>{style}</style><body {body} style='margin: 0'>"
        f"<div class='{output}' style='width: 900px'>{shown}</div></body>"
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("host", ["jupyter", "vscode", "contrast"])
def test_the_notebook_does_not_change_the_report(browser, reports, tmp_path, host, scheme):
    """The notebook's theme is followed, also where the reader's system prefers the other one."""
    styles = {}
    for where in (host, "alone"):
        page = tmp_path / f"{where}.html"
        page.write_text(cell(reports[60], where, scheme), encoding="utf-8")
        prefers_dark = (scheme == "dark") == (where == "alone")
        tab = browser.tab(page.as_uri(), dark=prefers_dark)
        assert tab.complaints() == []
        styles[where] = tab.run(STYLES % (json.dumps(LOOKED_AT), json.dumps(NAMES)))
        assert tab.run("document.querySelector('.initscope').classList.contains('live')")
        heights = "[...document.querySelectorAll('.fold')].map((line) => line.offsetHeight)"
        assert max(tab.run(heights)) < 30  # each on one line
        tab.close()
    (embedded,), (alone,) = styles[host], styles["alone"]
    assert len(embedded) == len(alone) > 500
    pairs = zip(embedded, alone, strict=True)
    assert [[got[0], *set(got) ^ set(meant)] for (got, meant) in pairs if got != meant] == []


def test_two_reports_in_one_notebook_do_not_disturb_each_other(browser, reports, tmp_path):
    page = tmp_path / "two.html"
    page.write_text(cell(reports[60], "jupyter", "light") + cell(reports[3], "jupyter", "light"), encoding="utf-8")
    tab = browser.tab(page.as_uri())
    tab.click(".initscope [data-only=weights]")
    counts = tab.run(
        "[...document.querySelectorAll('.initscope')].map((root) =>"
        " [...root.querySelectorAll('.row')].filter((row) => row.offsetParent !== null).length)"
    )
    assert counts == [30, 3]
    assert tab.complaints() == []
    tab.close()
