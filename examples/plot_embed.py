"""
Signs of a random layer measure angles
======================================

The number of unequal bits of two codes is Binomial(bits, angle/π), exactly. Handwritten digits, 64 and 1,024 bits,
angles around the mean digit: the dots are pairs, the band is two standard deviations of that law.
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
# A learned code beats a random one of the same length at finding digits of the same class. Ties are counted exactly.

train, test = slice(0, 1000), slice(1000, None)
for hasher in (embed.SignHash(12, center=True), embed.LearnedHash(12, layers=2, hidden=128, steps=200)):
    codes = hasher.fit(rows[train], digits.labels[train]).transform(rows)
    score = embed.mean_average_precision(codes[test], digits.labels[test], codes[train], digits.labels[train])
    print(f"{type(hasher).__name__}: mAP {score.value:.3f} (ties: from {score.worst:.3f} to {score.best:.3f})")
