"""The commands invert and discriminate: pages, formats, and one line for bad use."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from initscope.cli import main


def test_invert_a_photograph(tmp_path, capsys):
    photo = tmp_path / "photo.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (20, 24, 3), dtype=np.uint8)).save(photo)
    page = tmp_path / "page.html"
    main(["invert", "conv3x3x24-relu-maxpool2", "--layer", "relu1", "--layer", "maxpool1", "--input", str(photo),
          "--size", "12", "--iterations", "20", "--format", "json", "--out", str(page)])  # fmt: skip
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["layer"] for row in rows] == ["relu1", "maxpool1"]
    assert rows[0]["exact"]
    assert rows[0]["psnr"] > 60
    assert "data:image/png" in page.read_text()


def test_invert_without_layer_takes_those_with_weights(capsys):
    main(["invert", "conv3x3x16-relu", "--size", "8", "--iterations", "10", "--format", "csv"])
    assert capsys.readouterr().out.count("conv1") == 2


def test_discriminate(tmp_path, capsys):
    figure = tmp_path / "figure.png"
    main(["discriminate", "--limit", "200", "--ratios", "4", "--reconstruct", "1", "--epochs", "0", "--format", "csv",
          "--figure", str(figure)])  # fmt: skip
    assert len(capsys.readouterr().out.splitlines()) == 4
    assert figure.stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["invert", "conv3x3x4-relu", "--layer", "conv9", "--size", "8"], "the model has no layer"),
        (["invert", "conv3x3x4-relu", "--input", "nowhere.png"], "neither a file nor a folder"),
        (["invert", "conv3x3x4-relu", "--normalize", "cifar"], "must be one of none, imagenet"),
        (["invert", "conv3x3x4-relu", "--out", "page.pdf"], "must end in"),
        (["discriminate", "--ratios", "two"], "joined by commas"),
        (["discriminate", "--data", "gaussian:rho=0,shape=1x8x8", "--limit", "30"], "initscope:"),
    ],
)
def test_bad_use_is_one_line(arguments, message, capsys):
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert message in lines[-1]
