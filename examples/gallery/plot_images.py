"""
One random layer on photographs and on noise
============================================

After a dense ReLU layer, the cosine of two inputs is a function of their cosine before it. After a convolutional layer
it depends on the images. Photographs lie near the lower edge of the shaded region, where the cosine does not change.
Gaussian noise follows the curve of the dense layer. Theorem 3 excludes values outside of the shaded region.
"""

import matplotlib.pyplot as plt
import numpy as np

from initscope import data
from initscope.reproductions import saturation
from initscope.theory import angles, images

rng = np.random.default_rng(0)

# %%
# The data are pairs of crops of photographs from scikit-learn, and pairs of noise with correlations from -1 to 1.
photos = data.load("photos").images
order = rng.permutation(len(photos))
half = len(photos) // 2
x, y = photos[order[:half]], photos[order[half : 2 * half]]

correlation = rng.uniform(-1, 1, (200, 1, 1, 1))
u, v = rng.standard_normal((2, 200, 3, 32, 32))
v = correlation * u + np.sqrt(1 - correlation**2) * v

# %%
# The prediction is exact and needs no random filters. It computes box sums of x², y² and (x - y)², then a closed form
# at every position.
figure, ax = plt.subplots(figsize=(5.5, 5), layout="constrained")
rho = np.linspace(-1, 1, 201)
low, high = images.relu_cosine_bounds(rho)
ax.fill_between(rho, low, high, color="0.9", label="possible (theorem 3)")
ax.plot(rho, angles.relu_cosine(rho), color="tab:orange", label="dense layer")
for a, b, color, name in ((x, y, "tab:blue", "photographs"), (u, v, "tab:green", "Gaussian noise")):
    after = images.expected_cosine(a, b, kernel_size=3)
    ax.plot(images.cosine(a, b), after, ".", ms=4, color=color, label=name)
ax.set_xlabel("cosine of the images")
ax.set_ylabel("mean cosine after one 3×3 ReLU layer")
ax.legend(loc="upper left")

# %%
# Why do photographs change so little? Only positions where both patches are non-zero and not parallel change the inner
# product. A red and a green image are the opposite case: every pair of patches is orthogonal.
red, green = images.red_green_pair()
print("red, green:", images.cosine(red, green), "->", images.expected_cosine(red, green, kernel_size=3))
by_saturation = saturation.run(x, y, kernel_size=3)
figure, ax = plt.subplots(figsize=(5.5, 3.5), layout="constrained")
by_saturation.plot(ax)
