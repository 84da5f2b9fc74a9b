"""Declarations: what they mean, and that every mistake is told with its line before anything runs."""

import contextlib
import random

import pytest

from initscope.distributed import read_sweep
from initscope.errors import InputError

WHOLE = """# a comment
[grid]
architecture = ["dense{width}-{activation}*{depth}", "dense30-relu"]
width = [10, 20]
depth = [1, 2, 3]
activation = ["relu", "tanh"]
initializer = ["he:gain=1.5", "present"]
data = ["digits"]
seed = [0, 1]
quantity = ["predict"]

[run]
pairs = 10
draws = 2
"""


@pytest.fixture
def read(tmp_path):
    def run(text):
        path = tmp_path / "sweep.toml"
        path.write_text(text, encoding="utf-8")
        return read_sweep(path)

    return run


def test_the_grid(read):
    """Axes that an architecture has no place for do not multiply its runs: 2·3·2·2·2 and 2·2."""
    sweep = read(WHOLE)
    assert len(sweep.runs) == 48 + 4
    assert len(sweep.by_id()) == len(sweep.runs)
    assert sweep.runs[0].model == "dense10-relu*1"
    assert {run.width for run in sweep.runs if run.architecture == "dense30-relu"} == {None}
    assert (sweep.options.pairs, sweep.options.steps) == (10, 100)


def test_only_architecture_and_data_are_needed(read):
    runs = read('[grid]\narchitecture = ["dense5"]\ndata = ["digits"]').runs
    assert [(run.initializer, run.seed, run.quantity) for run in runs] == [
        ("present", 0, "predict"),
        ("present", 0, "measure"),
    ]


def test_names_of_runs_depend_on_all_that_results_depend_on(read):
    first, second = read(WHOLE), read(WHOLE.replace("draws = 2", "draws = 3"))
    assert not first.by_id().keys() & second.by_id().keys()


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("draws = 2", "drwas = 2", 14, "did you mean draws"),
        ("pairs = 10", "pairs = 0", 13, "pairs = 0 must be a whole number"),
        ("pairs = 10", "pairs = true", 13, "pairs = True"),
        ("pairs = 10", "rate = -1.0", 13, "rate = -1.0"),
        ("[run]", "[runs]", 12, "the tables"),
        ("width =", "widht =", 4, "did you mean width"),
        ("width = [10, 20]", "width = []", 4, "at least one"),
        ("width = [10, 20]", "width = 10", 4, "must be a list"),
        ("width = [10, 20]", "width = [10, 10]", 4, "twice"),
        ("width = [10, 20]", "width = [10, 20.5]", 4, "20.5"),
        ("width = [10, 20]", "width = [\n10,\n99999999999]", 6, "99999999999"),
        ("width = [10, 20]", "width = [1_000_000]\n", 3, "GB"),
        ("width = [10, 20]\n", "\n", 3, "needs width"),
        ("{depth}", "3", 5, "no architecture has {depth}"),
        ("{depth}", "{height}", 3, "{height}"),
        ("{depth}", "{depth.real}", 3, "{depth.real}"),
        ("{depth}", "{depth", 3, "braces"),
        ("*{depth}", "**{depth}", 3, "position"),
        ("dense30-relu", "conv3x3x3x4", 3, "convolution in 3 dimensions"),
        ("he:gain=1.5", "he:gian=1.5", 7, "gian"),
        ('"tanh"', '"tahn"', 6, "tahn"),
        ('"digits"', '"digit"', 8, "neither a name"),
        ('"digits"', "4", 8, "must be a nonempty string"),
        ("seed = [0, 1]", "seed = [-1]", 9, "seed = -1"),
        ('["predict"]', '["guess"]', 10, "known: predict, measure"),
        ("draws = 2", "draws = ", 14, "not TOML"),
    ],
)
def test_mistakes_are_told_with_their_line(read, old, new, line, message):
    text = WHOLE.replace(old, new, 1)
    assert text != WHOLE
    with pytest.raises(InputError) as told:
        read(text)
    assert f"line {line}" in str(told.value)
    assert message in str(told.value)


def test_a_grid_of_millions_is_refused(read):
    seeds = ", ".join(map(str, range(2000)))
    with pytest.raises(InputError, match="more than 1000000 runs"):
        read(f'[grid]\narchitecture = ["dense{{width}}"]\nwidth = [{seeds[3:]}]\ndata = ["digits"]\nseed = [{seeds}]')


def test_missing_tables(read):
    with pytest.raises(InputError, match="no architecture"):
        read("")
    with pytest.raises(InputError, match="no data"):
        read('[grid]\narchitecture = ["dense5"]')


def test_damaged_files_are_read_or_refused(read, tmp_path):
    """150 files with some characters changed, cut or doubled: what one in 30 raises is seen with probability .99."""
    generator = random.Random(3)
    small = WHOLE.replace("[1, 2, 3]", "[1]").replace("[0, 1]", "[0]")
    for _ in range(150):
        text = list(small)
        for _ in range(generator.randint(1, 4)):
            place = generator.randrange(len(text))
            text[place : place + generator.randint(0, 3)] = generator.choices(
                '[]{}"=,.\n#019aé\0-', k=generator.randint(0, 3)
            )
        with contextlib.suppress(InputError):
            read("".join(text))
    (tmp_path / "binary.toml").write_bytes(bytes(range(256)))
    for name in ("binary.toml", "missing.toml", "."):
        with pytest.raises(InputError):
            read_sweep(tmp_path / name)


def test_training_needs_labels(read, tmp_path, monkeypatch):
    import numpy as np

    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.ones((3, 4)))
    with pytest.raises(InputError, match=r"line 4: train needs labels, and x.npy has none"):
        read('[grid]\narchitecture = ["dense5"]\ndata = ["x.npy"]\nquantity = ["train"]')
