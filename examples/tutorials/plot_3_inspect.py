"""
3. Inspect
==========

Predicted, measured, gradients, dead units and rank at once, with verdicts and what to change.
"""

# %%
# A ReLU network of 40 layers under Glorot's law, which loses half of the squared size a layer.
import torch
from matplotlib import pyplot as plt

import initscope
from initscope.initializers import glorot_

torch.manual_seed(0)
layers = [layer for _ in range(40) for layer in (torch.nn.Linear(64, 64), torch.nn.ReLU())]
model = glorot_(torch.nn.Sequential(*layers))
report = initscope.inspect(model, torch.rand(128, 64), pairs=32)
for verdict in report.findings:
    print(f"{verdict.name}: from layer {verdict.layer}, {verdict.value:.3g} against {verdict.threshold:g}")

# %%
# The size per unit by layer, in the table that ``report.to_pandas()`` gives and the page draws.
figure, ax = plt.subplots(layout="constrained")
for name in ("predicted", "measured"):
    ax.semilogy([row[f"rms_ratio_{name}"] for row in report.table()], label=name)
ax.set(xlabel="step", ylabel="size per unit over the input's")
ax.legend()

# %%
# The same network started otherwise, wider or shallower, was tried in copies; the best is named with the line of code.
for row in report.what_if.to_dict()["alternatives"][:4]:
    print(f"{row['name']}: score {row['score']:.2f}, angles kept {row['angle_ratio']:.2f}")
print("what to do:", report.what_if.best.code or report.what_if.best.advice)
print("without changing the activation:", report.what_if.best_law.code)

# %%
# The second line applied; in a test ``assert_healthy`` keeps it so.
initscope.initializers.looks_linear_(model)
initscope.inspect(model, torch.rand(128, 64), pairs=32, alternatives=False).assert_healthy()

# %%
# ``report.to_html("report.html")`` writes the page. On the command line:
# ``initscope inspect mynet.py:make --data photos/ --size 64 --out report.html --fail-on exploding``.
# Next: :doc:`plot_4_plan`. Thresholds and their sources: :doc:`/inspection`.
