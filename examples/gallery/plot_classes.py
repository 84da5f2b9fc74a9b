"""
What training does to distances within and between classes
==========================================================

A small network on handwritten digits, at initialisation and trained: ratios of distances after and before the network,
for random points and for points at the boundary of their class (farthest of the class, nearest of another).

Digits are easy: training draws classes together at random points too, and does not push them apart at the boundary. On
CIFAR-10 it is otherwise, see the page on classes.
"""

from matplotlib import pyplot as plt

from initscope import class_geometry, data
from initscope.models import load_model

digits = data.load("digits")
networks = {
    name: load_model("dense200-relu*2-dense10", input_shape=(1, 8, 8), seed=0) for name in ("random weights", "trained")
}
run = class_geometry.train(networks["trained"], digits, stop_at_errors=(0.05,), epochs=20, batch=64)
print(f"test error {run.test_error:.3f} after {run.history[-1].epoch:g} epochs")
found = class_geometry.separations(networks, digits, anchors=500, layers=["relu2"])

figure, axes = plt.subplots(2, 2, figsize=(9, 6), layout="constrained")
for ax, column in zip(axes.flat, ("intra_random", "inter_random", "intra_boundary", "inter_boundary")):
    found.plot(ax, column=column)
for test in found.tests():
    medians = f"{test.median_before:.3f} → {test.median_after:.3f}"
    print(f"{test.column}: {medians}, P = {test.superiority:.2f}, p = {test.mann_whitney_p:.1g}")

# %%
# What training ends in: classes come apart layer by layer. A linear probe and the nearest class mean, held-out digits.

ax = plt.subplots(figsize=(6, 3.5), layout="constrained")[1]
class_geometry.collapse(networks["trained"], digits, samples=1500).plot(ax)
