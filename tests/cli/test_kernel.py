"""The command kernel: the matrix in a file, a summary, and one line for bad use."""

import json

import numpy as np
import pytest

from initscope.cli import main


def test_kernel_of_digits(tmp_path, capsys):
    out = tmp_path / "kernel.npy"
    main(["kernel", "conv3x3x8-relu", "--data", "digits", "--limit", "60", "--out", str(out), "--format", "json"])
    found, matrix = json.loads(capsys.readouterr().out), np.load(out)
    assert matrix.shape == (60, 60)
    assert np.allclose(matrix, matrix.T)
    assert np.allclose(matrix.diagonal(), 1)
    assert found["largest"] == pytest.approx(matrix[np.triu_indices(60, 1)].max())
    assert found["accuracy"] > 0.6  # chance is 0.1
    assert found["largest error"] == 0


def test_tangent_kernel_as_inner_products(tmp_path, capsys):
    out = tmp_path / "kernel.npy"
    main(["kernel", "dense32-relu-dense1", "--data", "digits", "--limit", "5", "--kind", "ntk", "--no-cosines", "--out",
          str(out)])  # fmt: skip
    assert "ntk" in capsys.readouterr().out
    assert not np.allclose(np.load(out).diagonal(), 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "kernel.png"], "must end in"),
        (["--kind", "rbf", "--out", "kernel.npy"], "kind"),
        (["--data", "gaussian:rho=0,shape=1x4x4", "--limit", "20001", "--out", "kernel.npy"], "give --limit"),
    ],
)
def test_bad_use_is_one_line(arguments, message, capsys):
    with pytest.raises(SystemExit) as left:
        main(["kernel", "conv3x3x4-relu", *arguments])
    assert left.value.code == 2
    assert message in capsys.readouterr().err.strip().splitlines()[-1]
