"""
2. Measure
==========

The same rows as a prediction, but run: on your model, with weights drawn anew or as they are, each number with its
standard error.
"""

# %%
# Weights are drawn four times; what is measured stands beside what was predicted.
import torch
from matplotlib import pyplot as plt

import initscope
from initscope.geometry import Comparison
from initscope.initializers import He

photos = initscope.data.load("photos", crop=32, limit=20)
x, y, _ = initscope.data.random_pairs(photos, 40)
model = initscope.models.load_model("conv3x3x48-relu*6", input_shape=photos.shape)
predicted = initscope.predict(model, x, y, He())
measured = initscope.measure(model, x, y, initializer=He(), draws=4, seed=0)
Comparison(predicted, measured).plot(plt.subplots(layout="constrained")[1])

# %%
# The bars are standard errors over the weights. All pairs see the same filters and stray together, so an average over
# pairs is hardly surer than one pair; more draws help. Theory is the limit of wide layers: expect deviations of the
# order of depth over width, here 6/48.
for row, angle, error in list(zip(measured.rows, measured.angle.mean(axis=1), measured.mean_angle_se))[::4]:
    print(f"{row.layer:6} {angle:5.1f}° ± {error:.1f}")

# %%
# Your own model, with the weights it has (``draws=0``): any ``torch.nn.Module``. It is left as it was found, its random
# state, mode and buffers too.


class Residual(torch.nn.Module):
    """Two convolutions beside the identity."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(channels, channels, 3, padding=1)
        self.second = torch.nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        return h + self.second(torch.relu(self.first(h)))


torch.manual_seed(0)
mine = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, padding=1), Residual(16), torch.nn.ReLU(), Residual(16))
found = initscope.measure(mine, x, y, draws=0)
print([(row.layer, round(float(angle), 1)) for row, angle in zip(found.rows, found.angle.mean(axis=1))])

# %%
# On the command line: ``initscope measure mynet.py:make --weights trained.pt --data photos/ --size 64 --draws 0``.
# Next: :doc:`plot_3_inspect`. Every column: :doc:`/measurement`; what the numbers say: :doc:`/reading`.
