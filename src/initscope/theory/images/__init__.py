"""Effect of one random convolutional layer on given images: expectations, bounds, boundaries, color.

Start with `expected_cosine`. Images are arrays ``[pairs, channels, height, width]`` (signals and volumes likewise, with
one or three axes after the channels); results hold one value per pair. Everything here is [Nachum2022]_, sections 3
and 4.1; convention of scale: the mean over filters, weights of variance ν² = 2/r² for ReLU.
"""

from initscope.theory.images._boundary import (
    BoundaryBounds,
    boundary_bounds,
    rectangle_boundary,
    shared_boundary,
)
from initscope.theory.images._bounds import (
    ExcessBound,
    contracting_positions,
    excess_bound,
    extremal_pair,
    gaussian_cosine,
    relu_cosine_bounds,
)
from initscope.theory.images._channels import (
    ChannelStatistics,
    MonochromaticOutliers,
    channel_statistics,
    gray_share,
    monochromatic_outliers,
    red_green_pair,
)
from initscope.theory.images._flatness import (
    DataFlatness,
    FlatnessBound,
    data_flatness,
    flatness_bound,
    flatness_map,
    flatness_scores,
)
from initscope.theory.images._layer import cosine, expected_cosine, expected_distance, expected_inner, patch_norms

__all__ = [
    "BoundaryBounds",
    "ChannelStatistics",
    "DataFlatness",
    "ExcessBound",
    "FlatnessBound",
    "MonochromaticOutliers",
    "boundary_bounds",
    "channel_statistics",
    "contracting_positions",
    "cosine",
    "data_flatness",
    "excess_bound",
    "expected_cosine",
    "expected_distance",
    "expected_inner",
    "extremal_pair",
    "flatness_bound",
    "flatness_map",
    "flatness_scores",
    "gaussian_cosine",
    "gray_share",
    "monochromatic_outliers",
    "patch_norms",
    "rectangle_boundary",
    "red_green_pair",
    "relu_cosine_bounds",
    "shared_boundary",
]
