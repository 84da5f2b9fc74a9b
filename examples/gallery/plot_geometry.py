"""
Angles that decrease, and filters that increase them
=====================================================

The figure shows the angle between pairs of photographs in eight layers at initialization. With He's initialization it
decreases from layer to layer. Filters that sum to zero increase it. Lines are predictions. Dots are measurements with
48 filters per layer and two draws of the weights.
"""

import matplotlib.pyplot as plt

import initscope
from initscope.initializers import He, ZeroSum

photos = initscope.data.load("photos", crop=32, limit=12)
x, y, _ = initscope.data.random_pairs(photos, 30)
model = initscope.models.load_model("conv3x3x48-relu*8", input_shape=photos.shape)

# %%
# The same calls for both initializers. Prediction and measurement have the same rows.
figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
for initializer, name, color in ((He(), "He", "C0"), (ZeroSum(compensate=True), "zero-sum", "C1")):
    predicted = initscope.predict(model, x, y, initializer)
    measured = initscope.measure(model, x, y, initializer=initializer, draws=2)
    ax.plot(predicted.angle.mean(axis=1), color=color, label=f"{name}, predicted")
    ax.plot(measured.angle.mean(axis=1), "o", color=color, markersize=4, label=f"{name}, measured")
ax.set_xticks(range(0, 17, 2), ["input", *(f"relu{layer}" for layer in range(1, 9))])
ax.set_ylim(0, 90)
ax.set_ylabel("mean angle of pairs (degrees)")
ax.legend()
plt.show()
