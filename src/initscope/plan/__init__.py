"""Plan: how wide, how deep, how many filters, how many bits: exact where the sources have bounds.

Each planner returns a frozen `Plan`; `check` draws the planned network and counts the failures.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "planners": ["bits", "depth", "expansivity", "filters", "projection", "subspace", "width"],
        "ratios": ["NormRatios", "norm_ratios"],
        "results": [
            "BitsPlan",
            "Check",
            "DepthPlan",
            "FiltersPlan",
            "Plan",
            "ProjectionPlan",
            "SubspacePlan",
            "WidthPlan",
        ],
        "simulation": ["check", "subspace_extremes"],
    },
)
