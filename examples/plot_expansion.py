"""
Why zero-sum filters and batch norm open angles
===============================================

ReLU layers with independent weights close angles. Filters that sum to zero, and batch norm, open them. Both do the same
thing: they remove the direction that all outputs of a ReLU layer share, its positive mean.
"""

# %%
# One dense layer as a map of cosines. Plain He weights lie above the diagonal everywhere: pairs become more alike,
# and 1 is the only place to end. Removing the share λ of the mean turns the map around 1: its slope there becomes
# 1/(1 - λ/π), more than 1, so that nearby inputs part, and a stable angle appears where the map crosses the diagonal.

import numpy as np
from matplotlib import pyplot as plt

from initscope.theory import angles

rho = np.linspace(-1, 1, 201)
figure, ax = plt.subplots(figsize=(5, 5), layout="constrained")
ax.plot(rho, rho, color="grey", linewidth=1)
for strength in (0.0, 0.25, 0.5, 1.0):
    ax.plot(rho, angles.zero_sum_relu_cosine(rho, strength), label=f"λ = {strength:g}")
    stable = [p for p in angles.fixed_points("relu", strength=strength) if p.stable]
    ax.plot([p.cosine for p in stable], [p.cosine for p in stable], "ko", markersize=4)
ax.set(xlabel="cosine before", ylabel="cosine after, next pre-activation", title="He (λ = 0) and zero-sum ReLU layers")
ax.legend()

# %%
# The same on photographs through twelve convolutional layers, predicted. Removing the mean of the data and dividing by
# its deviation, as is customary, spreads the inputs first and then lets them fall faster; orthogonal weights follow the
# same curve as Gaussian ones; zero-sum filters open the angles. Batch norm has no closed form over positions: measured.

import torch
from torch import nn

import initscope
from initscope.initializers import He, Orthogonal, ZeroSum

photos = initscope.data.load("photos", crop=16, limit=40)
x, y, _ = initscope.data.random_pairs(photos, 30)
mean, deviation = photos.images.mean(), photos.images.std()
plain = initscope.models.load_model("conv3x3x8-relu*12", input_shape=photos.shape)


def curve(prediction):
    """Mean pre-activation angle after each convolution."""
    return [prediction.angle[0].mean(), *prediction.angle[1::2].mean(axis=1)]


curves = {
    "He": curve(initscope.predict(plain, x, y, He())),
    "He, data standardised": curve(initscope.predict(plain, (x - mean) / deviation, (y - mean) / deviation, He())),
    "orthogonal": curve(initscope.predict(plain, x, y, Orthogonal(gain=2**0.5))),
    "zero-sum": curve(initscope.predict(plain, x, y, ZeroSum())),
    "zero-sum, λ = 0.5": curve(initscope.predict(plain, x, y, ZeroSum(strength=0.5))),
}

layers, channels = [], 3
for _ in range(12):
    layers += [
        nn.Conv2d(channels, 32, 3, padding=1, padding_mode="circular", bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(),
    ]
    channels = 32
normed = initscope.measure(
    nn.Sequential(*layers).train(), torch.from_numpy(x), torch.from_numpy(y), initializer=He(), draws=2
)
curves["batch norm (measured, 32 filters)"] = [normed.angle[0].mean(), *normed.angle[2::3].mean(axis=1)]

figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
for name, values in curves.items():
    ax.plot(values, "--" if name == "orthogonal" else "-", marker=".", label=name)
ax.set(xlabel="convolution", ylabel="mean pre-activation angle (degrees)", ylim=(0, None))
ax.legend(fontsize="small", loc="lower left", bbox_to_anchor=(0.55, 0.5))

# %%
# What it costs: the slope above 1 at cosine 1 is also the factor by which gradients grow from layer to layer, so full
# zero-sum weights explode gradients in deep networks. A small λ keeps angles from collapsing and gradients in bounds.

for strength in (0.1, 0.25, 0.5, 1.0):
    slope = angles.slope_at_one("relu", strength=strength)
    stable = angles.fixed_points("relu", strength=strength)[0]
    degrees = np.degrees(np.arccos(stable.cosine))
    print(f"λ = {strength:4g}: angles settle at {degrees:4.1f}°, gradient norms grow by {slope**0.5:.3f} a layer")
