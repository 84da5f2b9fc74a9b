import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from cyclopts import App
from PIL import Image

from initscope.cli import main
from initscope.cli._sources import DataSource, ModelSource, load_data, load_pairs, load_sources, parse_shape
from initscope.errors import InputError


@pytest.fixture
def call():
    """Parse a command line the way a command that takes a MODEL and data does."""
    app = App(result_action="return_value")

    @app.default
    def command(model: str, source: ModelSource | None = None):
        return model, source or ModelSource()

    return lambda line: app(line.split(), exit_on_error=False, print_error=False)


def test_fields_are_options(call):
    model, source = call(
        "conv3x3x8-relu --data photos --size 48x64 --normalize 0.5,0.5 --limit 9 --input-shape 3x4x5 "
        "--weights w.pt --pairs 7 --seed 3"
    )
    assert model == "conv3x3x8-relu"
    assert source == ModelSource(
        data="photos",
        size="48x64",
        normalize="0.5,0.5",
        limit=9,
        input_shape="3x4x5",
        weights="w.pt",
        pairs=7,
        seed=3,
    )
    assert call("dense3")[1] == ModelSource()


def test_the_default_is_photographs(capsys):
    model, x, y = load_sources("conv3x3x8-relu*2", ModelSource(pairs=5))
    assert x.shape == y.shape == (5, 3, 64, 64)
    assert x.dtype == torch.float32
    assert model(x).shape == (5, 8, 64, 64)
    output, messages = capsys.readouterr()
    assert output == ""
    assert "data: photos: 120 images 3×64×64" in messages


def test_a_shape_alone_means_independent_gaussian_inputs():
    x, y = load_pairs(DataSource(input_shape="2x30x30", pairs=50, seed=4))
    assert x.shape == (50, 2, 30, 30)
    # 90,000 products of independent standard normals: standard error 0.0033.
    assert abs(float((x * y).mean())) < 4 / 300
    assert not torch.equal(x, load_pairs(DataSource(input_shape="2x30x30", pairs=50, seed=5))[0])
    assert load_pairs(DataSource(input_shape="12", pairs=3))[0].shape == (3, 12)


def test_gaussian_pairs_keep_their_correlation():
    x, y = load_pairs(DataSource(data="gaussian:rho=0.8,shape=1x40x40", pairs=100))
    assert x.shape == (100, 1, 40, 40)
    # 160,000 products: standard error √(1 + 0.64)/400 = 0.0032.
    assert abs(float((x * y).mean()) - 0.8) < 4 * 0.0032


def test_folders_with_a_size(tmp_path):
    for number in range(4):
        Image.fromarray(np.full((9, 12 + number), 50 + number, np.uint8)).save(tmp_path / f"{number}.png")
    assert load_data(DataSource(data=str(tmp_path), size="6x8")).shape == (1, 6, 8)
    assert load_data(DataSource(data=str(tmp_path), size="5", input_shape="1x5x5")).shape == (1, 5, 5)


def test_too_few_images_for_the_pairs_are_said(capsys):
    x, y = load_pairs(DataSource(data="digits", limit=3, pairs=100_000))
    assert len({frozenset((one.numpy().tobytes(), other.numpy().tobytes())) for one, other in zip(x, y)}) == len(x) == 3
    assert "3 images make 3 different pairs, not 100000: each of them is used once" in capsys.readouterr().err
    assert len(load_pairs(DataSource(data="gaussian:shape=5", limit=4, pairs=3))[0]) == 2


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (DataSource(data="digits", input_shape="3x8x8"), "--input-shape 3x8x8 but digits has inputs of 1x8x8"),
        (DataSource(input_shape="3x-8"), "--input-shape '3x-8': give positive whole numbers joined by x"),
        (DataSource(data=".", size="1x2x3"), "--size '1x2x3': give one side or HEIGHTxWIDTH"),
        (DataSource(data="digits", limit=1), "1 image: a pair needs two different images"),
        (DataSource(data="zeros.npy"), r"zeros.npy\[1\] is zero everywhere"),
        (DataSource(data="nan.npy"), r"nan.npy\[2\] holds NaN"),
    ],
)
def test_bad_use(source, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, index, value in (("zeros.npy", 1, 0), ("nan.npy", 2, np.nan)):
        images = np.ones((3, 1, 4, 4))
        images[index] = value
        np.save(name, images)
    with pytest.raises(InputError, match=message):
        load_pairs(source)


def test_parse_shape():
    assert parse_shape("3×64x64") == (3, 64, 64)
    with pytest.raises(InputError, match="--input-shape ''"):
        parse_shape("")


def test_import_is_light():
    """Neither torch nor NumPy nor scikit-learn is loaded before a command asks for data."""
    heavy = "{'torch', 'numpy', 'sklearn', 'PIL', 'pooch'}"
    code = f"import sys, initscope.cli._sources, initscope.data; print({heavy} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    assert ran.stdout == "set()\n"


def test_flatness_of_a_folder_and_its_pictures_of_one_colour(tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    for number in range(6):
        pixels = np.random.default_rng(number).integers(60, 255, (12, 12, 1), dtype=np.uint8).repeat(3, axis=2)
        if number == 3:
            pixels[..., 1:] = 0
        Image.fromarray(pixels).save(tmp_path / "mine" / f"{number}.png")
    folder = str(tmp_path / "mine")
    main(["flatness", "--data", folder, "--outliers", "--format", "csv"])
    captured = capsys.readouterr()
    rows = captured.out.splitlines()
    assert len(rows) == 2
    assert rows[1].startswith("3,3.png,0.333")
    assert "1 of 6 images" in captured.err
    main(["flatness", "--data", folder, "--format", "json"])
    found = json.loads(capsys.readouterr().out)
    assert found["images"] == 6
    assert found["mean_excess"] < found["largest_excess"]
