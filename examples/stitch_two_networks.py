"""
Can one network continue what another began?
============================================

Stitching joins the front of one network to the back of another by a small layer between them. What
this layer has to be says how the two networks differ.
"""

# %%
# Two ResNet-20 from different seeds: one is in the package, the other in the zoo of a checkout.
# Stitches are fitted on some of the images that come with the package, and tested on others.

import matplotlib.pyplot as plt
import numpy as np

import sigmascope as sg

front, back = (sg.catalog.model(f"sigmascope/resnet20:{seed}") for seed in (0, 1))
images, labels = next(iter(sg.catalog.data("embedded", transform=front.transform)))
data = (images[:128], labels[:128]), (images[256:], labels[256:])

# %%
# These three families are not trained: no stitch at all; the best permutation of channels, with
# scales, as the activation permits; and any matrix, by least squares. Others are trained, such as
# ``sg.stitch(..., family="relu-group")``.

families = ["identity", "permutation", "least-squares"]
sites = ["blocks.2.act2", "blocks.5.act2", "blocks.8.act2"]
stitches = {}
for site in sites:
    stitcher = sg.stitching.Stitcher(
        front.network, back.network, data, site=site, names=("seed 0", "seed 1")
    )
    stitches[site] = stitcher.fit_many(families)

# %%
# The penalty is the accuracy that the stitched network lacks, compared with the two networks.

print(stitches["blocks.8.act2"][1])

# %%
# Without a stitch nothing is left, since the channels of the two networks have nothing to do with
# each other. At the last layer, a permutation with scales is nearly as good as any matrix. Further
# to the front it is not: there the networks differ by more than the symmetry of ReLU.

figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
for place, family in enumerate(families):
    accuracies = [found[place].stitched_accuracy for found in stitches.values()]
    bars = axes.bar(np.arange(3) + 0.27 * (place - 1), accuracies, width=0.25, label=family)
    axes.bar_label(bars, fmt="%.0f", label_type="center", color="white")
one = stitches[sites[0]][0]
axes.axhline((one.front_accuracy + one.back_accuracy) / 2, color="black", linestyle=":")
axes.set(ylabel="accuracy of the stitched network, %", ylim=(0, 125))
axes.set_xticks(range(3), [f"at {site}" for site in sites])
axes.legend(ncols=3, loc="upper center")
