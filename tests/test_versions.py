"""The lowest versions: what `pyproject.toml` admits is what `./run test --lowest` installs, and its tests are there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]


def pins(name):
    """Package → version of a constraints file."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    found = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {package.lower(): Version(version) for package, version in found}


def bounds():
    """Package → lowest admitted version, of what users install."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = project["dependencies"] + [
        line for extra in ("fast", "search", "data", "invert") for line in extras[extra]
    ]
    requirements = map(Requirement, wanted)
    return {each.name.lower(): Version(next(iter(each.specifier)).version) for each in requirements}


def test_the_lowest_set_is_what_is_admitted():
    assert pins("constraints-lowest.txt") == bounds()


def test_the_lowest_set_is_what_is_installed():
    """`./run test --lowest` takes no version from the ordinary set, not even that of torch."""
    run = (ROOT / "run").read_text(encoding="utf-8")
    lowest = run[run.index("--lowest ]") : run.index("exec .venv-lowest")]
    assert re.findall(r"constraints[\w-]*\.txt", lowest) == ["constraints-lowest.txt"] * 2


def test_the_usual_set_is_admitted():
    usual = pins("constraints.txt")
    assert all(usual[package] >= lowest for package, lowest in bounds().items())


def test_the_smoke_tests_exist():
    listed = re.search(r"^smoke=\((.*?)\)", (ROOT / "run").read_text(encoding="utf-8"), re.M | re.S).group(1).split()
    assert len(listed) > 5
    assert [name for name in listed if not (ROOT / name).exists()] == []


def test_the_pythons_that_are_named_are_those_that_are_tested():
    """Classifiers, the matrix of CI, and what `./run` looks for where python3 does not do."""
    named = {
        name: set(re.findall(pattern, (ROOT / name).read_text(encoding="utf-8")))
        for name, pattern in {
            "pyproject.toml": r"Python :: (3\.\d+)",
            ".github/workflows/tests.yml": r'"(3\.\d+)"',
            "run": r" python(3\.\d+)\b",
        }.items()
    }
    assert all(found == {"3.11", "3.12", "3.13"} for found in named.values()), named
