"""
Figure 1 of the convolutional paper
===================================

Figure 1 of [Nachum2022]_ shows cosines of pairs of images before and after one random convolutional ReLU layer.
Gaussian images follow the curve of a dense layer. Cosines of photographs change less, and their least-squares line is
nearer to the diagonal. The documentation is built without downloads, so bundled photographs replace Fashion-MNIST,
CIFAR-10 and ImageNet. ``initscope reproduce cnn-figure-1 --scale full`` uses these data sets if they are on the disk.
"""

import matplotlib.pyplot as plt

from initscope.reproductions import cosine_scatter

# %%
# There are two panels with 40 pairs each. Each panel uses three random layers of 64 filters.
panels = (("gaussian", 11), ("photos:crop=32", 3))
scatter = cosine_scatter.run(panels=panels, pairs=40, filters=64, layers=3, limit=80)

figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for panel, ax in zip(scatter.rows, axes):
    panel.plot(ax)
plt.show()

# %%
# The slope can be computed without random filters: the expected cosine has a closed form at every position.
for panel in scatter.rows:
    print(f"{panel.name}: slope {panel.slope:.3f} ± {panel.slope_error:.3f}, predicted {panel.predicted_slope:.3f}")
