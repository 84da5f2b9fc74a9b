"""
Signs of a random layer measure angles
======================================

The number of unequal bits of two codes has exactly the distribution Binomial(bits, angle/π). The figure shows
handwritten digits with 64 and 1,024 bits. The mean digit is subtracted before angles are computed. Dots are pairs, and
dashed lines are two standard deviations of the binomial distribution.
"""

from matplotlib import pyplot as plt

from initscope import data, embed

digits = data.load("digits")
rows = digits.images.reshape(len(digits), -1)

figure, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")
for ax, bits in zip(axes, (64, 1024)):
    report = embed.SignHash(bits, center=True).fit(rows).distortion_report(rows, pairs=2000)
    report.plot(ax)
    print(f"{bits} bits: deviation {report.rms_observed:.4f}, predicted {report.rms_predicted:.4f}")

# %%
# A learned code finds more digits of the same class than a random code of the same length. Items at equal distance can
# be ranked in any order. Dots are the mean over all orders, and bars reach from the worst to the best order.

from initscope.reproductions import hashing_table

table = hashing_table.run(
    digits, methods=("raw", "random", "ITQ", "KSH", "NN-1", "NN-2"), splits=1, queries=500, per_class=50, steps=200
)
ax = table.plot(plt.subplots(figsize=(8, 4.5), layout="constrained")[1])
ax.set_title("Handwritten digits, 50 labels per class (NN: networks of 1 and 2 layers)")
for row in table.rows:
    if row.bits == 12:
        print(f"{row.method}, 12 bits: mAP {row.value:.1f} % (ties: from {row.worst:.1f} to {row.best:.1f})")
