"""The order parameter q(x) at α = 6 with 200 levels, as in the talk."""

from __future__ import annotations

from initscope.reproductions.protocol import Declared, Number
from initscope.theory.injectivity import ground_state_energy, order_parameter
from initscope.theory.injectivity.parisi import OrderParameter

__all__ = ["REPRODUCTIONS"]


def _numbers(result: OrderParameter) -> dict[str, Number]:
    return {
        "energy": Number(result.energy),
        "q(0)": Number(float(result.q[0])),
        "χ": Number(result.chi),
        "levels": Number(len(result.c)),
    }


def _holds(result: OrderParameter) -> bool:
    """Return whether q(x) rises from q(0) to 1 and the energy agrees with the full solution."""
    full = ground_state_energy(result.alpha)
    rises = all(before <= after + 1e-12 for before, after in zip(result.q, result.q[1:]))
    return rises and abs(result.energy - full.value) < 2e-3 and 0 < result.q[0] < 1


REPRODUCTIONS = (
    Declared(
        id="injectivity-order-parameter",
        source="Maillard et al. 2022, 'Algorithmic solution to F-RSB equations at T = 0': α = 6.0, 200-RSB-like",
        statement="At α = 6 the overlap q(x) rises continuously: full replica symmetry breaking.",
        produce=order_parameter,
        numbers=_numbers,
        holds=_holds,
        small={"alpha": 6.0, "levels": 50},
        full={"alpha": 6.0, "levels": 200},
    ),
)
