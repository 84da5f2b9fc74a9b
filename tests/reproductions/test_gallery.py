"""The gallery: one page of reproductions, resumable, with failures shown and not stopping the others."""

import json
import re
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from initscope.cli import main
from initscope.errors import InputError
from initscope.reproductions import Declared, Number, all_reproductions, gallery, reproduce
from initscope.reproductions.registry import matching
from initscope.results import Result

SWIFT = ["cnn-resolution", "talk-tessellation"]


@dataclass(frozen=True)
class Drawn(Result):
    value: float


def fake(id, value=1.0, error=None):
    """A reproduction that shows one number, or raises."""
    runs = []

    def produce(seed=7):
        runs.append(seed)
        if error is not None:
            raise error
        return Drawn(value)

    shown = Declared(id, "A 2000, a test", "One number.", produce, lambda d: {"value": Number(d.value, 0.5)})
    return replace(shown, holds=lambda d: d.value > 0), runs


@pytest.fixture
def three(monkeypatch):
    """Three reproductions, the second of which fails."""
    made = [fake("first"), fake("second", error=InputError("no data here; set INITSCOPE_DATA")), fake("third", -1.0)]
    known = {shown.id: shown for shown, _ in made}
    monkeypatch.setattr(gallery, "all_reproductions", lambda: known)
    monkeypatch.setattr(gallery, "get", known.__getitem__)
    return {shown.id: runs for shown, runs in made}


def test_a_failing_reproduction_is_shown_and_stops_no_other(three, tmp_path):
    found = reproduce(out=tmp_path)
    assert [row["status"] for row in found.results()] == ["agrees", "failed", "not confirmed"]
    assert found.failed == ("second",)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "no data here; set INITSCOPE_DATA" in page
    assert "seed 7" in page
    assert "Not confirmed: the statement does not hold here." in page
    assert 'class="status not-confirmed"' in page
    assert "3 reproductions at scale small: 1 agrees, 1 failed, 1 not confirmed." in page
    assert json.loads((tmp_path / "results.json").read_text(encoding="utf-8")) == found.results()


def test_a_run_goes_on_where_it_stopped(three, tmp_path):
    """What is done is not run again; what failed, was damaged, or is asked for again is."""
    reproduce(["first"], out=tmp_path)
    again = reproduce(out=tmp_path)
    assert {id: len(runs) for id, runs in three.items()} == {"first": 1, "second": 1, "third": 1}
    assert "<svg viewBox" in again.reproductions[0].svg
    reproduce(out=tmp_path)
    assert {id: len(runs) for id, runs in three.items()} == {"first": 1, "second": 2, "third": 1}
    (tmp_path / "first.json").write_text("{", encoding="utf-8")
    (tmp_path / "third.svg").unlink()
    reproduce(out=tmp_path)
    assert {id: len(runs) for id, runs in three.items()} == {"first": 2, "second": 3, "third": 2}
    reproduce(["first"], out=tmp_path, again=True)
    reproduce(["first"], out=tmp_path, scale="full")
    assert len(three["first"]) == 4


def test_results_of_other_code_are_computed_again(three, tmp_path, monkeypatch):
    """Only edits of the reproduction's own file were noticed."""
    reproduce(["first"], out=tmp_path)
    monkeypatch.setattr(gallery, "code_digest", lambda: "edited")
    reproduce(["first"], out=tmp_path)
    assert len(three["first"]) == 2


def test_a_result_of_someone_else_names_no_other_file(three, tmp_path):
    """The page showed any SVG of the user whose path a crafted result named."""
    reproduce(["first"], out=tmp_path / "out")
    (tmp_path / "private.svg").write_text('<svg viewBox="0 0 1 1">private</svg>', encoding="utf-8")
    stored = tmp_path / "out" / "first.json"
    entry = json.loads(stored.read_text(encoding="utf-8"))
    for path in ("../private.svg", str(tmp_path / "private.svg")):
        stored.write_text(json.dumps(entry | {"svg": path}), encoding="utf-8")
        reproduce(["first"], out=tmp_path / "out")
        assert "private" not in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert len(three["first"]) == 1


def test_processes_find_what_one_finds(tmp_path):
    """Real reproductions, which workers import by themselves; numbers are those of one process, to rounding."""
    alone, crew = reproduce(SWIFT, out=tmp_path / "alone"), reproduce(SWIFT, out=tmp_path / "crew", workers=2)
    for one, other in zip(alone.reproductions, crew.reproductions, strict=True):
        assert (one.id, one.status, one.key) == (other.id, other.status, other.key)
        for name, number in one.ours.items():
            assert other.ours[name]["value"] == pytest.approx(number["value"], rel=1e-9)
    lines = []
    assert reproduce(SWIFT, out=tmp_path / "crew", workers=2, progress=lines.append).reproductions == crew.reproductions
    assert lines == [f"{shown.id}: {shown.status} (from an earlier run)" for shown in crew.reproductions]
    with pytest.raises(InputError, match="workers = 0"):
        reproduce(SWIFT, out=tmp_path / "crew", workers=0)


