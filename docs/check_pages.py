"""Write a page for every check into ``docs/checks``, and their index, from the registry and ``check_examples.toml``.

Sphinx calls it when a build begins; ``python docs/check_pages.py`` does the same by hand.
"""

from __future__ import annotations

import re
import textwrap
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
FAMILIES = {
    "IS1": "Signal",
    "IS2": "Head and loss",
    "IS3": "Dependence and parameters",
    "IS4": "Trial",
    "IS5": "Weights and initialization",
    "IS6": "Data and targets",
    "IS7": "Number formats",
    "IS8": "Structure",
}


def write_pages(folder: Path) -> None:
    """Write all pages and the index."""
    from initscope.inspection import checks

    examples = tomllib.loads((HERE / "check_examples.toml").read_text(encoding="utf-8"))
    folder.mkdir(exist_ok=True)
    for check in checks():
        (folder / f"{check.code}.rst").write_text(_page(check, examples[check.code]), encoding="utf-8")
    (folder / "index.rst").write_text(_index(checks(), examples["setup"]), encoding="utf-8")
    (folder / "thresholds.rst").write_text(_thresholds(checks()), encoding="utf-8")


def _thresholds(checks) -> str:
    rows = [(check.code, check.name, f"{check.threshold:g}", check.unit, f"``{check.option}``")
            for check in checks if check.unit]  # fmt: skip
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in [("code", "name", "threshold", "compared with", "name in ``Thresholds``"), *rows]:
        lines += [f"   {'*' if position == 0 else ' '} - {cell}" for position, cell in enumerate(row)]
    introduction = "The table lists the checks that have a threshold. ``Thresholds(collapse=0.2)`` sets another value."
    return "\n\n".join([_title("Thresholds of the checks", "="), introduction, "\n".join(lines)]) + "\n"


def _page(check, example) -> str:
    levels = [f"Level: **{check.level}**."]
    if check.learning:
        levels.append(f"If the trial learns: {check.learning}.")
    if check.stuck:
        levels.append(f"If the trial does not learn, or the fix clearly helps: {check.stuck}.")
    if check.unit:
        levels.append(f"Threshold: {check.threshold:g} ({check.unit}), ``Thresholds({check.option}=…)``.")
    if check.reads:
        levels.append(f"Needs: {', '.join(check.reads)}.")
    parts = [
        _title(f"{check.code} {check.name}", "="),
        f"{check.summary}.",
        " ".join(levels),
        _title("Why it matters", "-"),
        f"{_sentence(check.why)}.",
    ]
    if check.advice and "{advice}" not in check.advice:
        parts += [_title("What to do", "-"), f"{_sentence(_plain(check.advice))}."]
    parts += [_title("Failing", "-"), _code(example["wrong"]), _title("Fixed", "-"), _code(example["right"])]
    parts += ["Both examples start with the setup code of :doc:`index`. The test suite runs both."]
    parts += [_title("When it is wrong", "-"), example["limits"]]
    if check.references:
        parts += [_title("References", "-"), "; ".join(check.references) + "."]
    return "\n\n".join(parts) + "\n"


def _index(checks, setup: str) -> str:
    parts = [
        _title("All checks", "="),
        "Every finding of `initscope.inspect` has one of these codes. ``--select``, ``--ignore`` and ``--fail-on`` "
        "accept codes, prefixes such as ``IS2``, and names. `initscope.inspection.checks` returns the same list.",
    ]
    for prefix, title in FAMILIES.items():
        rows = [check for check in checks if check.code.startswith(prefix)]
        lines = ["   * - code", "     - name", "     - level", "     - what it checks"]
        for check in rows:
            lines += [f"   * - :doc:`{check.code}`", f"     - ``{check.name}``", f"     - {check.level}"]
            lines += [f"     - {check.summary}"]
        table = "\n".join([".. list-table::", "   :header-rows: 1", "   :widths: 10 20 10 60", "", *lines])
        parts += [_title(f"{prefix}xx: {title}", "-"), table]
    tree = "\n".join([".. toctree::", "   :hidden:", "", "   thresholds", *(f"   {check.code}" for check in checks)])
    return "\n\n".join([*parts, _title("Setup of the examples", "-"), _code(setup), tree]) + "\n"


def _title(text: str, line: str) -> str:
    return f"{text}\n{line * len(text)}"


def _code(text: str) -> str:
    return ".. code-block:: python\n\n" + textwrap.indent(text.strip("\n"), "    ")


def _plain(text: str) -> str:
    """Advice without the fields that a report fills in."""
    words = {"{initializer}": "he_", "{keeping}": "looks_linear_", "{at}": "it", "{suggested:.2g}": "that size"}
    for field, word in words.items():
        text = text.replace(field, word)
    return text


def _sentence(text: str) -> str:
    """Return a text with a capital letter; names that end in an underscore, which links do too, become code."""
    text = re.sub(r"(?<!`)\b[\w.]*\w_(?:\([^)]*\)|(?=\W|$))", r"``\g<0>``", text)
    return text[:1].upper() + text[1:]


if __name__ == "__main__":
    write_pages(HERE / "checks")
