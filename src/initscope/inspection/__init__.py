"""Inspect a model: prediction, measurement, verdicts and what-if in one `Report`."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "history": ["BeforeAfter", "EpochLog", "before_after"],
        "examination": ["inspect"],
        "report": ["Deviation", "Report", "Unhealthy"],
        "parameter_audit": ["Audit", "ParameterAudit", "audit"],
        "verdicts": ["Thresholds", "Verdict", "judge"],
        "alternatives": ["Alternative", "WhatIf", "what_if"],
    },
)