class Page(HTMLParser):
    """Ids and links of a page, and what it would fetch."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.fetched = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.ids += [value for name, value in attributes.items() if name == "id"]
        self.links += [attributes.get("href")] * (tag == "a")
        sources = [attributes.get(name) for name in ("src", "href", "xlink:href") if tag != "a"]
        self.fetched += [source for source in sources if source and not source.startswith(("#", "data:"))]


def test_the_page_stands_alone_with_contents_and_deep_links(tmp_path):
    reproduce(SWIFT, out=tmp_path)
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    page = Page(text)
    assert not page.fetched
    assert len(page.ids) == len(set(page.ids))
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)
    assert set(SWIFT) <= set(page.ids)
    assert text.count("<svg") == len(SWIFT)
    assert "<script" not in text
    for id in SWIFT:
        assert (
            (tmp_path / f"{id}.svg").read_text(encoding="utf-8").startswith('<svg xmlns="http://www.w3.org/2000/svg"')
        )


def test_figure_files_need_no_css_variables_and_the_page_keeps_them(tmp_path):
    """Viewers of SVG files draw no CSS variables; the page, also of a resumed run, has colors for light and dark."""
    (first,) = reproduce(["injectivity-energy"], out=tmp_path).reproductions
    assert "var(--" not in (tmp_path / "injectivity-energy.svg").read_text(encoding="utf-8")
    (resumed,) = reproduce(["injectivity-energy"], out=tmp_path).reproductions
    assert resumed.svg == first.svg


def test_the_command_lists_runs_and_refuses(tmp_path, capsys):
    main(["reproduce", "--list", "--format", "json"])
    listed = json.loads(capsys.readouterr().out)
    fields = {"id", "source", "statement", "published", "full_scale"}
    assert [set(entry) for entry in listed] == [fields] * len(all_reproductions())
    subsets = next(entry for entry in listed if entry["id"] == "talk-training-subsets")
    assert subsets["full_scale"]["status"] == "not confirmed"
    assert "at class boundaries is higher" in subsets["full_scale"]["why"]
    main(["reproduce", "--list", "--format", "csv"])
    assert "not confirmed: the test error after training" in capsys.readouterr().out
    assert [told["id"] for told in listed] == list(all_reproductions())
    main(["reproduce", "cnn-resolution", "--scale", "small", "--out", str(tmp_path / "g"), "--format", "json"])
    shown = capsys.readouterr()
    results = json.loads(shown.out)
    assert all("initscope" in result.pop("versions") for result in results)
    assert results == json.loads((tmp_path / "g" / "results.json").read_text(encoding="utf-8"))
    assert set(results[0]) == {"id", "status", "why", "ours", "published", "seconds"}
    assert re.search(r"1/1 cnn-resolution: agrees", shown.err)
    for wrong, told in (
        (["reproduce"], "--list shows their names"),
        (["reproduce", "cnn-resolution", "--all"], "not both"),
        (["reproduce", "cnn-resolutoin"], "did you mean cnn-resolution"),
    ):
        with pytest.raises(SystemExit) as left:
            main(wrong)
        assert left.value.code == 2
        assert told in capsys.readouterr().err


def test_the_command_leaves_with_1_when_one_failed(three, tmp_path, capsys):
    with pytest.raises(SystemExit) as left:
        main(["reproduce", "--all", "--out", str(tmp_path)])
    assert left.value.code == 1
    said = capsys.readouterr().err
    assert "failed: second" in said
    assert "no data here; set INITSCOPE_DATA" in said


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("cnn-figure-1", ("cnn-figure-1",)),
        ("cnn theorem 3", ("cnn-remark-2",)),
        ("norms lemma 3", ("norms-lemma-3",)),
        ("sign embedding", ("talk-sign-embedding",)),
    ],
)
def test_a_statement_names_its_reproductions(name, ids):
    assert matching(name) == ids


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("theorem 3", "statement of 2 sources.* cnn: cnn-remark-2; norms: norms-equation-20"),
        ("cnn theorem 6", "has no reproduction.*initscope theorem cnn theorem 6"),
        ("cnn theorem 99", "no statement matches"),
        ("cnn-figre-1", "did you mean cnn-figure-1"),
    ],
)
def test_a_name_that_is_not_one_reproduction_is_refused_with_those_that_are_meant(name, message, tmp_path):
    with pytest.raises(InputError, match=message):
        reproduce([name], out=tmp_path)


def test_what_is_left_out_has_its_reason():
    assert all(set(told) == {"source", "what", "why"} for told in gallery.left_out())


def test_the_documentation_shows_every_reproduction_once():
    """Its tables are made of all reproductions whose name begins with a word: each begins with exactly one of them."""
    page = (Path(__file__).parents[2] / "docs" / "reproduce.rst").read_text(encoding="utf-8")
    words = re.findall(r"^\.\. reproduction-index:: (\S+)$", page, flags=re.M)
    assert all(sum(id.startswith(word) for word in words) == 1 for id in all_reproductions())
    assert len(all_reproductions()) >= 40


def test_a_flat_picture_of_one_panel_is_not_blown_up(tmp_path):
    """The line of thresholds is three times as wide as high and one panel: its text keeps the size of the others'."""
    (thresholds,) = reproduce(["injectivity-thresholds"], out=tmp_path / "one").reproductions
    (tightness,) = reproduce(["norms-figure-2"], out=tmp_path / "two").reproductions
    assert not thresholds.wide
    assert tightness.wide
    assert "1 reproduction at scale small: 1 agrees." in (tmp_path / "one" / "index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("suffix", ["pdf", "svg", "png"])
def test_the_figure_of_one_reproduction(tmp_path, suffix, capsys):
    path = tmp_path / f"figure.{suffix}"
    main(["reproduce", "cnn-resolution", "--figure", str(path)])
    beginning = {"pdf": b"%PDF", "svg": b"<?xml", "png": b"\x89PNG"}[suffix]
    assert path.read_bytes().startswith(beginning)
    assert "cnn-resolution" in capsys.readouterr().out
    assert not (tmp_path / "gallery").exists()


def test_a_figure_is_of_one_reproduction(tmp_path, capsys):
    with pytest.raises(SystemExit) as left:
        main(["reproduce", "cnn-resolution", "talk-layer-theorem", "--figure", str(tmp_path / "x.pdf")])
    assert left.value.code == 2
    assert "2 reproductions are named" in capsys.readouterr().err
