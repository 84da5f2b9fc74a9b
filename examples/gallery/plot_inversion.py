"""
A photograph back from a layer of random filters
================================================

32 random filters of 5×5 with ReLU keep all of a photograph: the active rows span, and least squares on them gives it
back. Behind max-pooling and a second layer part of it is gone.
"""

import numpy as np
from matplotlib import pyplot as plt

from initscope import data, invert, models

photos = data.load("photos", crop=48, limit=2)
model = models.load_model("conv5x5x32-relu-maxpool2-conv3x3x64-relu-maxpool2-conv3x3x64-relu", input_shape=photos.shape)
found = invert.invert_layers(model, photos.images, ["relu1", "relu2", "relu3"], iterations=60, smoothness=0.001)
found.plot(plt.subplots(figsize=(8, 4.4), layout="constrained")[1])
for line in found.means():
    print(f"{line['layer']}: {line['psnr']:.1f} dB, structural similarity {line['ssim']:.3f}")

# %%
# Without solving anything, one product with the weights is already close: the error falls like one over the root of
# the number of outputs. Undone layer by layer it grows, slowly where each estimate is projected on the set it comes
# from, and like 2 to the half of the depth where it is not.

figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
rate = invert.error_rate((4, 16, 64), (256, 512, 1024, 2048), inputs=64, draws=20)
rate.plot(axes[0])
invert.error_growth(5, width=300, draws=8).plot(axes[1])
print("slopes:", {dimension: np.round(slope, 3) for dimension, slope in rate.slopes().items()})
