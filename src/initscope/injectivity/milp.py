"""The fewest active rows as a mixed-integer program, solved by HiGHS: a second method for layers of moderate size."""

from __future__ import annotations

import numpy as np

from initscope.injectivity._layer import Floats

__all__ = ["fewest_active_point"]

MARGIN = 1e-5
"""Inactive rows (of unit norm) must be below minus this: solvers work to about 1e-6."""


def fewest_active_point(weight: Floats, bias: Floats | None, *, seconds: float) -> tuple[Floats | None, str]:
    r"""Return a point with fewer than n active rows if HiGHS finds one, and its message.

    .. math:: \min \sum_i y_i \quad\text{s.t.}\quad w_i\cdot z + b_i t \le -\varepsilon + M_i y_i,\;
       y \in \{0,1\}^m,\; |z_j| \le 1,\; \varepsilon \le t \le 1

    Rows have unit norm. The bound depends on the solver's tolerances and on the margin ε, so it proves nothing; the
    caller checks a point exactly. For rows in general position the number of rows equals their rank.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array, diags_array, hstack

    lifted = weight if bias is None else np.column_stack([weight, bias])
    used = weight.any(axis=1)
    rows = lifted[used] / np.linalg.norm(lifted[used], axis=1, keepdims=True)
    m, dim = rows.shape
    n = weight.shape[1]
    slack = np.abs(rows).sum(axis=1) + MARGIN
    system = hstack([csr_array(rows), diags_array(-slack)], format="csr")
    few = np.concatenate([np.zeros(dim), np.ones(m)])
    low = np.concatenate([-np.ones(dim), np.zeros(m)])
    if bias is not None:
        low[dim - 1] = MARGIN
    result = milp(
        few,
        integrality=few,
        bounds=Bounds(low, np.ones(dim + m)),
        constraints=[LinearConstraint(system, ub=-MARGIN), LinearConstraint(few[None], ub=n - 1)],
        options={"time_limit": max(0.1, seconds)},
    )
    if result.x is None:
        reason = "no point with margin" if result.status == 2 else "time limit reached without a point of margin"
        return None, f"{reason} {MARGIN:g} and fewer than {n} active rows"
    z = result.x[:dim]
    return (z if bias is None else z[:-1] / z[-1]), f"{round(result.fun)} active rows"
