# Names of the package for type checkers and editors; lazy_loader reads them from here too.
from .alternatives import (
    Alternative as Alternative,
)
from .alternatives import (
    WhatIf as WhatIf,
)
from .alternatives import (
    what_if as what_if,
)
from .examination import (
    inspect as inspect,
)
from .history import (
    BeforeAfter as BeforeAfter,
)
from .history import (
    EpochLog as EpochLog,
)
from .history import (
    before_after as before_after,
)
from .parameter_audit import (
    Audit as Audit,
)
from .parameter_audit import (
    ParameterAudit as ParameterAudit,
)
from .parameter_audit import (
    audit as audit,
)
from .report import (
    Deviation as Deviation,
)
from .report import (
    Report as Report,
)
from .report import (
    Unhealthy as Unhealthy,
)
from .verdicts import (
    Thresholds as Thresholds,
)
from .verdicts import (
    Verdict as Verdict,
)
from .verdicts import (
    judge as judge,
)
