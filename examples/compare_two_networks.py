"""
How do two networks differ?
===========================

``sg.difference`` subtracts two signatures site by site. On the same images most of the sampling
error cancels, so that small differences can be told from chance.
"""

# %%
# One ResNet-20 was trained as usual, another one from another seed. For the third, 40 % of the
# labels were wrong.

import matplotlib.pyplot as plt
import numpy as np

import sigmascope as sg

names = {"usual": "resnet20", "another seed": "resnet20:1", "wrong labels": "resnet20-noisy"}
signatures = {}
for title, name in names.items():
    subject = sg.catalog.model(f"sigmascope/{name}")
    images = sg.catalog.data("embedded", transform=subject.transform)
    signatures[title] = sg.signature(subject.network, images, estimator="population", name=title)
    print(f"{title}: {subject.accuracy:.1f} % correct")

# %%
# Sites are matched by their names. The last rows are statistics over all sites.

labels = sg.difference(signatures["wrong labels"], signatures["usual"])
seed = sg.difference(signatures["another seed"], signatures["usual"])
print(labels)

# %%
# Training again changes scores too, and the intervals do not know that: they are about other
# images, not about other networks. So another seed is the measure of what a difference means.

for one in (labels, seed):
    inside, ends = (
        np.mean([site.difference for site in one.sites if site.name.endswith(name)])
        for name in (".act1", ".act2")
    )
    print(f"{one.names[0]:>12}: inside blocks {inside:+.3f}, at their ends {ends:+.3f}")

# %%
# Another seed moves a few activations of the earlier blocks, and hardly any of the last six. Wrong
# labels move those in one direction: the ends of the blocks become less affine, and their insides
# more, until both do the same.

figure, axes = plt.subplots(figsize=(8, 3.6), layout="constrained")
for one, shift in ((labels, -0.1), (seed, 0.1)):
    places = np.arange(len(one.sites)) + shift
    differences = np.array([site.difference for site in one.sites])
    errors = [differences - [s.low for s in one.sites], [s.high for s in one.sites] - differences]
    axes.errorbar(places, differences, errors, fmt="o", markersize=4, label=one.names[0])
axes.axhline(0, color="black", linewidth=0.8)
axes.set_xticks(range(len(seed.sites)), [site.name for site in seed.sites], rotation=90)
axes.set(ylim=(-0.29, 0.22), ylabel="difference of scores")
axes.set_title("ResNet-20: difference from the usual training, 95 % intervals")
axes.legend(loc="lower center", ncols=2)
