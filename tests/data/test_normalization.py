import numpy as np
import pytest

from initscope.data import ImageSet, normalize
from initscope.errors import InputError


@pytest.fixture
def colour():
    return ImageSet(np.random.default_rng(0).random((6, 3, 5, 5)), name="colour")


def test_imagenet_by_channel(colour):
    result = normalize(colour, "imagenet")
    for channel, (mean, std) in enumerate([(0.485, 0.229), (0.456, 0.224), (0.406, 0.225)]):
        assert np.allclose(result.images[:, channel], (colour.images[:, channel] - mean) / std, atol=1e-6)
    assert result.steps == ("normalize imagenet: (value - 0.485/0.456/0.406) / 0.229/0.224/0.225",)


def test_imagenet_needs_three_channels():
    with pytest.raises(InputError, match=r"needs 3 channels .* has shape \(2, 1, 4, 4\)"):
        normalize(ImageSet(np.ones((2, 1, 4, 4))), "imagenet")


def test_standardize_gives_each_channel_mean_0_and_std_1(colour):
    images = normalize(colour, "standardize").images.astype(np.float64)
    assert np.allclose(images.mean(axis=(0, 2, 3)), 0, atol=1e-6)
    assert np.allclose(images.std(axis=(0, 2, 3)), 1, atol=1e-6)


def test_standardize_vectors_by_one_mean_and_std():
    vectors = ImageSet(np.arange(12.0).reshape(4, 3))
    assert np.allclose(normalize(vectors, "standardize").images, (vectors.images - 5.5) / np.arange(12).std())


def test_two_numbers(colour):
    assert np.allclose(normalize(colour, "0.5, 0.25").images, (colour.images - 0.5) / 0.25)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("imagnet", "'imagnet' is not known; use 'imagenet', 'standardize' or 'MEAN,STD'"),
        ("1,2,3", "is not known"),
        ("0,0", "std positive"),
        ("nan,1", "mean must be finite"),
    ],
)
def test_what_is_not_understood(colour, how, message):
    with pytest.raises(InputError, match=message):
        normalize(colour, how)


def test_constant_channel_cannot_be_standardized(colour):
    colour.images[:, 1] = 0.5
    with pytest.raises(InputError, match=r"channel 1 of colour is constant \(0.5\)"):
        normalize(colour, "standardize")
