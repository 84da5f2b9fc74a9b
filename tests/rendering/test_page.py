"""The page holds everything it shows, and asks nobody for anything."""

import base64
import html.parser
import io
import json
import re
from dataclasses import replace

import pytest
from PIL import Image

from initscope.geometry import Comparison
from initscope.rendering.page import render_page, write_page


class Collector(html.parser.HTMLParser):
    """Every tag with its attributes, and the ids."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.ids = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.ids += [value for name, value in attributes if name == "id"]

    handle_startendtag = handle_starttag


@pytest.fixture(scope="module")
def page(comparison_and_images):
    comparison, images = comparison_and_images
    return render_page(comparison, facts={"model": "conv3x3x8-relu*3", "weights": None}, images=images)


def test_nothing_is_fetched(page):
    found = Collector(page)
    assert not {tag for tag, _ in found.tags} & {"iframe", "object", "embed", "base"}
    assert all(set(attributes) <= {"type"} for tag, attributes in found.tags if tag == "script")
    assert "default-src 'none'" in page
    for tag, attributes in found.tags:
        for name in ("src", "href", "xlink:href", "srcset", "action", "data", "poster"):
            assert re.match(r"(data:|#)", attributes.get(name, "#")), (tag, name)
        assert not any(name.startswith("on") for name in attributes)
    assert not re.search(r"https?:|//[a-z]", page.replace("// ", ""))
    assert "@import" not in page
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", page))


def test_is_small_and_whole(page, comparison):
    assert len(page.encode()) < 1_000_000
    assert page.count("<svg") == page.count("</svg>") == 3
    assert page.count("data-row=") == len(comparison.rows)
    assert "A &lt;test&gt; &amp; more" in page
    assert "A <test>" not in page
    assert "weights</dt>" not in page.replace("initializer</dt>", "").replace("draws of the weights</dt>", "")
    assert re.search(r"initscope \d", page)


def test_ids_are_unique_and_references_resolve(page):
    ids = Collector(page).ids
    assert len(ids) == len(set(ids))
    references = re.findall(r'(?:href="#|url\(#)([^")]+)', page)
    assert references
    assert set(references) <= set(ids)


def test_pictures_take_the_colours_of_the_page(page):
    for picture in re.findall(r"<svg[^>]*labelledby.*?</svg>", page, re.DOTALL):
        assert set(re.findall(r"(?:fill|stroke): ([^;\"]+)", picture)) <= {
            "none",
            "currentColor",
            "var(--predicted)",
            "var(--measured)",
            "var(--third)",
            "var(--faint)",
        }
        assert "<text" in picture
        assert "font-family" not in picture


def test_thumbnails_are_the_pairs(page, comparison_and_images):
    comparison, (x, _) = comparison_and_images
    sources = re.findall(r'<img src="data:image/jpeg;base64,([^"]+)"', page)
    assert len(sources) == 12
    first = int(comparison.prediction.angle[0].argmin())
    image = Image.open(io.BytesIO(base64.b64decode(sources[0])))
    assert image.size == (12, 12)
    # JPEG is lossy and blurs colours: the mean of a channel survives to a few grey levels.
    grey = sum(image.convert("L").tobytes()) / 144
    weights = (0.299, 0.587, 0.114)
    assert grey == pytest.approx(255 * sum(w * float(c.mean()) for w, c in zip(weights, x[first])), abs=4)


def test_the_same_results_give_the_same_page(comparison, page, comparison_and_images):
    again = render_page(comparison, facts={"model": "conv3x3x8-relu*3"}, images=comparison_and_images[1])
    assert again == page


def test_vectors_have_no_thumbnails(comparison):
    import torch

    assert "<img" not in render_page(comparison, images=(torch.rand(7, 5), torch.rand(7, 5)))


def test_fragment_styles_only_itself(comparison):
    text = render_page(comparison, fragment=True)
    assert text.startswith('<div class="initscope">')
    assert "<html" not in text
    style = re.sub(r"/\*.*?\*/", "", re.search(r"<style>(.*?)</style>", text, re.DOTALL)[1])
    selectors = [part.strip() for part in re.findall(r"([^{}]+)\{", style)]
    assert len(selectors) > 50
    for selector in selectors:
        # Each reaches only into the element, and outranks what a notebook says of tables, headings and pictures.
        assert selector.startswith(("@media", "@container")) or all(
            ".initscope:not(#_)" in one for one in selector.split(", ")
        )
    assert comparison._repr_html_() == text


def test_numbers_inside_cannot_end_the_script(comparison):
    """Names of layers come from the user; a closing tag in one would end the element that holds the data."""
    rows = tuple(replace(row, layer=f"</script><b>{row.layer}") for row in comparison.prediction.rows)
    page = render_page(Comparison(replace(comparison.prediction, rows=rows)))
    data = re.search(r'<script type="application/json">(.*?)</script>', page, re.DOTALL)[1]
    assert json.loads(data)["texts"]["layer"][1] == "</script><b>conv1"
    assert "<b>conv1" not in page


def test_the_title_says_what_happened_and_the_legend_what_is_there(comparison):
    text = render_page(comparison)
    title = re.search(r"<h1>(.*?)</h1>", text)[1]
    assert re.match(r"Angles between pairs .* predicted\)$", title)
    assert f"<title>{title} · initscope</title>" in text
    assert '<p class="quiet">A &lt;test&gt; &amp; more</p>' in text
    alone = render_page(Comparison(comparison.prediction))
    assert ("</i>measured" in text, "</i>measured" in alone) == (True, False)
    assert '<span class="word">--initializer</span> zero-sum: ' in alone


def test_notes_that_differ_in_their_error_share_a_footnote(comparison):
    notes = ["", "cosine ± 0.002", "cosine ± 5e-05", "why", "cosine ± 0.001", "", ""]
    rows = tuple(replace(row, note=note) for row, note in zip(comparison.prediction.rows, notes, strict=True))
    page = render_page(Comparison(replace(comparison.prediction, rows=rows)))
    assert re.findall(r"<li>(.*?)</li>", page) == ["cosine ± 5e-05 to 0.002 (3 rows)", "why"]
    assert '<sup title="cosine ± 0.001">1</sup>' in page


def test_partly_covered(partly_covered):
    text = render_page(partly_covered)
    assert "LocalResponseNorm has no rule" in text
    shown = re.sub(r"<style>.*?</style>|<script.*?</script>|covarianc", "", text, flags=re.DOTALL)
    assert "nan" not in shown.lower()
    assert "NaN" not in text


def test_written_files(comparison, tmp_path):
    write_page(tmp_path / "deep" / "page.html", comparison)
    text = comparison.to_html(tmp_path / "other.html").read_text(encoding="utf-8")
    assert (tmp_path / "other.html").read_text(encoding="utf-8") == text
    assert (tmp_path / "deep" / "page.html").read_text(encoding="utf-8") == text
