import json

import numpy as np
import pytest

from initscope.data import ImageSet
from initscope.errors import InputError


@pytest.fixture
def data():
    images = np.arange(10 * 3 * 4 * 5, dtype=np.float64).reshape(10, 3, 4, 5) / 600
    return ImageSet(images, np.arange(10) % 2, ("even", "odd"), name="demo", steps=("made here",))


def test_holds_float32_images_and_int64_labels(data):
    assert data.images.dtype == np.float32
    assert data.labels.dtype == np.int64
    assert len(data) == 10
    assert data.shape == (3, 4, 5)


@pytest.mark.parametrize("index", [slice(2, 7, 2), [2, 4, 6], np.array([2, 4, 6]), np.isin(np.arange(10), [2, 4, 6])])
def test_slicing_keeps_images_labels_names_and_steps_together(data, index):
    part = data[index]
    assert np.array_equal(part.images, data.images[[2, 4, 6]])
    assert part.labels.tolist() == [0, 0, 0]
    assert (part.class_names, part.name, part.steps) == (data.class_names, data.name, data.steps)


def test_take_and_spread(data):
    assert np.array_equal(data.take(3).images, data.images[:3])
    assert len(data.take(99)) == 10
    assert np.array_equal(data.spread(5).images, data.images[::2])
    assert len(data.spread(99)) == 10
    with pytest.raises(InputError, match="count = 0 must be a whole number of at least 1"):
        data.take(0)


def test_a_single_index_is_refused_with_the_way_out(data):
    with pytest.raises(InputError, match=r"data\[3:4\]; one image is data.images\[3\]"):
        data[3]


def test_to_dict_is_json_without_pixels(data):
    text = json.dumps(data.to_dict())
    assert len(text) < 400
    assert json.loads(text)["shape"] == [10, 3, 4, 5]
    assert json.loads(text)["class_names"] == ["even", "odd"]


def test_repr_says_what_it_is(data):
    assert repr(data) == "ImageSet(demo: 10 images 3×4×5, 2 classes; made here)"
    assert repr(ImageSet(np.ones((2, 7)))) == "ImageSet(images: 2 vectors 7)"


def test_labels_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match=r"4 images but labels of shape \(3,\)"):
        ImageSet(np.ones((4, 1, 2, 2)), np.zeros(3))
    with pytest.raises(InputError, match=r"the array has shape \(4,\)"):
        ImageSet(np.ones(4))


def test_contact_sheet_shows_every_image_once(data):
    sheet = np.asarray(data.plot(count=8).images[0].get_array())
    assert sheet.shape == (2 * 6, 4 * 7, 3)
    assert np.allclose(sheet[1:5, 1:6], data.images[0].transpose(1, 2, 0))
    assert np.allclose(sheet[7:11, 22:27], data.images[7 * 10 // 8].transpose(1, 2, 0))
    wide = ImageSet(np.stack([np.full((1, 4, 4), -3.0), np.full((1, 4, 4), 5.0)])).plot()
    assert np.asarray(wide.images[0].get_array())[2, [2, 8]].tolist() == [0, 1]
    with pytest.raises(InputError, match="cannot be plotted"):
        ImageSet(np.ones((2, 7))).plot()


@pytest.mark.parametrize("value", [0.5, np.nan, np.inf])
def test_labels_with_fractions_are_refused(value):
    with pytest.raises(InputError, match="real-valued targets as targets="):
        ImageSet(np.zeros((2, 3)), np.array([0.0, value]))
