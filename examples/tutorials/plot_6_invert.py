"""
6. Use: invert
==============

How much of the input of a layer can be recovered from its output? All of it, if the active rows span the input space.
"""

# %%
# Recover an image from the outputs of 32 random 5×5 filters and a ReLU.
import torch
from matplotlib import pyplot as plt

import initscope
from initscope import invert

photos = initscope.data.load("photos", crop=32)
image = torch.from_numpy(photos.images[photos.images.std(axis=(1, 2, 3)).argmax()][None]).double()  # high contrast
torch.manual_seed(0)
layer = torch.nn.Sequential(torch.nn.Conv2d(3, 32, 5), torch.nn.ReLU()).double()
recovered = invert.recover(layer, layer(image).detach())
print("exact:", recovered.exact)
print(f"condition {recovered.condition:.0f}, largest error {float((recovered.inputs - image).abs().max()):.1e}")

# %%
# Noise on the outputs is amplified by a known factor.
noisy = layer(image).detach()
noisy = noisy + 1e-3 * torch.randn(noisy.shape, generator=torch.manual_seed(1), dtype=torch.float64)
error = (invert.recover(layer, noisy, noise=1e-3).inputs - image).square().mean().sqrt()
print(f"error {float(error):.1e} per pixel from noise of 1e-3 per output")

# %%
# Deeper layers lose information. Gradient descent finds an image with the same features.
model = initscope.models.load_model("conv5x5x32-relu-maxpool2-conv3x3x64-relu-maxpool2", input_shape=photos.shape)
inversion = invert.invert_layers(model, image.float().numpy(), ["relu1", "maxpool1", "maxpool2"], iterations=40)
inversion.plot(plt.subplots(figsize=(7, 2.4), layout="constrained")[1])
for line in inversion.means():
    print(f"{line['layer']}: {line['psnr']:.1f} dB")

# %%
# ``decide`` proves whether different inputs can have the same output.
decision = initscope.injectivity.decide([[1, 0], [0, 1], [-1, 0], [0, -1]])
print(decision.injective, decision.method)

# %%
# On the command line: ``initscope invert "conv3x3x32-relu-maxpool2-conv3x3x64-relu" --layer relu1 --size 32``.
# More: :doc:`/inversion`, :doc:`/injectivity`; the function of each theorem: :doc:`/theorems`.
