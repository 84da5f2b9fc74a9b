"""
What training does to distances within and between classes
==========================================================

A small network is measured on handwritten digits, at initialization and after training. The figure shows distances
after the network divided by distances before it, for random points and for :term:`boundary points <boundary point>`.

Digits are an easy data set. Training moves the points of a class together everywhere. It does not increase the distance
between classes at the boundary. On CIFAR-10 it does; see :doc:`/classes`.
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
separations = class_geometry.separations(networks, digits, anchors=500, layers=["relu2"])

figure, axes = plt.subplots(2, 2, figsize=(9, 6), layout="constrained")
for ax, column in zip(axes.flat, ("intra_random", "inter_random", "intra_boundary", "inter_boundary")):
    separations.plot(ax, column=column)
for test in separations.tests():
    medians = f"{test.median_before:.3f} → {test.median_after:.3f}"
    print(f"{test.column}: {medians}, P = {test.superiority:.2f}, p = {test.mann_whitney_p:.1g}")

# %%
# Classes become separable layer by layer. The figure shows the accuracy of a linear probe and of the nearest class mean
# on test digits.

ax = plt.subplots(figsize=(6, 3.5), layout="constrained")[1]
class_geometry.collapse(networks["trained"], digits, samples=1500).plot(ax)
