"""
Deep networks that preserve angles
==================================

This example repeats section 4.2 of [Nachum2022]_ and adds theory. If the mean of the data is removed, ReLU layers
decrease angles more. Orthogonal weights do not help. Filters that sum to zero and batch norm increase angles. The
reason is that all outputs of a ReLU layer share a direction, their positive mean. Zero-sum filters and batch norm both
remove it.
"""

# %%
# Centered data contract more
# ---------------------------
# The figure shows the exact cosines of pairs of photographs before and after one wide convolutional ReLU layer (theorem
# 1). Photographs are not negative, so most cosines are near 1, where a ReLU layer changes little. After the mean of
# each color is removed, the cosines spread over [-1, 1]. There the map is flatter, so differences between pairs shrink
# more. Dividing each color by its standard deviation changes little. Dividing all colors by one number changes nothing,
# because the angles after a ReLU layer do not depend on the scale of its inputs.

import numpy as np
from matplotlib import pyplot as plt

import initscope
from initscope.theory import angles, images

photos = initscope.data.load("photos", crop=16, limit=40)
x, y, _ = initscope.data.random_pairs(photos, 60)
mean = photos.images.mean(axis=(0, 2, 3), keepdims=True)
deviation = photos.images.std(axis=(0, 2, 3), keepdims=True)
prepared = {
    "as they are": (x, y),
    "mean removed": (x - mean, y - mean),
    "mean removed, normalized": ((x - mean) / deviation, (y - mean) / deviation),
}


def input_cosine(x, y):
    """Return the cosine of each pair of inputs."""
    flat_x, flat_y = x.reshape(len(x), -1), y.reshape(len(y), -1)
    return (flat_x * flat_y).sum(axis=1) / np.linalg.norm(flat_x, axis=1) / np.linalg.norm(flat_y, axis=1)


figure, ax = plt.subplots(figsize=(5.5, 5), layout="constrained")
line = np.linspace(-1, 1, 201)
ax.plot(line, line, color="gray", linewidth=1)
ax.plot(line, angles.relu_cosine(line), color="gray", linestyle=":", label=r"dense layer, $\hat{R}$")
for name, pair in prepared.items():
    before, after = input_cosine(*pair), images.expected_cosine(*pair, kernel_size=3)
    slope = np.polyfit(before, after, 1)[0]
    ax.plot(before, after, "o", markersize=3, alpha=0.7, label=f"{name}: slope {slope:.2f}")
ax.set(xlabel="cosine of two photographs", ylabel="cosine after one layer, 3×3 filters")
ax.legend(fontsize="small")

# %%
# Angles after twelve layers
# --------------------------
# The figure shows predictions for the same photographs, layer by layer. Batch norm over positions has no closed form,
# so it is measured. Removing the mean first increases the angles of the data; then the layers decrease them faster.
# Orthogonal weights follow the curve of Gaussian ones, because wide layers depend on second moments only, and these are
# equal. Zero-sum filters and batch norm increase angles.

import torch
from torch import nn

from initscope.initializers import He, Orthogonal, ZeroSum

x, y = x[:30], y[:30]
centered = (x - mean) / deviation, (y - mean) / deviation
plain = initscope.models.load_model("conv3x3x8-relu*12", input_shape=photos.shape)


def curve(prediction):
    """Return the mean pre-activation angle after each convolution."""
    return [prediction.angle[0].mean(), *prediction.angle[1::2].mean(axis=1)]


