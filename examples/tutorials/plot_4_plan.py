"""
4. Plan
=======

How wide, how many filters, how many bits, how much expansion? The papers' bounds, the best Chernoff bound and the exact
answer side by side; ``eps`` is the distortion, ``delta`` the probability of failure.
"""

# %%
# The width at which one ReLU layer keeps the squared norm of an input within 10 %, except in 5 % of all draws.
import torch
from matplotlib import pyplot as plt

import initscope
from initscope import plan

found = plan.width(eps=0.1, delta=0.05)
print(found.paper, found.chernoff, found.exact)

# %%
# The three answers against the distortion: the paper's exponent is right, its constant is off by two.
distortions = (0.05, 0.1, 0.2, 0.4)
figure, ax = plt.subplots(layout="constrained")
for name in ("paper", "chernoff", "exact"):
    widths = [plan.width(eps=eps, delta=0.05).answers[name] for eps in distortions]
    ax.loglog(distortions, widths, "o-", label=name)
ax.set_xticks(distortions, [str(eps) for eps in distortions])
ax.minorticks_off()
ax.set(xlabel="distortion ε", ylabel="width")
ax.legend()

# %%
# A promise can be checked by drawing what it is about.
tried = plan.check(plan.width(eps=0.2, delta=0.05, depth=3), trials=500)
print(f"promised at most {tried.promise}, seen {tried.observed} (95 %: {tried.low:.3f} to {tried.high:.3f})")

# %%
# Filters for a pair of photographs: corollary 1 is far from what is needed, which a pilot of drawn filters finds.
photos = initscope.data.load("photos", crop=32, limit=4)
filters = plan.filters(photos.images[:1], photos.images[1:2], kernel_size=3, eps=0.1, delta=0.05)
print(filters.answers)

# %%
# Bits of a sign code for a thousand pairs, and the widths at which ReLU layers lose nothing of ten inputs.
print(plan.bits(eps=0.1, delta=0.05, pairs=1000).answers)
layer = plan.expansivity(n=10, delta=0.01).layers[0]
print(f"never below {layer.necessary} rows, surely from {layer.guaranteed}, conjectured: {layer.conjectured}")
print(initscope.injectivity.decide(torch.randn(layer.necessary - 1, 10, generator=torch.manual_seed(0))).injective)

# %%
# On the command line: ``initscope plan width --eps 0.1 --delta 0.05 --depth 10 --samples 50000``.
# Next: :doc:`plot_5_embed`. Where each number comes from: :doc:`/plan`, :doc:`/injectivity`.
