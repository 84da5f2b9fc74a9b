"""The protocol of reproductions: every one runs small, says whether it agrees, and has a picture."""

import ast
from dataclasses import replace
from pathlib import Path

import pytest

import initscope
from initscope.errors import InputError, MissingDependencyError
from initscope.reproductions import Declared, Number, all_reproductions, get
from initscope.reproductions.protocol import published, published_rounding
from initscope.results import Result


@pytest.mark.parametrize("id", all_reproductions())
def test_every_reproduction_runs_small_and_keeps_the_protocol(id):
    declared = get(id)
    assert set(declared.describe()) == {"id", "source", "statement", "published"}
    try:
        shown = declared.run(scale="small")
    except MissingDependencyError as error:
        pytest.skip(str(error))
    possible = ("agrees", "not comparable") + (("not confirmed",) if declared.contrary else ())
    assert shown.status in possible, shown.why
    assert shown.rows
    assert {"id", "status", "ours", "published", "seconds"} <= set(shown.to_dict())
    assert shown.figure().axes
    assert [row["number"] for row in shown.table()] == list(shown.ours)


class Told(Result):
    def __init__(self, value):
        self.value = value

    def to_dict(self):
        return {"value": self.value}


def declared(**changes):
    base = Declared("injectivity-thresholds", "a test", "none", Told, lambda told: {"union": told.value}, small={})
    return replace(base, **changes)


def judged(value, error=None, **changes):
    """The judgement on the union threshold alone."""
    numbers = {name: Number(number) for name, number in published("injectivity-thresholds").items()}
    shown = declared(
        small={"value": Number(value, error)}, numbers=lambda told: numbers | {"union": told.value}, **changes
    )
    return shown.run().status


def test_agreement_is_within_three_errors_and_the_printed_digits():
    assert published_rounding("injectivity-thresholds", "union") == 0.005
    assert judged(9.094) == "agrees"
    assert judged(9.096) == "differs"
    assert judged(9.15, 0.02) == "agrees"
    assert judged(9.16, 0.02) == "differs"
    assert judged(9.09, holds=lambda told: False) == "not confirmed"
    assert judged(9.09, contrary=lambda ours: "larger" if ours["union"].value > 9.1 else "") == "agrees"
    assert judged(9.2, contrary=lambda ours: "larger" if ours["union"].value > 9.1 else "") == "not confirmed"
    assert judged(9.2, contrary=lambda ours: "larger", incomparable="other data") == "not confirmed"
    assert judged(9.09, incomparable="other data") == "not comparable"
    assert judged(9.09, small_incomparable="other data") == "not comparable"
    full = {"value": Number(9.09)}
    numbers = {name: Number(number) for name, number in published("injectivity-thresholds").items()}
    shown = declared(full=full, numbers=lambda told: numbers, small_incomparable="other data")
    assert shown.run(scale="full").status == "agrees"


def test_own_data_is_not_compared_with_published_numbers():
    with pytest.raises(InputError, match="takes no data"):
        get("injectivity-thresholds").run(data=[1])
    with pytest.raises(InputError, match="scale = 'huge'"):
        get("injectivity-thresholds").run(scale="huge")
    with pytest.raises(InputError, match="did you mean norms-figure-1"):
        get("norms-figure1")


def test_no_published_number_is_typed_into_the_code():
    """The numbers of published.toml that have three digits or more stand in no file of the room."""
    told = {
        text
        for id in all_reproductions()
        for text in map(str, (published(id) or {}).values())
        if len(text.replace(".", "")) >= 4
    }
    assert told
    for path in (Path(initscope.__file__).parent / "reproductions").glob("*.py"):
        constants = {str(n.value) for n in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(n, ast.Constant)}
        assert not told & constants, path
