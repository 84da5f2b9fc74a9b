import numpy as np
import pytest
import torch

from initscope.data import check_images, check_pairs
from initscope.errors import InputError


@pytest.fixture(params=[np.asarray, torch.as_tensor], ids=["numpy", "torch"])
def convert(request):
    return request.param


def images(index=None, value=0.0):
    x = np.random.default_rng(0).random((5, 3, 4, 4)).astype(np.float32)
    if index is not None:
        x[index] = value
    return x


def test_good_images_come_back_as_given(convert):
    x = convert(images())
    assert check_images(x) is x


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_not_finite_names_the_image(convert, value):
    with pytest.raises(InputError, match=r"pictures\[3\] holds NaN or infinite"):
        check_images(convert(images((3, 1, 2, 2), value)), name="pictures")


def test_zero_image_is_named_and_may_be_allowed(convert):
    x = convert(images(2))
    with pytest.raises(InputError, match=r"x\[2\] is zero everywhere: it has no direction"):
        check_images(x)
    assert check_images(x, zeros=True) is x


def test_wrong_dimensions(convert):
    with pytest.raises(InputError, match=r"shape \(3, 4, 4\); expected 4 dimensions.*x\[None\]"):
        check_images(convert(images()[0]), ndim=4)
    with pytest.raises(InputError, match="holds no values"):
        check_images(convert(images()[:0]))


def test_lists_are_refused():
    with pytest.raises(InputError, match="x is of type list; give a NumPy array or a torch tensor"):
        check_images([[1.0]])


def test_pairs_need_one_shape(convert):
    x = convert(images())
    assert check_pairs(x, x)[1] is x
    with pytest.raises(InputError, match=r"x has shape \(5, 3, 4, 4\) but y \(4, 3, 4, 4\)"):
        check_pairs(x, x[:4])
    with pytest.raises(InputError, match=r"y\[1\] is zero"):
        check_pairs(x, convert(images(1)))
