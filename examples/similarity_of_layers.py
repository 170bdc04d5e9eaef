"""
Similarity of two networks, layer by layer
==========================================

Two networks from different seeds have different channels. To compare their layers, channels have to
be matched: by any rotation, or only by what the activation permits.
"""

# %%
# A ResNet-20 is compared with itself, its channels moved by a symmetry; with one from another seed;
# and with one before training.

import matplotlib.pyplot as plt
import numpy as np

import sigmascope as sg

subject = sg.catalog.model("sigmascope/resnet20")
images = list(sg.catalog.data("embedded", transform=subject.transform, limit=128))
others = {
    "itself, moved": sg.symmetry.move(subject.network, seed=0),
    "another seed": sg.catalog.model("sigmascope/resnet20:1").network,
    "before training": sg.catalog.model("sigmascope/resnet20:3-init").network,
}

# %%
# ``compare`` takes every layer of one with every layer of the other, or only those at the same
# place. CKA does not change if features are rotated. Its form for the group of ReLU changes, unless
# channels are only permuted and scaled by positive numbers.

groups = {"CKA": "orthogonal", "CKA for the ReLU group": "relu"}
curves = {
    (title, name): np.diag(
        sg.symmetry.compare(
            subject.network, other, images, measure="cka", group=group, pairs="diagonal"
        ).similarities
    )
    for title, group in groups.items()
    for name, other in others.items()
}
for (title, name), curve in curves.items():
    print(f"{title:<22}  {name:<16} {curve.mean():.3f} on average")

# %%
# A single pair of layers has functions of its own. The Procrustes distance also finds the matching.

features = sg.dissection.network_features
for name in ("itself, moved", "another seed"):
    x, y = (
        next(iter(features(network, "blocks.8.act2", images)))
        for network in (subject.network, others[name])
    )
    print(f"{name}: {sg.symmetry.procrustes(x, y)}")

# %%
# Both measures see that the moved network is the same. To CKA another seed is nearly the same, too.
# Channel by channel it is not: the two networks share what they compute, and not the channels that
# compute it.

figure, panels = plt.subplots(1, 2, figsize=(8.5, 3.2), sharey=True, layout="constrained")
for panel, title in zip(panels, groups, strict=True):
    for name in others:
        curve = curves[title, name]
        panel.plot(range(1, len(curve) + 1), curve, "o-", markersize=4, label=name)
    panel.set(
        title=title,
        xlabel="activation, from input to output",
        ylim=(0, 1.05),
        xticks=range(1, 20, 3),
    )
panels[0].set_ylabel("similarity to a ResNet-20")
panels[0].legend(loc=(0.5, 0.3))
