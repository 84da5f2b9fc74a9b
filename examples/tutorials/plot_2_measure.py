"""
2. Measure
==========

A measurement runs your model, and has the same rows as a prediction. It draws the weights several times, or uses the
current weights. Each number has a standard error.
"""

# %%
# Draw the weights four times and compare the measurement with the prediction.
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
# The bars are standard errors over the weights. All pairs are run with the same filters, so their errors are
# correlated. More pairs hardly reduce the error of the mean, but more draws do. The theory is the limit of wide layers.
# Expect deviations of the order of depth/width, here 6/48.
for row, angle, error in list(zip(measured.rows, measured.angle.mean(axis=1), measured.mean_angle_se))[::4]:
    print(f"{row.layer:6} {angle:5.1f}° ± {error:.1f}")

# %%
# Any ``torch.nn.Module`` can be measured with its current weights (``draws=0``). The call leaves the model unchanged,
# including its random state, mode and buffers.


class Residual(torch.nn.Module):
    """A residual block of two convolutions."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(channels, channels, 3, padding=1)
        self.second = torch.nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        return h + self.second(torch.relu(self.first(h)))


torch.manual_seed(0)
mine = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, padding=1), Residual(16), torch.nn.ReLU(), Residual(16))
measured = initscope.measure(mine, x, y, draws=0)
for row, angle in zip(measured.rows, measured.angle.mean(axis=1)):
    print(f"{row.layer:10} {angle:5.1f}°")

# %%
# On the command line: ``initscope measure mynet.py:make --weights trained.pt --data photos/ --size 64 --draws 0``.
# Next: :doc:`plot_3_inspect`. All columns: :doc:`/measurement`; how to read the numbers: :doc:`/reading`.
