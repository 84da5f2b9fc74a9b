"""Measurements with fewer numbers than pixels."""

import numpy as np
import pytest
import torch

from initscope.invert.sensing import make_sensing


@pytest.mark.parametrize(("side", "outputs"), [(8, 60), (13, 100), (32, 500)])
def test_tomography_is_the_radon_transform_of_scikit_image(side, outputs):
    """Up to the norm of the map, and to single precision."""
    transform = pytest.importorskip("skimage.transform")
    sensing = make_sensing("tomography", side, outputs, arc=150.0, seed=0)
    assert sensing.angles, "every detector stands alone"
    image = np.random.default_rng(side).random((side, side))
    expected = transform.radon(image, theta=np.array(sensing.angles), circle=False).T
    found = sensing.measure(torch.from_numpy(image).float()[None, None]).numpy() * sensing._scale
    np.testing.assert_allclose(found.reshape(expected.shape), expected, atol=1e-5 * expected.max())
