"""
Signs of a random layer measure angles
======================================

The number of unequal bits of two codes is Binomial(bits, angle/π), exactly. Handwritten digits, 64 and 1,024 bits,
angles around the mean digit: the dots are pairs, the dashed lines two standard deviations of that law.
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
# A learned code beats a random one of the same length at finding digits of the same class. Items at equal distance are
# counted in every order: the dots are the mean, the bars what the worst and the best order would report.

from initscope.reproductions import hashing_table

table = hashing_table.run(
    digits, methods=("raw", "random", "ITQ", "KSH", "NN-1", "NN-2"), splits=1, queries=500, per_class=50, steps=200
)
ax = table.plot(plt.subplots(figsize=(8, 4.5), layout="constrained")[1])
ax.set_title("Handwritten digits, 50 labels a class (NN: networks of 1 and 2 layers)")
for row in table.rows:
    if row.bits == 12:
        print(f"{row.method}, 12 bits: mAP {row.value:.1f} % (ties: from {row.worst:.1f} to {row.best:.1f})")
