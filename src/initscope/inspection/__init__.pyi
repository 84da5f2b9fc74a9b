# Names of the package for type checkers and editors; lazy_loader reads them from here too.
from ._checks import (
    Check as Check,
    Thresholds as Thresholds,
    checks as checks,
)
from .alternatives import (
    Alternative as Alternative,
    WhatIf as WhatIf,
    what_if as what_if,
)
from .examination import (
    inspect as inspect,
)
from .finding import (
    Finding as Finding,
    Fix as Fix,
    NotChecked as NotChecked,
)
from .judging import (
    judge as judge,
)
from .model_comparison import (
    ModelComparison as ModelComparison,
    compare as compare,
)
from .parameter_audit import (
    Audit as Audit,
    ParameterAudit as ParameterAudit,
    audit as audit,
)
from .report import (
    Deviation as Deviation,
    Report as Report,
    Unhealthy as Unhealthy,
)
