"""
1. Predict
==========

What will a network do to the geometry of your data before it has learned anything? Theory answers without running it.
"""

# %%
# Pairs of inputs are all that is needed: here crops of two photographs that ship with scikit-learn. ``data.load`` also
# takes names of data sets, and ``data.load_any`` folders of pictures and array files.
import numpy as np
from matplotlib import pyplot as plt

import initscope
from initscope.initializers import He, ZeroSum

photos = initscope.data.load("photos", crop=32, limit=20)
x, y, _ = initscope.data.random_pairs(photos, 40)
print(x.shape)

# %%
# A model is any ``torch.nn.Module``, or a string such as this one: eight times a 3×3 convolution with 64 filters and a
# ReLU. The prediction has one row for each step, and a column for each pair.
model = initscope.models.load_model("conv3x3x64-relu*8", input_shape=photos.shape)
predicted = initscope.predict(model, x, y, He())
for row, angle in list(zip(predicted.rows, predicted.angle.mean(axis=1)))[:5]:
    print(f"{row.layer:6} {row.kind:8} {row.status:12} {angle:5.1f}°")

# %%
# The angle between two photographs closes from layer to layer. A dense network of the same depth closes it faster, and
# filters that sum to zero open it. Only the law of the weights matters, not their values: nothing was drawn.
flat = [np.ascontiguousarray(side.reshape(len(side), -1)) for side in (x, y)]
dense = initscope.models.load_model("dense500-relu*8", input_shape=flat[0].shape[1:])
figure, ax = plt.subplots(layout="constrained")
for name, found in {
    "convolutions, He": predicted,
    "dense, He": initscope.predict(dense, *flat, He()),
    "convolutions, zero-sum": initscope.predict(model, x, y, ZeroSum(compensate=True)),
}.items():
    ax.plot(found.angle.mean(axis=1)[::2], "o-", label=name)
ax.set(xlabel="ReLU layers", ylabel="mean angle of the pairs (degrees)", ylim=(0, 90))
ax.legend()

# %%
# One number of it by hand: a dense ReLU layer maps a right angle to a cosine of 1/π [#]_.
print(float(initscope.theory.angles.relu_cosine(0.0)), 1 / np.pi)

# %%
# On the command line: ``initscope predict "conv3x3x64-relu*8" --data photos --pairs 40``. Next: :doc:`plot_2_measure`.
# What a status means and where the formulas stop: :doc:`/prediction`, :doc:`/assumptions`.
#
# .. [#] Cho and Saul 2009, eq. 6; more in :doc:`/theorems`.
