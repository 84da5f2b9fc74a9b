"""Plan: how wide, how deep, how many filters, how many bits: exact where the sources have bounds.

Each planner is one file: the function, the frozen `Plan` that it returns, and how what it planned is drawn; `check`
draws it and counts the failures. In every planner ``eps`` is the distortion and ``delta`` the probability of failure.
"""

import lazy_loader

PLANNERS = ("width", "depth", "subspace", "filters", "bits", "projection")
"""Names of the planners whose answers `check` can draw."""

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "_base": ["Plan"],
        "bit_counts": ["BitsPlan", "bits"],
        "checking": ["Check", "check"],
        "depths": ["DepthPlan", "depth"],
        "expansivities": ["expansivity"],
        "filter_counts": ["FiltersPlan", "InnerProductPlan", "filters"],
        "gradient_norms": ["NormRatios", "norm_ratios"],
        "projections": ["ProjectionPlan", "projection"],
        "subspaces": ["SubspacePlan", "subspace", "subspace_extremes"],
        "widths": ["WidthPlan", "width"],
    },
)
