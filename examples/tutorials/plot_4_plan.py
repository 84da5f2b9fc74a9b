"""
4. Plan
=======

How wide must a layer be, and how many filters, bits or outputs does it need? A plan compares the bound of the paper,
the best Chernoff bound and the exact answer. ``eps`` is the :term:`distortion`, and ``delta`` is the
:term:`failure probability`.
"""

# %%
# How wide must one ReLU layer be to preserve the squared norm of an input within 10 %, except in 5 % of all draws?
import torch
from matplotlib import pyplot as plt

import initscope
from initscope import plan

answer = plan.width(eps=0.1, delta=0.05)
print(answer.paper, answer.chernoff, answer.exact)

# %%
# The figure shows the three answers against the distortion. The exponent of the paper is right, but its constant is
# about 2 times too large.
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
# ``plan.check`` simulates a plan and compares the observed failure rate with the promised one.
check = plan.check(plan.width(eps=0.2, delta=0.05, depth=3), trials=500)
print(f"promised: at most {check.promise}, observed: {check.observed} (95 %: {check.low:.3f} to {check.high:.3f})")

# %%
# How many filters does a pair of photographs need? Corollary 1 of the paper requires far more than necessary. ``sharp``
# estimates the necessary number from a pilot sample of random filters.
photos = initscope.data.load("photos", crop=32, limit=4)
filters = plan.filters(photos.images[:1], photos.images[1:2], kernel_size=3, eps=0.1, delta=0.05)
print(filters.answers)

# %%
# How many bits does a sign code need for a thousand pairs? How many rows does a ReLU layer with ten inputs need to be
# injective?
print(plan.bits(eps=0.1, delta=0.05, pairs=1000).answers)
layer = plan.expansivity(n=10, delta=0.01).layers[0]
print(f"necessary: {layer.necessary} rows, sufficient: {layer.guaranteed}, conjectured threshold: {layer.conjectured}")
print(initscope.injectivity.decide(torch.randn(layer.necessary - 1, 10, generator=torch.manual_seed(0))).injective)

# %%
# On the command line: ``initscope plan width --eps 0.1 --delta 0.05 --depth 10 --samples 50000``.
# Next: :doc:`plot_5_embed`. Derivations: :doc:`/plan`, :doc:`/injectivity`.
