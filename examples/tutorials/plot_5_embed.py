"""
5. Use: embed, hash, search
===========================

A random layer is a cheap code whose distances follow a known law. Estimators in scikit-learn's manner.
"""

# %%
# Signs of one random layer: the share of unequal bits estimates the angle over π, exactly binomially.
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
# How many bits are enough is a question for `initscope.plan.bits`; how low-dimensional the data are, one for the mean
# width.
width = initscope.mean_width(rows - rows.mean(axis=0))
print(f"intrinsic dimension {width.intrinsic_dimension:.1f} of {rows.shape[1]}")

# %%
# An index over the codes finds the nearest ones exactly.
index = embed.HammingIndex(256)
index.add(codes[100:])
distances, neighbours = index.search(codes[:100], 5)
right = digits.labels[100:][neighbours] == digits.labels[:100, None]
print(f"{right.mean():.0%} of the five nearest codes are of the same digit")

# %%
# Real-valued features that keep a known kernel, for any linear method on top.
features = embed.ReLUFeatures(500).fit_transform(rows)
a, b = features[0], features[1]
measured = a @ b / (np.linalg.norm(a) * np.linalg.norm(b))
before = rows[0] @ rows[1] / (np.linalg.norm(rows[0]) * np.linalg.norm(rows[1]))
limit = float(initscope.theory.angles.relu_cosine(before))
print(f"cosine {before:.3f} becomes {measured:.3f}, in the limit {limit:.3f}")

# %%
# On the command line: ``initscope hash`` writes codes to a file, ``initscope search`` asks it.
# Next: :doc:`plot_6_invert`. Both commands, learned codes and the comparison with published ones: :doc:`/embed`.
