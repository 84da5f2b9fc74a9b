"""
5. Use: embed, hash, search
===========================

The signs of a random layer are a cheap code, and the distances between codes have a known distribution. The classes
follow scikit-learn's API.
"""

# %%
# A code consists of the signs of one random layer. The number of unequal bits of two codes has a binomial distribution
# with mean bits · angle/π.
import numpy as np
from matplotlib import pyplot as plt

import initscope
from initscope import embed

digits = initscope.data.load("digits")
rows = digits.images.reshape(len(digits), -1)
hasher = embed.SignHash(bits=256, center=True).fit(rows)
codes = hasher.transform(rows)
print(codes.shape, codes.dtype)
hasher.distortion_report(rows, pairs=2000).plot(plt.subplots(layout="constrained")[1])

# %%
# `initscope.plan.bits` computes how many bits are enough. The :term:`Gaussian mean width` measures how many dimensions
# the data effectively have.
width = initscope.mean_width(rows - rows.mean(axis=0))
print(f"intrinsic dimension {width.intrinsic_dimension:.1f} of {rows.shape[1]}")

# %%
# An index over the codes returns the exact nearest codes.
index = embed.HammingIndex(256)
index.add(codes[100:])
distances, neighbors = index.search(codes[:100], 5)
right = digits.labels[100:][neighbors] == digits.labels[:100, None]
print(f"{right.mean():.0%} of the five nearest codes are of the same digit")

# %%
# ``ReLUFeatures`` returns real-valued features with a known kernel. They can be used with any linear method.
features = embed.ReLUFeatures(500).fit_transform(rows)
a, b = features[0], features[1]
measured = a @ b / (np.linalg.norm(a) * np.linalg.norm(b))
before = rows[0] @ rows[1] / (np.linalg.norm(rows[0]) * np.linalg.norm(rows[1]))
limit = float(initscope.theory.angles.relu_cosine(before))
print(f"cosine of the inputs {before:.3f}, of the features {measured:.3f}, limit of wide layers {limit:.3f}")

# %%
# On the command line: ``initscope hash`` writes codes to a file, and ``initscope search`` searches it.
# Next: :doc:`plot_6_invert`. Both commands, learned codes, and a comparison with published methods: :doc:`/embed`.
