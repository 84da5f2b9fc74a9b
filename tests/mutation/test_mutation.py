"""Operators change programs, samples follow the lines, and runs on a small project name what no test notices."""

import ast
import json
import multiprocessing
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from mutation.operators import mutants
from mutation.sampling import TWICE, nearest, sample

ROOT = Path(__file__).parents[2]
PROGRAM = '''"""A docstring with 2 numbers."""
def scaled(values: list[2], äußeres=1.5):
    if not values or len(values) < 3:
        raise ValueError(f"{len(values) - 1} values")
    values.sort()
    return values[-1] * äußeres
'''


def test_each_operator_makes_programs_that_differ_in_one_place():
    changes = {(mutant.kind, mutant.old, mutant.new) for mutant in mutants(PROGRAM)}
    assert changes == {
        ("constant", "1.5", "3.0"),
        ("boolean", "not values or len(values) < 3", "(not values and len(values) < 3)"),
        ("boolean", "not values", "(values)"),
        ("comparison", "len(values) < 3", "(len(values) <= 3)"),
        ("constant", "3", "4"),
        ("dropped raise", 'raise ValueError(f"{len(values) - 1} values")', "pass"),
        ("dropped call", "values.sort()", "pass"),
        ("return", "return values[-1] * äußeres", "return None"),
        ("arithmetic", "values[-1] * äußeres", "(values[-1] / äußeres)"),
        ("constant", "1", "2"),
    }
    assert {mutant.function for mutant in mutants(PROGRAM)} == {"scaled"}
    for mutant in mutants(PROGRAM):
        assert ast.dump(ast.parse(mutant.applied(PROGRAM))) != ast.dump(ast.parse(PROGRAM))


def project(folder, lines):
    """A repository with the package ``initscope`` of modules with this number of lines."""
    source = folder / "src" / "initscope"
    source.mkdir(parents=True)
    for name, count in lines.items():
        (source / f"{name}.py").write_text("value = 1\n" * count)
    return folder


def test_a_sample_follows_the_lines_and_counts_some_packages_twice(tmp_path):
    places = sample(project(tmp_path, {"cli": 30, TWICE[0]: 30, "data": 10}), 20)
    assert Counter(place.package for place in places) == {"cli": 6, TWICE[0]: 12, "data": 2}
    assert len(set(places)) == 20


def test_the_nearest_tests_begin_with_the_file_itself_and_its_mirror():
    places = {place.path: place for place in sample(ROOT, 300)}
    path = "src/initscope/theory/attention.py"
    files = nearest(ROOT, places.get(path) or next(place for place in places.values() if "theory/" in place.path))
    assert files[0].startswith("src/initscope/theory/")
    assert any(name.startswith("tests/theory/") for name in files[1:3])


RUN = """
import json, sys
from pathlib import Path
from mutation.operators import mutants
from mutation.running import Copy
root, folder = map(Path, sys.argv[1:])
path = "src/initscope/some.py"
copy = Copy(root, folder, ())
print(json.dumps({
    f"{mutant.old} {mutant.new}": copy.outcome(path, mutant, [["test_some.py"]], limit=2)[0]
    for mutant in mutants((root / path).read_text())
    if mutant.new in {"(a - b)", "(n + 1)", "8"}
}))
"""


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="tests run in forked processes")
def test_only_what_a_test_notices_is_killed_and_the_project_is_left_as_it_was(tmp_path):
    root = project(tmp_path / "project", {})
    file = root / "src" / "initscope" / "some.py"
    text = "def add(a, b):\n    return a + b\n\n\ndef count(n):\n    while n > 0:\n        n = n - 1\n    return 7\n"
    file.write_text(text)
    (root / "test_some.py").write_text(
        "import sys\n\ndef test_that_always_fails():\n    assert False\n\n"
        "def test_add():\n    sys.path.insert(0, 'src/initscope')\n    import some\n"
        "    assert some.add(2, 3) == 5\n    assert some.count(2) > 6\n"
    )
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    (tmp_path / "copy").mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-c", RUN, str(root), str(tmp_path / "copy")]
    output = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", check=True).stdout
    results = json.loads(output)
    assert results == {"a + b (a - b)": "killed", "n - 1 (n + 1)": "time", "7 8": "survived"}
    assert file.read_text() == text
    assert (tmp_path / "copy" / "src" / "initscope" / "some.py").read_text() == text
