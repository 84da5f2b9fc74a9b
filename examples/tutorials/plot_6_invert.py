"""
6. Use: invert
==============

What does a layer still know of its input? Where the active rows span, all of it.
"""

# %%
# A picture through 32 random 5×5 filters and a ReLU, and back.
import torch
from matplotlib import pyplot as plt

import initscope
from initscope import invert

photos = initscope.data.load("photos", crop=32, limit=1)
picture = torch.from_numpy(photos.images).double()
torch.manual_seed(0)
layer = torch.nn.Sequential(torch.nn.Conv2d(3, 32, 5), torch.nn.ReLU()).double()
found = invert.recover(layer, layer(picture).detach())
print(found.exact, f"condition {found.condition:.0f}, largest error {float((found.inputs - picture).abs().max()):.1e}")

# %%
# Noise on the outputs comes back amplified by a known factor.
noisy = layer(picture).detach()
noisy = noisy + 1e-3 * torch.randn(noisy.shape, generator=torch.manual_seed(1), dtype=torch.float64)
error = (invert.recover(layer, noisy, noise=1e-3).inputs - picture).square().mean().sqrt()
print(f"error {float(error):.1e} per pixel from noise of 1e-3 per output")

# %%
# Deeper layers forget; a picture whose features agree is found by descent.
model = initscope.models.load_model("conv5x5x32-relu-maxpool2-conv3x3x64-relu-maxpool2", input_shape=photos.shape)
shown = invert.invert_layers(model, photos.images, ["relu1", "maxpool1", "maxpool2"], iterations=40)
shown.plot(plt.subplots(figsize=(7, 2.4), layout="constrained")[1])
for line in shown.means():
    print(f"{line['layer']}: {line['psnr']:.1f} dB")

# %%
# Whether a layer loses anything at all can be decided, with a proof either way.
decision = initscope.injectivity.decide([[1, 0], [0, 1], [-1, 0], [0, -1]])
print(decision.injective, decision.method)

# %%
# On the command line: ``initscope invert "conv3x3x32-relu-maxpool2-conv3x3x64-relu" --layer relu1 --size 32``.
# More: :doc:`/inversion`, :doc:`/injectivity`; which statement is which function: :doc:`/theorems`.