curves = {
    "batch norm (measured, 32 filters)": None,
    "zero-sum": curve(initscope.predict(plain, x, y, ZeroSum())),
    "zero-sum, λ = 0.5": curve(initscope.predict(plain, x, y, ZeroSum(strength=0.5))),
    "He, data normalized": curve(initscope.predict(plain, *centered, He())),
    "He": curve(initscope.predict(plain, x, y, He())),
    "orthogonal (on the curve of He)": curve(initscope.predict(plain, x, y, Orthogonal(gain=2**0.5))),
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

figure, ax = plt.subplots(figsize=(8, 4.2), layout="constrained")
for name, values in curves.items():
    ax.plot(values, "--" if name.startswith("orthogonal") else "-", marker=".", label=name)
ax.set(xlabel="convolution", ylabel="mean pre-activation angle (degrees)", ylim=(0, None))
figure.legend(fontsize="small", loc="outside right upper")

# %%
# Why do zero-sum filters and batch norm increase angles?
# -------------------------------------------------------
# Both remove the direction that all outputs share.
# ReLU outputs are not negative, so any two of them share a large component. In one wide dense layer, remove this
# component by hand: the mean over the units, or the mean over the batch. Compare the result with the next layer's
# pre-activations under zero-sum filters, or after batch norm. Zero-sum filters give the same angles, pair by pair. So
# does the centering of batch norm. Batch norm also divides every unit by its standard deviation, which moves angles
# toward 90°: the dots off the diagonal.

generator = torch.Generator().manual_seed(0)
flat = torch.from_numpy(np.concatenate([x, y])).flatten(1)
first = He().fill_(nn.Linear(flat.shape[1], 4096, bias=False), generator=generator)
hidden = torch.relu(first(flat)).detach()


def pair_angles(values):
    """Return the angle between row i and row i + 30, in degrees."""
    return torch.rad2deg(torch.arccos(nn.functional.cosine_similarity(values[:30], values[30:]))).numpy()


following = nn.Linear(4096, 4096, bias=False)
seen = {}
with torch.no_grad():
    seen["He"] = pair_angles(hidden), pair_angles(He().fill_(following, generator=generator)(hidden))
    normalized = nn.BatchNorm1d(4096, affine=False)(following(hidden))
    seen["zero-sum"] = (
        pair_angles(hidden - hidden.mean(dim=1, keepdim=True)),
        pair_angles(ZeroSum().fill_(following, generator=generator)(hidden)),
    )
    seen["batch norm"] = pair_angles(hidden - hidden.mean(dim=0, keepdim=True)), pair_angles(normalized)

figure, ax = plt.subplots(figsize=(5.5, 5), layout="constrained")
ax.plot([0, 180], [0, 180], color="gray", linewidth=1)
for name, by_hand in zip(seen, ("nothing removed", "mean over units removed", "mean over batch removed"), strict=True):
    ax.plot(*seen[name], "o", markersize=4, alpha=0.7, label=f"{by_hand} / {name}")
ax.set(xlabel="angle of ReLU outputs, by hand (degrees)", ylabel="angle of the next pre-activations (degrees)")
ax.legend(fontsize="small")

# %%
# As maps of cosines
# ------------------
# For zero-sum filters on dense ReLU layers there is a formula. The product of the means is 1/π of the second moment.
# Subtracting the share λ of it turns :math:`\hat R` into :math:`(\hat R - \lambda/\pi)/(1 - \lambda/\pi)`. He's map
# lies above the diagonal everywhere, so 1 is its only fixed point. With λ > 0 the slope at 1 becomes 1/(1 - λ/π),
# more than 1: nearby inputs move apart, and a stable angle appears where the map crosses the diagonal (dots). Batch
# norm centers over the batch instead, C = GKG with G = I - 11ᵀ/n. It converges to the angles of a simplex, which are
# near 90° for many samples.

figure, ax = plt.subplots(figsize=(5, 5), layout="constrained")
ax.plot(line, line, color="gray", linewidth=1)
for strength in (0.0, 0.25, 0.5, 1.0):
    ax.plot(line, angles.zero_sum_relu_cosine(line, strength), label=f"λ = {strength:g}")
    stable = [p for p in angles.fixed_points("relu", strength=strength) if p.stable]
    ax.plot([p.cosine for p in stable], [p.cosine for p in stable], "ko", markersize=4)
ax.set(xlabel="cosine before", ylabel="cosine after, next pre-activation", title="He (λ = 0) and zero-sum ReLU layers")
ax.legend()

# %%
# The cost: gradients grow
# ------------------------
# The slope at cosine 1 is also the factor by which squared gradients grow from layer to layer. With λ = 1, gradients
# explode in deep networks. In wide layers a small λ prevents collapse and keeps gradients bounded. If the depth is
# comparable to the width, random fluctuations decrease angles for every λ. Then only the :term:`looks-linear
# initialization` preserves them (`initscope.initializers.LooksLinear`), which `initscope.inspect` tries too.

for strength in (0.1, 0.25, 0.5, 1.0):
    slope = angles.slope_at_one("relu", strength=strength)
    stable = angles.fixed_points("relu", strength=strength)[0]
    degrees = np.degrees(np.arccos(stable.cosine))
    print(f"λ = {strength:4g}: angles converge to {degrees:4.1f}°, gradient norms grow by {slope**0.5:.3f} per layer")
