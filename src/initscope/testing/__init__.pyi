# Names of the package for type checkers and editors; lazy_loader reads them from here too.
from .activation_contract import (
    ActivationContract as ActivationContract,
)
from .coordinate_check import (
    assert_coordinates as assert_coordinates,
)
from .hasher_contract import (
    HasherContract as HasherContract,
)
from .initializer_contract import (
    InitializerContract as InitializerContract,
)
from .rule_contract import (
    RuleContract as RuleContract,
)
from .statistics import (
    z_score as z_score,
)
