"""
How wide is wide enough?
========================

A ReLU layer keeps the squared norm of an input only on average. The paper's bound, the best Chernoff bound and the
exact law say how wide it must be, so that the distortion is below ε except with probability 5 %.
"""

# %%
# One layer: the width each statement asks for.
import numpy as np
from matplotlib import pyplot as plt

from initscope import plan
from initscope.theory import norms

distortions = np.geomspace(0.03, 0.5, 12)
plans = [plan.width(eps=float(eps), delta=0.05) for eps in distortions]
figure, ax = plt.subplots(layout="constrained")
for name in ("paper", "chernoff", "exact"):
    ax.loglog(distortions, [found.answers[name] for found in plans], "o-", markersize=3, label=name)
ax.set_xticks([0.03, 0.05, 0.1, 0.2, 0.3, 0.5], ["0.03", "0.05", "0.1", "0.2", "0.3", "0.5"])
ax.minorticks_off()
ax.set_xlabel("distortion ε of the squared norm")
ax.set_ylabel("width")
ax.legend()

# %%
# Many layers: how far the norm wanders. The exact probability of leaving [1/2, 2] against depth.
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
# A promise is checked by drawing it.
found = plan.check(plan.width(eps=0.2, delta=0.05, depth=3), trials=1000)
print(f"promised {found.promise}, observed {found.observed} in [{found.low:.3f}, {found.high:.3f}]")
