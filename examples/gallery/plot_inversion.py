"""
Recover a photograph from the outputs of a random layer
========================================================

A layer of 32 random 5×5 filters with ReLU loses no information about a photograph. The active rows span the input
space, so least squares recovers the photograph. After max-pooling and a second layer, part of the image is lost.
"""

import numpy as np
from matplotlib import pyplot as plt

from initscope import data, invert, models

photos = data.load("photos", crop=48)
images = photos.images[[42, 159]]  # crops with much detail
model = models.load_model("conv5x5x32-relu-maxpool2-conv3x3x64-relu-maxpool2-conv3x3x64-relu", input_shape=photos.shape)
inversion = invert.invert_layers(model, images, ["relu1", "relu2", "relu3"], iterations=60, smoothness=0.001)
inversion.plot(plt.subplots(figsize=(8, 4.4), layout="constrained")[1])
for line in inversion.means():
    print(f"{line['layer']}: {line['psnr']:.1f} dB, structural similarity {line['ssim']:.3f}")

# %%
# One product with the transposed weights is already close to the input, and its error decreases like 1/√(outputs). If
# several layers are inverted one after the other, the error grows. It grows slowly if each estimate is projected on the
# set of possible values, and like 2^(depth/2) otherwise.

figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
rate = invert.error_rate((4, 16, 64), (256, 512, 1024, 2048), inputs=64, draws=20)
rate.plot(axes[0])
invert.error_growth(5, width=300, draws=8).plot(axes[1])
print("slopes:", {dimension: np.round(slope, 3) for dimension, slope in rate.slopes().items()})
