"""Wrong inputs of every command: one line with the value, the bound and the next step, in the words of options."""

import shlex

import numpy as np
import pytest

from initscope.cli import main

NETWORKS = """
from torch import nn
class Words(nn.Module):
    def forward(self, x):
        return {"a": "b"}
def words():
    return Words()
def numbers(width):
    return nn.Linear(32, width)
"""


@pytest.fixture
def refused(capsys, tmp_path, monkeypatch):
    """The one line with which a command refuses, run in a folder with a few bad files."""
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).normal(size=(20, 8)).astype(np.float32)
    np.save("good.npy", rows)
    rows[3, 2] = np.nan
    np.save("nan.npy", rows)
    (tmp_path / "net.py").write_text(NETWORKS, encoding="utf-8")

    def refused(line):
        with pytest.raises(SystemExit) as leaving:
            main(shlex.split(line))
        output, messages = capsys.readouterr()
        told = [text for text in messages.splitlines() if text.startswith("initscope:")]
        assert (leaving.value.code, output, len(told)) == (2, "", 1)
        return told[0]

    return refused


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("inspect dense8 --data digits --depth -2", "depth = -2 must be a whole number of at least 0; 0 prints"),
        ("predict dense8 --data digits --depth -1", "depth = -1 must be"),
        ("measure dense8 --data digits --depth 1.5", "--depth: 1.5 must be a whole number"),
        ("inspect dense8 --data digits --draws x", "--draws: x must be a whole number"),
        ("inspect dense-5-relu --data digits", "'dense' has no size; write it as in dense64"),
        ("inspect dense8 --data digits --fail-on colapse", "did you mean collapse?"),
        ("inspect dense8 --data nan.npy", "nan.npy[3] holds NaN"),
        ("mean-width --data nan.npy", "nan.npy[3] holds NaN"),
        ("mean-width --data digits --draws 2.5", "--draws: 2.5 must be a whole number"),
        ("mean-width --data digits --rows 10", "digits fits into memory and is not read in blocks; leave --rows"),
        ("flatness --data good.npy", "good.npy holds vectors, which have no patches; give images"),
        ("separation dense8-relu --data good.npy", "good.npy has no labels, so no classes; give labeled data"),
        ("hash fit a.hash --data digits --bits 2.5", "--bits: 2.5 must be a whole number"),
        ("search query a b --k 2.5", "--k: 2.5 must be a whole number"),
        ("search remove a.index 1.5", "1.5 must be a whole number"),
        ("predict hf:LlamaConfig --tokens 2.5", "--tokens: 2.5 must be a whole number"),
        ("reproduce x --workers 1.5", "--workers: 1.5 must be a whole number"),
        ("invert conv3x3x4-relu --size 1", "size = 1 must be a whole number of at least 3; images are compared"),
        ("inspect dense8 --data digits --fail-on ,", "--fail-on ',' names no check; give a code such as IS103"),
        ("inspect net.py:words --data digits", "computes no tensor from its inputs: forward must use them"),
        ("inspect dense8 dense9", "unexpected arguments 'dense9'; remove them"),
        ("inspect --data digits", "MODEL is missing. See: initscope inspect --help"),
        ("kernel dense8 --data digits", "--out is missing. See: initscope kernel --help"),
        ("plan width --eps", "--eps needs a value. See: initscope plan width --help"),
        ("plan width --eps 1e-300 --delta 0.1", "eps = 1e-300 must be strictly between 1e-30 and 1; the relative"),
        ("plan depth --eps 1e-160 --delta 0.1 --width 9", "eps = 1e-160 must be strictly between 1e-30 and 1"),
        ("plan subspace --dim 3 --eps 1e-300 --delta 0.1", "eps = 1e-300 must be strictly between 1e-30 and 1"),
        ("plan filters --data digits --pairs 2 --eps 1e-160", "eps = 1e-160 must be strictly between 1e-30 and 1"),
        ("plan expansivity --inputs 0 --delta 0.1", "at most 20000; the inputs of the first layer"),
        ("hash fit a.hash --data digits --method itqq", "method = 'itqq' is unknown (did you mean itq?)"),
        ("reproduce --all --out page.html", "page.html is a page; give the name of a folder"),
        ("reproduce --all --out good.npy", "out = good.npy is a file; it must be a folder"),
        ("separation dense8 --data digits --anchors 999999999", "anchors = 999999999 must be"),
        ("coordinates net.py:numbers --widths 8,16", "got tokens (whole numbers); give data of numbers, or an --input"),
        ("measure dense99999999999 --data digits", "out of memory (2.38e+04 GiB were requested); use smaller sizes"),
        ("inspect dense8 --input-shape 99999999x99999", "PiB were requested); use smaller sizes"),
    ],
)
def test_one_line_in_the_words_of_the_command(refused, line, message):
    assert message in refused(line)
