"""The plugin in a pytest of its own, as a user's tests load it."""

import subprocess
import sys

TESTS = """
import torch
from torch import nn

def stack(depth):
    torch.manual_seed(depth)
    return nn.Sequential(*[layer for _ in range(depth) for layer in (nn.Linear(16, 16), nn.ReLU())])

DATA = torch.rand(40, 16, generator=torch.Generator().manual_seed(0))

def test_good(initscope_checks):
    assert initscope_checks.assert_healthy(stack(2), DATA, pairs=16).healthy

def test_bad(initscope_checks):
    initscope_checks.assert_healthy(stack(60), DATA, pairs=16)

def test_ignored(initscope_checks):
    names = [finding.name for finding in initscope_checks.inspect(stack(60), DATA, pairs=16).findings]
    initscope_checks.assert_healthy(stack(60), DATA, pairs=16, ignore=tuple(names))
"""


def test_fixture_and_page(tmp_path):
    (tmp_path / "test_start.py").write_text(TESTS)
    plugin = ["-p", "no:initscope", "-p", "initscope.integrations.pytest_plugin", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-q", *plugin, "--initscope-report", "pages", "--rootdir", tmp_path]
    ran = subprocess.run([*command, tmp_path], capture_output=True, encoding="utf-8", check=False, cwd=tmp_path)
    assert "1 failed, 2 passed" in ran.stdout, ran.stdout + ran.stderr
    assert "Unhealthy: IS103 collapse (error)" in ran.stdout
    assert (tmp_path / "pages" / "test_bad.html").is_file()
