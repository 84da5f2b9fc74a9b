"""
3. Inspect
==========

Find out why a network does not learn, and get a fix that `initscope.inspect` has tried. The data are handwritten
digits.
"""

# %%
# The model is a ReLU network of 40 layers with Glorot's initialization. The mean square of its activations is halved
# at each layer.
import torch
from matplotlib import pyplot as plt

import initscope
from initscope.initializers import glorot_

digits = initscope.data.load("digits")
torch.manual_seed(0)
layers = [layer for _ in range(40) for layer in (torch.nn.Linear(64, 64), torch.nn.ReLU())]
model = glorot_(torch.nn.Sequential(torch.nn.Flatten(), *layers, torch.nn.Linear(64, 10)))
report = initscope.inspect(model, digits.images, targets=digits.labels, pairs=32)
for finding in report.errors:
    print(finding.code, finding.name)
    print("   ", finding.message)

# %%
# The figure shows the :term:`RMS ratio` of each layer. ``report.to_pandas()`` returns these numbers, and the HTML
# report also draws them.
figure, ax = plt.subplots(layout="constrained")
for name in ("predicted", "measured"):
    ax.semilogy([row[f"rms_ratio_{name}"] for row in report.table()], label=name)
ax.set(xlabel="layer", ylabel="RMS of the activations / RMS of the input")
ax.legend()

# %%
# `initscope.inspect` has also tried other initializations, widths and depths on copies of the network.
for row in report.what_if.to_dict()["alternatives"][:4]:
    print(f"{row['name']}: score {row['score']:.2f}, angle ratio {row['angle_ratio']:.2f}")
print("Suggested fix:", report.fix.code or report.fix.advice)

# %%
# Apply the looks-linear initialization. With it a ReLU network computes a linear function at initialization. The
# report then has no errors, so ``assert_healthy`` does not raise an exception. Use ``assert_healthy`` in your tests.
initscope.initializers.looks_linear_(model)
fixed = initscope.inspect(model, digits.images, targets=digits.labels, pairs=32, alternatives=False)
fixed.assert_healthy()
print(fixed.headline)

# %%
# ``report.to_html("report.html")`` writes the report as one file. On the command line:
# ``initscope inspect mynet.py:make --data photos/ --size 64 --out report.html --fail-on exploding``.
# Next: :doc:`plot_4_plan`. Symptoms and their causes: :doc:`/symptoms`. All options: :doc:`/inspection`.
