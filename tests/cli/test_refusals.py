"""Wrong inputs of every command: one line with the value, the bound and the next step, in the words of options."""

import shlex

import numpy as np
import pytest

from initscope.cli import main


@pytest.fixture
def refused(capsys, tmp_path, monkeypatch):
    """The one line with which a command refuses, run in a folder with a few bad files."""
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).normal(size=(20, 8)).astype(np.float32)
    np.save("good.npy", rows)
    rows[3, 2] = np.nan
    np.save("nan.npy", rows)

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
        ("separation dense8-relu --data good.npy", "good.npy has no labels, so no classes; give labelled data"),
        ("hash fit a.hash --data digits --bits 2.5", "--bits: 2.5 must be a whole number"),
        ("search query a b --k 2.5", "--k: 2.5 must be a whole number"),
        ("search remove a.index 1.5", "1.5 must be a whole number"),
        ("predict hf:LlamaConfig --tokens 2.5", "--tokens: 2.5 must be a whole number"),
        ("reproduce x --workers 1.5", "--workers: 1.5 must be a whole number"),
        ("invert conv3x3x4-relu --size 0", "size = 0 must be a whole number of at least 1"),
        ("measure dense99999999999 --data digits", "does not fit into memory (2.38e+04 GiB were asked for); ask"),
        ("inspect dense8 --input-shape 99999999x99999", "PiB were asked for); ask for smaller sizes"),
    ],
)
def test_one_line_in_the_words_of_the_command(refused, line, message):
    assert message in refused(line)
