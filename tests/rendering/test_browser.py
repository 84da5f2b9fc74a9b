"""Pages in a browser, as a reader uses them: hover, sort, fold, copy, filter, export; three widths, light and dark."""

import csv
import io
import json
import re

import numpy as np
import pytest
import torch
from chromium import PROGRAM, Browser
from PIL import Image

import initscope
from initscope.rendering import write_page

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium on this machine")

WIDTHS = {390: 844, 1280: 900, 1920: 1080}
PAPER = {False: (251, 251, 249), True: (21, 23, 26)}
SHOWN = "[...document.querySelectorAll('.row')].filter((row) => row.offsetParent !== null)"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        opened.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
        yield opened


@pytest.fixture
def tab(browser, report_pages):
    """Open pages, and close them at the end."""
    opened = []

    def opening(page, *arguments, **options):
        path = report_pages[page] if isinstance(page, int) else page
        opened.append(browser.tab(path.as_uri(), *arguments, **options))
        return opened[-1]

    yield opening
    for one in opened:
        one.close()


def pixels(tab, path):
    tab.picture(path, whole=False)
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB")).astype(int)


def shown_rows(tab):
    return tab.run(f"{SHOWN}.map((row) => Number(row.dataset.row))")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("rows", [3, 60, 400])
def test_every_page_is_alive_everywhere(tab, report_pages, reports, rows, width, dark, tmp_path):
    report = reports[rows]
    assert rows <= len(report.rows) <= rows + 1
    assert report_pages[rows].stat().st_size < 1_000_000
    page = tab(rows, width, WIDTHS[width], dark=dark)
    assert page.run("document.title").startswith(report.headline)
    assert page.run("document.documentElement.scrollWidth") == width
    assert tuple(pixels(page, tmp_path / "top.png")[2, 2]) == PAPER[dark]
    hovers(page, report)
    sorts(page, report)
    folds(page)
    filters(page, report)
    if not report.healthy:
        copies(page, report)
    page.run("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    assert page.run("document.documentElement.scrollWidth") == width
    assert page.complaints() == []


@pytest.mark.parametrize("width", WIDTHS)
def test_the_columns_of_attention_stay_in_their_box(tab, width, tmp_path):
    """Twice as many columns as others have: the box scrolls, the page does not, and the header stays."""
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True, norm_first=True)
    report = initscope.inspect(layer, torch.randn(24, 6, 16), pairs=8, alternatives=False)
    path = tmp_path / "attention.html"
    report.to_html(path)
    page = tab(path, width, WIDTHS[width])
    assert page.run("document.documentElement.scrollWidth") == width
    assert page.run("document.querySelector('[data-sort=attention_entropy_measured]').offsetParent !== null")
    table = "document.querySelector('.layers .table')"
    assert page.run(f"{table}.getBoundingClientRect().right") <= width
    assert page.complaints() == []


def hovers(page, report):
    """The layer under the pointer, its value and its error, as the report has them."""
    index = len(report.rows) // 2
    while report.rows[index].role != "weights":
        index -= 1
    x, y = page.place(".panel[data-panel='2'] .plot", (index + 0.5) / len(report.rows))
    page.move(x, y)
    said = page.run("document.querySelector('.tip').innerText")
    assert said.startswith(report.rows[index].title)
    angle = report.observation.angle[index]
    below, value, error = re.search(r"angle\s+(<?)([\d.e-]+)(?: ± ([\d.e-]+))?", said).groups()
    if below:
        assert angle.mean() < float(value) == 1e-5  # of which nothing but rounding is left
    else:
        assert float(value) == pytest.approx(angle.mean(), rel=2e-3)
    if error is not None:
        assert float(error) == pytest.approx(angle.std(ddof=1) / np.sqrt(len(angle)), rel=5e-2)
    assert "RMS ratio" in said or report.rows[index].role == "weights"
    box = page.run(
        "(() => { const b = document.querySelector('.tip').getBoundingClientRect(); return [b.left, b.right]; })()"
    )
    assert 0 <= box[0] < box[1] <= page.run("innerWidth")
    page.move(1, 1)
    assert page.run("document.querySelector('.tip').hidden")


