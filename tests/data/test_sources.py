import numpy as np
import pytest
from PIL import Image

from initscope.data import load
from initscope.errors import InputError


def test_names_with_options():
    assert np.array_equal(load("photos:crop=32", limit=4).images, load("photos", crop=32, limit=4).images)
    data = load("gaussian:rho=-0.5,shape=3x4x5,seed=7", limit=6)
    assert np.array_equal(data.images, load("gaussian", rho=-0.5, shape=(3, 4, 5), seed=7, limit=6).images)
    assert load("gaussian:shape=9").shape == (9,)
    with pytest.raises(InputError, match="photos has no test split"):
        load("photos:split=test")
    with pytest.raises(InputError, match=r"'32' is not key=value; for example photos:crop=32"):
        load("photos:32")


def test_folders_and_files(tmp_path):
    for number in range(6):
        Image.fromarray(np.full((8, 8), 40 * number, np.uint8)).save(tmp_path / f"{number}.png")
    data = load(str(tmp_path), size=4, limit=3, normalize="0.5,0.5")
    assert data.images.shape == (3, 1, 4, 4)
    assert np.allclose(data.images[:, 0, 0, 0], np.array([0, 80, 160]) / 255 * 2 - 1)
    assert [step.split()[0] for step in data.steps] == ["center", "values", "normalize"]
    np.save(tmp_path / "a.npy", np.arange(12.0).reshape(6, 2))
    assert load(str(tmp_path / "a.npy"), limit=3).images[:, 0].tolist() == [0, 4, 8]


def test_what_is_nowhere_and_what_cannot_be_resized(tmp_path):
    with pytest.raises(InputError, match=r"'fotos' is neither a name \(photos, .*\) nor a folder or file"):
        load("fotos")
    with pytest.raises(InputError, match=r"nowhere.npy is not a file"):
        load(str(tmp_path / "nowhere.npy"))
    with pytest.raises(InputError, match="digits has no option 'size'"):
        load("digits", size=32)


def test_a_limit_among_the_options():
    assert len(load("photos:crop=32,limit=3")) == 3
    assert len(load("photos:limit=3", limit=3)) == 3
    for spec, message in (
        ("photos:limit=2", "has limit=2, but limit = 3 is given too"),
        ("photos:name=x", "photos has no option 'name'"),
        ("photos:limit=x", "limit"),
        ("photos:crop=" + "(" * 3000, "crop"),
        ("photos:crop=" + "9" * 6000, "crop"),
        ("a\0b", "is neither a name"),
    ):
        with pytest.raises(InputError, match=message):
            load(spec, limit=3 if spec == "photos:limit=2" else None)
