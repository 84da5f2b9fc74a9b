import numpy as np
import pytest
from PIL import Image

from initscope.data import load_folder
from initscope.errors import InputError


def save(path, array, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(array)).save(path, **options)
    return path


def noise(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def test_subfolders_are_classes_and_everything_is_sorted(tmp_path):
    for number, name in enumerate(["cat/2.png", "cat/1.png", "ant/x/deep.PNG", "ant/b.png", "bee/a.png"]):
        save(tmp_path / name, np.full((4, 5, 3), 10 * number, np.uint8))
    (tmp_path / "README.txt").write_text("not an image")
    save(tmp_path / ".hidden" / "z.png", np.zeros((9, 9), np.uint8))
    data = load_folder(tmp_path)
    assert data.class_names == ("ant", "bee", "cat")
    assert data.labels.tolist() == [0, 0, 1, 2, 2]
    assert np.round(data.images[:, 0, 0, 0] * 255).tolist() == [30, 20, 40, 10, 0]
    assert data.images.shape == (5, 3, 4, 5)


def test_pixels_are_exact_and_grey_stays_grey(tmp_path):
    grey, colour = noise(6, 7), noise(6, 7, 3)
    save(tmp_path / "grey" / "a.png", grey)
    data = load_folder(tmp_path / "grey")
    assert np.array_equal(data.images, grey[None, None] / np.float32(255))
    assert data.labels is None
    assert data.class_names == ()
    save(tmp_path / "grey" / "b.png", colour)
    both = load_folder(tmp_path / "grey")
    assert np.array_equal(np.round(both.images[0] * 255), np.broadcast_to(grey, (3, 6, 7)))
    assert np.array_equal(np.round(both.images[1] * 255), colour.transpose(2, 0, 1))


def test_sixteen_bit_alpha_palette_and_orientation(tmp_path):
    wide = np.array([[0, 65535], [32768, 257]], np.uint16)
    save(tmp_path / "wide" / "a.png", wide)
    assert np.allclose(load_folder(tmp_path / "wide").images[0, 0], wide / 65535)
    opaque = noise(2, 3, 4)
    save(tmp_path / "alpha" / "a.png", opaque)
    assert np.array_equal(
        np.round(load_folder(tmp_path / "alpha").images[0] * 255), opaque[:, :, :3].transpose(2, 0, 1)
    )
    turned = Image.Exif()
    turned[0x0112] = 6
    picture = noise(2, 3, 3)
    save(tmp_path / "turned" / "a.png", picture, exif=turned)
    expected = np.rot90(picture, -1).transpose(2, 0, 1)
    assert np.array_equal(np.round(load_folder(tmp_path / "turned").images[0] * 255), expected)


def test_size_crops_the_center_and_resizes(tmp_path):
    """The middle square of 40×100 is white, the rest black: after a centered crop everything is white."""
    picture = np.zeros((40, 100), np.uint8)
    picture[:, 30:70] = 255
    save(tmp_path / "a.png", picture)
    save(tmp_path / "b.png", picture.T)
    data = load_folder(tmp_path, size=8)
    assert data.images.shape == (2, 1, 8, 8)
    assert (data.images == 1).all()
    assert data.steps[0] == "center crop, resize to 8×8"
    whole = load_folder(tmp_path, size=(4, 10)).images[0, 0]
    assert whole.shape == (4, 10)
    assert (whole[:, 4:6] > 0.95).all()
    assert (whole[:, :2] < 0.05).all()


def test_limit_keeps_every_class(tmp_path):
    for name in "abc":
        for number in range(5):
            save(tmp_path / name / f"{number}.png", noise(4, 4, seed=number))
    data = load_folder(tmp_path, limit=3)
    assert data.labels.tolist() == [0, 1, 2]
    assert len(load_folder(tmp_path, limit=99)) == 15


def test_different_sizes_need_size(tmp_path):
    save(tmp_path / "a.png", noise(4, 4))
    save(tmp_path / "b.png", noise(4, 6))
    with pytest.raises(InputError, match=r"a.png is 4×4, .*b.png is 4×6 .*give --size"):
        load_folder(tmp_path)


def test_a_text_file_named_png_and_a_damaged_file_are_named(tmp_path):
    (tmp_path / "text.png").write_text("just words")
    with pytest.raises(InputError, match=r"text.png is not a readable image"):
        load_folder(tmp_path)
    whole = save(tmp_path / "text.png", noise(50, 50)).read_bytes()
    (tmp_path / "text.png").write_bytes(whole[:500])
    with pytest.raises(InputError, match=r"text.png is not a readable image"):
        load_folder(tmp_path)
    (tmp_path / "text.png").write_bytes(b"")
    with pytest.raises(InputError, match=r"text.png is not a readable image"):
        load_folder(tmp_path)


def test_folders_that_cannot_be_used(tmp_path):
    with pytest.raises(InputError, match="holds no images"):
        load_folder(tmp_path)
    with pytest.raises(InputError, match="nowhere is not a folder"):
        load_folder(tmp_path / "nowhere")
    save(tmp_path / "top.png", noise(4, 4))
    save(tmp_path / "cat" / "a.png", noise(4, 4))
    with pytest.raises(InputError, match=r"holds images itself \(top.png\) and in subfolders"):
        load_folder(tmp_path)
    with pytest.raises(InputError, match="size = 0 must be a whole number of at least 1"):
        load_folder(tmp_path / "cat", size=0)
    Image.fromarray(np.zeros((2, 2), np.float32)).save(tmp_path / "cat" / "a.tif")
    with pytest.raises(InputError, match=r"a.tif holds floating-point pixels"):
        load_folder(tmp_path / "cat")


def test_images_that_unpack_to_more_than_memory(tmp_path, monkeypatch):
    """A black picture of 100 million pixels is a file of 100 kB: its size is read before its pixels."""
    Image.new("L", (12_000, 12_000)).save(tmp_path / "large.png")
    with pytest.raises(InputError, match=r"large.png has 144000000 pixels, more than"):
        load_folder(tmp_path)
    save(tmp_path / "large.png", noise(100, 100))
    monkeypatch.setenv("INITSCOPE_MEMORY", "0.0001")
    with pytest.raises(InputError, match=r"large.png takes 0.0002 GB in memory"):
        load_folder(tmp_path)
    monkeypatch.setenv("INITSCOPE_MEMORY", "0.0003")
    for number in range(3):
        save(tmp_path / f"{number}.png", noise(100, 100))
    with pytest.raises(InputError, match=r"takes 0.00032 GB in memory, .*--limit"):
        load_folder(tmp_path)
    assert len(load_folder(tmp_path, limit=1)) == 1


def test_formats_that_would_start_programs_are_no_images(tmp_path):
    (tmp_path / "a.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n")
    with pytest.raises(InputError, match="is not a readable image"):
        load_folder(tmp_path)
