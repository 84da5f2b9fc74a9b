r"""Representation power in numbers: cells of deep and shallow networks, and mixtures against Boltzmann machines.

The two counts that support "depth is important" in [Bronstein2016]_: how many linear pieces ReLU layers can have
(`montufar_regions` and `arrangement_regions`), and how many products a mixture needs to be as rich as a restricted
Boltzmann machine (`rbm_mixture`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from initscope.errors import InputError, check_count
from initscope.results import Result

__all__ = ["RBMMixture", "arrangement_regions", "montufar_regions", "rbm_mixture"]


def arrangement_regions(inputs: int, units: int) -> int:
    r"""Most cells that one layer of ReLU units with biases can have: those of an arrangement of hyperplanes.

    .. math:: \sum_{j=0}^{n_0}\binom{n}{j}

    Attained in general position (Zaslavsky, [Montufar2014]_).

    >>> arrangement_regions(2, 3), arrangement_regions(1, 5)
    (7, 6)
    """
    inputs, units = check_count("inputs", inputs), check_count("units", units, least=0)
    return sum(math.comb(units, j) for j in range(inputs + 1))


def montufar_regions(inputs: int, widths: Sequence[int]) -> int:
    r"""Cells that ReLU layers of these widths can have at least [Montufar2014]_, widths no smaller than the inputs.

    .. math:: \Bigl(\prod_{l<L} \lfloor n_l/n_0 \rfloor^{n_0}\Bigr) \sum_{j=0}^{n_0} \binom{n_L}{j}

    It is exponential in the depth, while one layer with the same number of units has polynomially many regions
    (`arrangement_regions`).

    >>> montufar_regions(1, [3, 3]), montufar_regions(2, [4])
    (12, 11)
    """
    inputs = check_count("inputs", inputs)
    if not widths:
        raise InputError("widths is empty; give the number of units of each layer")
    folds = math.prod((check_count("width", width, least=inputs) // inputs) ** inputs for width in widths[:-1])
    return int(folds) * arrangement_regions(inputs, check_count("width", widths[-1], least=inputs))


@dataclass(frozen=True)
class RBMMixture(Result):
    """`rbm_mixture`: components that a mixture of products needs, and the parameters of both models."""

    components: int
    exact: bool
    """Whether this number is also enough; otherwise it is a lower bound."""
    rbm_parameters: int
    mixture_parameters: int


def rbm_mixture(visible: int, hidden: int) -> RBMMixture:
    r"""How many product distributions a mixture needs to represent all that a restricted Boltzmann machine can.

    .. math:: k = 2^m \quad\text{if } 4\lceil m/3\rceil \le n, \qquad
              \text{else } k \ge 2^l,\ l = \max\{l \le m: 4\lceil l/3\rceil \le n\}

    The machine has n binary ``visible`` and m ``hidden`` units [MontufarMorton2014]_: three hidden units give four
    visible ones eight modes with pairwise distance of at least two; a product distribution has one. So the machine's nm
    + n + m parameters stand against k(n+1) - 1.

    >>> rbm_mixture(visible=100, hidden=30).components == 2**30
    True
    """
    n, m = check_count("visible", visible), check_count("hidden", hidden)
    reached = max((k for k in range(m + 1) if 4 * math.ceil(k / 3) <= n), default=0)
    components = 2**reached
    return RBMMixture(components, reached == m, n * m + n + m, components * (n + 1) - 1)