def sorts(page, report):
    """Upwards, downwards, and back to the order of the layers; rows without a number stand last."""
    before = page.run("[...document.querySelectorAll('.row')].map((row) => Number(row.dataset.row))")
    assert before == list(range(len(report.rows)))
    ranks = report.observation.effective_rank
    for direction in (1, -1):
        page.click("th[data-sort='effective_rank']")
        order = shown_rows(page)
        assert sorted(order) == before
        values = ranks[order]
        known = values[np.isfinite(values)]
        assert np.all(np.diff(direction * known.round(4)) >= -1e-3)
        assert not np.isfinite(values[len(known) :]).any()
    page.click("th[data-sort='effective_rank']")
    assert page.run("[...document.querySelectorAll('.row')].map((row) => Number(row.dataset.row))") == before


def folds(page):
    counts = {}
    for action in ("open", "close"):
        if page.run(f"document.querySelector('[data-do={action}]') === null"):
            return
        page.click(f"[data-do={action}]")
        counts[action] = len(shown_rows(page))
    assert counts["open"] > counts["close"]
    page.click(".fold button")
    assert len(shown_rows(page)) > counts["close"]
    page.click(".fold button")
    assert len(shown_rows(page)) == counts["close"]


def filters(page, report):
    """And without them what was folded is folded again."""
    before = shown_rows(page)
    page.click("[data-only=weights]")
    weights = [index for index, row in enumerate(report.rows) if row.role == "weights"]
    assert shown_rows(page) == weights
    assert page.run("document.querySelector('[role=status]').innerText") == f"{len(weights)} of {len(report.rows)} rows"
    page.click("[data-only=weights]")
    page.write("input[type=search]", "ReLU")
    assert shown_rows(page) == [index for index, row in enumerate(report.rows) if "ReLU" in row.title]
    page.run(
        "{ const i = document.querySelector('input[type=search]'); i.value = ''; i.dispatchEvent(new Event('input')); }"
    )
    assert shown_rows(page) == before
    if report.healthy:
        assert page.run("document.querySelector('[data-only=fault]') === null")
        return
    page.click("[data-only=fault]")
    assert {report.rows[index].layer for index in shown_rows(page)} >= {v.layer for v in report.errors}
    assert len(shown_rows(page)) < len(report.rows)
    page.click("[data-only=fault]")


def copies(page, report):
    page.call("Page.bringToFront")
    page.click(".type .copy")
    page.run("new Promise((done) => setTimeout(done, 50))")
    assert page.run("document.querySelector('.type .copy').innerText") == "copied"
    code = report.fix.code
    assert page.run("navigator.clipboard.readText()") == f"import initscope\n{code}"


def test_a_click_on_a_point_opens_the_row_of_its_layer(tab, reports):
    page, report = tab(400), reports[400]
    index = 301
    assert index not in shown_rows(page)
    page.click(".panel[data-panel='1'] .plot", (index + 0.5) / len(report.rows))
    assert index in shown_rows(page)
    assert page.run("document.querySelector('tr.here').dataset.row") == str(index)
    top, bottom = page.run(
        "(() => { const b = document.querySelector('tr.here').getBoundingClientRect(); return [b.top, b.bottom]; })()"
    )
    assert 0 < top < bottom < 900
    # Sorted and filtered by something else, it is found all the same.
    page.write("input[type=search]", "nothing is called so")
    page.click("th[data-sort='effective_rank']")
    page.click(".panel[data-panel='1'] .plot", (index + 0.5) / len(report.rows))
    assert index in shown_rows(page)


