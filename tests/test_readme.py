"""The commands and programs of the README and of documentation pages run and print what the text shows."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from scripts import load_script

from initscope.cli import main
from initscope.inspection import checks

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "geometry.rst").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    (initscope .*)$", PAGE, re.MULTILINE)


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """An empty folder with the files that the examples mention."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mynet.py").write_text(
        "from torch import nn\ndef make():\n    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())\n"
    )
    layer = torch.nn.Conv2d(3, 4, 3)
    torch.save({f"0.{name}": value for name, value in layer.state_dict().items()}, "trained.pt")
    (tmp_path / "photos").mkdir()
    for number in range(30):
        pixels = np.random.default_rng(number).integers(0, 255, (64, 70, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "photos" / f"{number}.png")
    return tmp_path


@pytest.mark.parametrize("line", sorted(set(COMMANDS)))
def test_commands(workplace, line, capsys):
    main(shlex.split(line, comments=True)[1:])
    assert len(capsys.readouterr().out.splitlines()) >= 3


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A folder with nothing but the examples that come with the README, and what it says to type there."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    return load_script(ROOT / ".ci" / "newcomer.py").read(README)


def test_a_newcomer_types_every_command(checkout, capsys):
    """Top to bottom, each after those before it; the demo is run by other tests."""
    commands, _ = checkout
    assert len(commands) >= 15
    assert all(line.startswith("initscope ") for line in commands)
    for line in commands:
        if line != "initscope demo":
            main(shlex.split(line, comments=True)[1:])
            done = capsys.readouterr()
            assert done.out or done.err, line


def test_a_newcomer_runs_the_python(checkout, tmp_path):
    """The blocks follow each other, as a reader types them; the warning is what a watch is for."""
    _, blocks = checkout
    names = {}
    for block in blocks:
        exec(block, names)
    assert (tmp_path / "page.html").stat().st_size > 10_000
    assert (tmp_path / "report.html").stat().st_size > 10_000


def without_numbers(text):
    """Numbers vary with the versions of libraries; the words and their order do not."""
    return re.sub(r"[\d.]+(?:e-?\d+)?", "0", text)


def test_the_first_example_prints_what_the_readme_shows(checkout, capsys):
    _, blocks = checkout
    (shown,) = re.findall(r"^```text\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    exec(blocks[0], {})
    assert without_numbers(capsys.readouterr().out) == without_numbers(shown)


def test_links_of_the_readme_lead_to_files_of_the_repository():
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert len(links) > 20
    assert [link for link in links if not (ROOT / link).is_file()] == []


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 200


def test_rates_of_the_readme_are_those_of_the_evaluation():
    """Each count with its interval stands in one row of the page that explains how it was measured."""
    page = " ".join((ROOT / "docs" / "evaluation.rst").read_text(encoding="utf-8").split())
    rates = re.findall(r"\| (\d+ of \d+ \(\d+ %\)) \| ([\d.]+ to [\d.]+ %) \|", README)
    assert len(rates) == 5
    for count, interval in rates:
        assert f"{count} {interval}" in page


SYMPTOMS = (ROOT / "docs" / "symptoms.rst").read_text(encoding="utf-8")


@pytest.mark.parametrize("block", re.findall(r"code-block:: console\n\n((?:    .*\n)+)", SYMPTOMS))
def test_commands_of_the_symptoms_report_what_the_page_shows(block, checkout, capsys):
    """Each page of a symptom has commands and the findings of the last one."""
    lines = [line.strip() for line in block.splitlines()]
    commands = [line[2:] for line in lines if line.startswith("$ ")]
    expected = re.findall(r"(error|warning): (IS\d+) ([\w-]+):", block)
    assert commands
    assert expected
    for command in commands:
        main([*shlex.split(command)[1:], "--format", "json", "--no-alternatives"])
        findings = json.loads(capsys.readouterr().out)["findings"]
    reported = {(finding["level"], finding["code"], finding["name"]) for finding in findings}
    assert set(expected) <= reported


def test_a_newcomer_gets_a_script(tmp_path):
    command = [sys.executable, ROOT / ".ci" / "newcomer.py", ROOT / "README.md", tmp_path]
    subprocess.run(command, check=True)
    subprocess.run(["bash", "-n", tmp_path / "commands.sh"], check=True)
    assert compile((tmp_path / "program.py").read_text(encoding="utf-8"), "program.py", "exec").co_code
    assert (tmp_path / "commands.sh").read_text(encoding="utf-8").count("\n") > 15


def test_python_of_the_page(workplace):
    (block,) = re.findall(r"\.\. code-block:: python\n\n(.*?)\n\n\S", PAGE, re.DOTALL)
    exec("\n".join(line[4:] for line in block.splitlines()), {})
    assert (workplace / "page.html").is_file()


def test_the_pytest_recipe_runs_and_can_fail(tmp_path):
    """As pytest would run it: three tests that pass, and none that does for 40 Glorot layers."""
    text = (ROOT / "docs" / "inspection.rst").read_text(encoding="utf-8")
    (block,) = re.findall(r"\.\. code-block:: python\n\n(.*?)\n\nOn the command line", text, re.DOTALL)
    recipe = "\n".join(line[4:] for line in block.splitlines())
    bad = recipe.replace("initializers.he_", "initializers.glorot_").replace("range(8)", "range(40)")
    for name, code, outcome in (("good", recipe, "3 passed"), ("bad", bad, "3 failed")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "test_start.py").write_text(code, encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", folder, folder]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False, cwd=folder)
        assert outcome in done.stdout
    assert "Unhealthy" in done.stdout


def test_the_number_of_checks_is_that_of_the_package():
    """It fails when a check is added and the README is not changed."""
    assert re.search(r"^(\d+) checks, each with a code", README, re.MULTILINE)[1] == str(len(checks()))


def test_numbers_and_picture_come_from_the_gallery():
    """The table is what the run at full scale left, the demo's sentence and picture are those of its reproduction."""
    path = ROOT / "docs" / "figures" / "make_full_scale.py"
    script = load_script(path)
    results = json.loads((ROOT / "docs" / "full_scale.json").read_text(encoding="utf-8"))
    assert script.MARKS.search(README).group() == script.table(results)
    demo = next(result for result in results if result["id"] == "photographs")
    names = ("mean angle at the input", "measured at the end", "predicted at the end, at this width")
    names += ("predicted at the end",)
    first, measured, predicted, limit = (f"{demo['ours'][name]['value']:.1f}" for name in names)
    assert f"shrink from {first}° to {measured}° on average" in README
    assert f"{predicted}° predicted at this width, {limit}° at infinite width" in README
    assert "docs/_static/demo.svg" in README
    assert zlib.crc32((ROOT / "docs" / "_static" / "demo.svg").read_bytes()) == demo["checksum"]
