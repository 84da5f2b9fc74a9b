"""
Closing angles, and filters that open them
==========================================

Pairs of photographs through eight layers at initialisation: He's weights make them more and more alike, filters that
sum to zero drive them apart. Lines are predictions, dots a network of 48 filters a layer, run twice.
"""

import matplotlib.pyplot as plt

import initscope
from initscope.initializers import He, ZeroSum

photos = initscope.data.load("photos", crop=32, limit=12)
x, y, _ = initscope.data.random_pairs(photos, 30)
model = initscope.models.load_model("conv3x3x48-relu*8", input_shape=photos.shape)

# %%
# The same call for both weight laws; predicted and measured have the same rows.
figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
for law, name, color in ((He(), "He", "C0"), (ZeroSum(compensate=True), "zero-sum", "C1")):
    predicted = initscope.predict(model, x, y, law)
    measured = initscope.measure(model, x, y, initializer=law, draws=2)
    ax.plot(predicted.angle.mean(axis=1), color=color, label=f"{name}, predicted")
    ax.plot(measured.angle.mean(axis=1), "o", color=color, markersize=4, label=f"{name}, measured")
ax.set_xticks(range(0, 17, 2), ["input", *(f"relu{layer}" for layer in range(1, 9))])
ax.set_ylim(0, 90)
ax.set_ylabel("mean angle of pairs (degrees)")
ax.legend()
plt.show()
