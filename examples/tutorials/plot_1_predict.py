"""
1. Predict
==========

What does a randomly initialized network do to the geometry of your data? Theory answers without running the network.
"""

# %%
# A prediction needs pairs of inputs. Here they are crops of two photographs that ship with scikit-learn. ``data.load``
# takes names of data sets, folders of images, and array files.
import numpy as np
from matplotlib import pyplot as plt

import initscope
from initscope.initializers import He, ZeroSum

photos = initscope.data.load("photos", crop=32, limit=20)
x, y, _ = initscope.data.random_pairs(photos, 40)
print(x.shape)

# %%
# A model is any ``torch.nn.Module``, or an architecture string. This string repeats a block eight times: a 3×3
# convolution with 64 filters, and a ReLU. The prediction has one row for each layer and one column for each pair.
model = initscope.models.load_model("conv3x3x64-relu*8", input_shape=photos.shape)
predicted = initscope.predict(model, x, y, He())
for row, angle in list(zip(predicted.rows, predicted.angle.mean(axis=1)))[:5]:
    print(f"{row.layer:6} {row.kind:8} {row.status:12} {angle:5.1f}°")

# %%
# The :term:`angle` between two photographs decreases from layer to layer. In a dense network of the same depth it
# decreases faster. With filters that sum to zero it increases. The prediction uses only the distribution of the
# weights: no weights were drawn.
flat = [np.ascontiguousarray(side.reshape(len(side), -1)) for side in (x, y)]
dense = initscope.models.load_model("dense500-relu*8", input_shape=flat[0].shape[1:])
figure, ax = plt.subplots(layout="constrained")
for name, prediction in {
    "convolutions, He": predicted,
    "dense, He": initscope.predict(dense, *flat, He()),
    "convolutions, zero-sum": initscope.predict(model, x, y, ZeroSum(compensate=True)),
}.items():
    ax.plot(prediction.angle.mean(axis=1)[::2], "o-", label=name)
ax.set(xlabel="ReLU layers", ylabel="mean angle of the pairs (degrees)", ylim=(0, 90))
ax.legend()

# %%
# For one layer there is a formula: a wide dense ReLU layer maps a right angle to a cosine of 1/π [#]_.
print(float(initscope.theory.angles.relu_cosine(0.0)), 1 / np.pi)

# %%
# On the command line: ``initscope predict "conv3x3x64-relu*8" --data photos --pairs 40``. Next: :doc:`plot_2_measure`.
# The meaning of each status and the limits of the formulas: :doc:`/prediction`, :doc:`/assumptions`.
#
# .. [#] Cho and Saul 2009, eq. 6; more in :doc:`/theorems`.