def test_the_keyboard_reaches_everything(tab, reports):
    page = tab(60)
    page.run("document.querySelector('.depth').focus()")
    for key in ("ArrowRight", "ArrowRight", "Enter"):
        page.call("Input.dispatchKeyEvent", type="keyDown", key=key)
    assert page.run("document.querySelector('tr.here').dataset.row") == "1"
    assert page.run("document.querySelector('.tip strong').innerText") == reports[60].rows[1].title
    for key, order in (("Enter", "ascending"), (" ", "descending")):
        page.run("document.querySelector('th[data-sort=effective_rank]').focus()")
        page.call("Input.dispatchKeyEvent", type="keyDown", key=key)
        assert page.run("document.activeElement.getAttribute('aria-sort')") == order


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_the_table_is_exported_from_the_page(tab, browser, reports, tmp_path, kind):
    page, report = tab(60), reports[60]
    browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path), eventsEnabled=True)
    del browser.events[:]
    page.click(f"[data-do={kind}]")
    while not any(e.get("params", {}).get("state") == "completed" for e in browser.events):
        browser.events.append(browser.message())
    text = (tmp_path / f"layers.{kind}").read_text(encoding="utf-8")
    rows = json.loads(text)["rows"] if kind == "json" else list(csv.DictReader(io.StringIO(text)))
    assert [row["layer"] for row in rows] == [row.layer for row in report.rows]
    for row, expected in zip(rows, report.table(), strict=True):
        value = row["rms_ratio_measured"]
        assert float(value) == pytest.approx(expected["rms_ratio_measured"], rel=1e-5)
        assert row["kind"] == expected["kind"]


def test_two_hundred_layers_are_under_five_screens(tab):
    for width, height in list(WIDTHS.items())[1:]:
        assert tab(400, width, height).run("document.documentElement.scrollHeight") < 5 * height


def test_blocks_with_a_problem_are_open(tab, reports):
    shown = set(shown_rows(tab(400)))
    rows = {row.layer: index for index, row in enumerate(reports[400].rows)}
    assert {rows[finding.layer] for finding in reports[400].errors} <= shown
    assert len(shown) < 80


def test_the_head_of_the_table_stays(tab):
    """Scrolled into the middle of a long table, the names of the columns stand at the top of the window."""
    page = tab(400)
    page.click("[data-do=open]")
    page.run("document.querySelector('[data-row=\"300\"]').scrollIntoView({block: 'center'})")
    top = page.run("document.querySelector('.layers thead th').getBoundingClientRect().top")
    assert top == pytest.approx(0, abs=1)
    assert "layer" in page.run("document.elementFromPoint(100, 10).innerText")


@pytest.mark.parametrize("width", WIDTHS)
def test_the_table_uses_the_width(tab, width):
    """So do the findings: they stand side by side from edge to edge."""
    page = tab(60, width, WIDTHS[width])
    edge, cards = page.run(
        "(() => { const all = document.querySelector('.findings'), right = (e) => e.getBoundingClientRect().right;"
        " return [right(all), [...all.children].map(right)]; })()"
    )
    assert edge == pytest.approx(max(cards), abs=1)
    inner, outer = page.run(
        "(() => { const t = document.querySelector('.layers .table'); return [t.clientWidth, t.scrollWidth]; })()"
    )
    assert inner > 0.85 * width
    if width > 1000:
        assert outer <= inner


def test_on_a_phone_findings_stack_and_show_their_fix(tab, reports):
    page = tab(400, 390, 844)
    boxes = page.run(
        "[...document.querySelectorAll('.finding')].filter((v) => !v.parentElement.closest('details'))"
        ".map((v) => { const b = v.getBoundingClientRect(); return [b.left, b.right, b.top, b.bottom, v.innerText]; })"
    )
    serious = (*reports[400].errors, *reports[400].warnings)
    assert len(boxes) == len(serious) >= 2
    for (left, right, _, bottom, text), following in zip(boxes, [*boxes[1:], None], strict=True):
        assert 0 <= left < right <= 390
        assert "Fix:" in text or "Follows from" in text
        assert following is None or bottom <= following[2]


