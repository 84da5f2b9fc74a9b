"""How long a user waits for the first word: seconds of a fresh process, beside a bare interpreter's."""

import os
import subprocess
import sys

import pytest


def start(*arguments):
    # One thread: what is timed is importing, and other work may share the machine.
    subprocess.run(
        [sys.executable, *arguments], check=True, capture_output=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )


@pytest.mark.parametrize(
    ("name", "code", "bound"),
    [
        ("bare interpreter", "pass", 0.3),
        ("import initscope", "import initscope", 0.3),
        ("initscope --help", "from initscope.cli import main; main(['--help'])", 0.5),
    ],
)
def test_start(benchmark, name, code, bound):
    """The best of five rounds must stay below the bound that the project promises."""
    benchmark.pedantic(start, args=("-c", code), rounds=5, warmup_rounds=1)
    benchmark.extra_info["promised seconds"] = bound
    assert benchmark.stats.stats.min < bound
