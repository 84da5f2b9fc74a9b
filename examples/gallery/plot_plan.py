"""
How wide is wide enough?
========================

A ReLU layer preserves the squared norm of an input only on average. How wide must it be so that the :term:`distortion`
is below ε, except with probability 5 %? The figure compares the bound of the paper, the best Chernoff bound and the
exact answer.
"""

# %%
# The first figure shows the required width of one layer.
import numpy as np
from matplotlib import pyplot as plt

from initscope import plan
from initscope.theory import norms

distortions = np.geomspace(0.03, 0.5, 12)
plans = [plan.width(eps=float(eps), delta=0.05) for eps in distortions]
figure, ax = plt.subplots(layout="constrained")
for name in ("paper", "chernoff", "exact"):
    ax.loglog(distortions, [answer.answers[name] for answer in plans], "o-", markersize=3, label=name)
ax.set_xticks([0.03, 0.05, 0.1, 0.2, 0.3, 0.5], ["0.03", "0.05", "0.1", "0.2", "0.3", "0.5"])
ax.minorticks_off()
ax.set_xlabel("distortion ε of the squared norm")
ax.set_ylabel("width")
ax.legend()

# %%
# The second figure shows many layers: the exact probability that the norm ratio leaves [1/2, 2], against the depth.
depths = [1, 2, 5, 10, 20, 50, 100]
figure, ax = plt.subplots(layout="constrained")
for width in (100, 300, 1000):
    failures = [norms.deep_norm_failure([width] * depth, 0.5, 2.0).value for depth in depths]
    ax.loglog(depths, np.maximum(failures, 1e-12), "o-", markersize=3, label=f"width {width}")
ax.set_ylim(1e-6, 1)
ax.set_xlabel("depth")
ax.set_ylabel("probability of leaving [1/2, 2]")
ax.legend()

# %%
# ``plan.check`` simulates a plan.
check = plan.check(plan.width(eps=0.2, delta=0.05, depth=3), trials=1000)
print(f"promised {check.promise}, observed {check.observed} (95 %: {check.low:.3f} to {check.high:.3f})")
