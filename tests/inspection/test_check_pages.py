"""Every check has a page: its failing example reports the code, its fixed example does not."""

import importlib.util
import tomllib
from pathlib import Path

import pytest

import initscope

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = tomllib.loads((DOCS / "check_examples.toml").read_text(encoding="utf-8"))
CODES = [check.code for check in initscope.inspection.checks()]


def findings(code, version):
    names = {}
    exec(EXAMPLES["setup"], names)
    exec(EXAMPLES[code][version], names)
    return {finding.code: finding for finding in names["report"].findings}


def test_every_check_has_examples_and_says_when_it_is_wrong():
    assert set(EXAMPLES) == {"setup", *CODES}
    assert len(set(CODES)) == len(CODES)
    assert all(EXAMPLES[code]["limits"] for code in CODES)


@pytest.mark.parametrize("code", CODES)
def test_the_failing_example_reports_the_code_and_the_fixed_one_does_not(code):
    found = findings(code, "wrong").get(code)
    assert found is not None
    assert found.message.endswith((".", "?")) or code == "IS205"
    assert "{" not in found.message
    assert found.level in ("error", "warning", "info")
    assert code not in findings(code, "right")


@pytest.mark.parametrize("check", initscope.inspection.checks(), ids=CODES)
def test_a_declaration_is_complete_and_short(check):
    import inspect

    source = inspect.getsource(check.test)
    assert len(source[source.index("\ndef ") :].strip().splitlines()) <= 25
    assert check.summary
    assert check.why
    assert not check.why.endswith(".")
    assert check.level == "info" or check.advice


def test_pages_are_written_for_every_check(tmp_path):
    spec = importlib.util.spec_from_file_location("check_pages", DOCS / "check_pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.write_pages(tmp_path)
    assert {path.stem for path in tmp_path.glob("IS*.rst")} == set(CODES)
    text = (tmp_path / "IS201.rst").read_text(encoding="utf-8")
    for part in ("loss-floor", "Why it matters", "Failing", "Fixed", "When it is wrong"):
        assert part in text
    index = (tmp_path / "index.rst").read_text(encoding="utf-8")
    assert all(f":doc:`{code}`" in index for code in CODES)


def test_the_page_of_thresholds_has_every_check_that_has_one(tmp_path):
    from initscope.inspection import Thresholds, checks

    spec = importlib.util.spec_from_file_location("check_pages", DOCS / "check_pages.py")
    pages = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pages)
    pages.write_pages(tmp_path)
    text = (tmp_path / "thresholds.rst").read_text(encoding="utf-8")
    limits = Thresholds().to_dict()
    assert len(limits) > 10
    for check in checks():
        assert (f"- {check.code}\n" in text) is bool(check.unit)
        assert not check.unit or f"- {limits[check.option]:g}\n     - {check.unit}\n" in text