def test_rows_of_a_block_have_its_path_once(tab, tmp_path):
    """Below the block's line only what follows its path; sorted, where that line is not there, all of it."""

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

        def forward(self, x):
            return x + self.second(self.first(x).relu())

    torch.manual_seed(0)
    model = torch.nn.Sequential()
    model.add_module("body", torch.nn.Sequential(Block(), Block()))
    report = initscope.inspect(model, torch.randn(24, 8), pairs=8, alternatives=False)
    report.to_html(tmp_path / "blocks.html")
    page = tab(tmp_path / "blocks.html")
    page.click("[data-do=open]")
    place = [row.layer for row in report.rows].index("body.1.second")
    name = f"document.querySelector('[data-row=\"{place}\"] .name').innerText.trim()"
    assert page.run(name).split() == ["second", "(Linear)"]
    page.click("th[data-sort='effective_rank']")
    assert page.run(name).split() == ["body.1.second", "(Linear)"]


@pytest.mark.parametrize("width", WIDTHS)
def test_letters_of_pictures_can_be_read(tab, comparison_and_images, width, tmp_path):
    comparison, images = comparison_and_images
    write_page(tmp_path / "report.html", comparison, images=images)
    page = tab(tmp_path / "report.html", width, WIDTHS[width])
    heights = page.run(
        "[...document.querySelectorAll('.pair-figures svg text')].map((t) => t.getBoundingClientRect().height)"
    )
    assert heights
    assert min(heights) > 9


def test_without_scripts_everything_is_there(tab, reports):
    page = tab(400, script=False)
    assert len(shown_rows(page)) == len(reports[400].rows)
    assert page.run("document.querySelectorAll('button, input').length") == 0  # nothing that would do nothing
    assert page.run("document.querySelectorAll('.plot svg path').length") >= 5


def test_on_paper_everything_is_there(tab, reports):
    page = tab(400, dark=True)
    page.call("Emulation.setEmulatedMedia", media="print")
    assert len(shown_rows(page)) == len(reports[400].rows)
    assert page.run("getComputedStyle(document.querySelector('.tools')).display") == "none"
    assert page.run("getComputedStyle(document.querySelector('.initscope')).color") == "rgb(29, 33, 38)"
    page.resize(718, 1000)  # A4 without its margins: nothing scrolls there, so nothing may go over the edge
    page.run("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    wide = "[...document.querySelectorAll('table')].filter((one) => one.getBoundingClientRect().right > 718).length"
    assert page.run(wide) == 0


def test_the_page_of_a_comparison(tab, comparison_and_images, tmp_path):
    comparison, images = comparison_and_images
    write_page(tmp_path / "report.html", comparison, images=images)
    colours = {
        False: (PAPER[False], (37, 99, 201), (194, 65, 12)),
        True: (PAPER[True], (127, 176, 255), (255, 157, 92)),
    }
    for dark, (paper, predicted, measured) in colours.items():
        page = tab(tmp_path / "report.html", 1000, 1400, dark=dark)
        found = pixels(page, tmp_path / "page.png")
        assert tuple(found[2, 2]) == paper
        for colour in (predicted, measured):
            assert (np.abs(found - colour).max(axis=2) <= 12).sum() > 200, colour
        page.resize(390, 844)
        assert page.run("document.documentElement.scrollWidth") == 390
        assert page.complaints() == []


def test_the_check_would_see_a_request_and_an_error(tab, tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text("<img src='http://127.0.0.1:9/x.png'><script>console.error('seen')</script>")
    complaints = tab(bad).complaints()
    assert "http://127.0.0.1:9/x.png" in complaints
    assert any(isinstance(said, dict) and said.get("type") == "error" for said in complaints)
