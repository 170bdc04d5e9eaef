"""
What do the channels of a layer detect?
=======================================

A channel detects a concept if it is active where the concept is. ``sg.dissect`` compares the
channels of a layer with masks, and tells how special the layer's own basis is.
"""

# %%
# Two kinds of masks can be computed from images: eleven colors, and edges in four directions. Those
# of annotated data, such as Broden, have a reader.

import matplotlib.pyplot as plt
import torch

import sigmascope as sg
from sigmascope import dissection

pictures = next(iter(sg.catalog.data("embedded")))[0].to(torch.uint8)
masks = dissection.join_masks(dissection.color_masks(pictures), dissection.edge_masks(pictures))
print(*masks.concepts, sep=", ")

# %%
# A channel is active above the 98 % quantile of its values. IoU is the share of pixels that are
# both active and of the concept, among those that are one or the other.

subject = sg.catalog.model("sigmascope/resnet20")
images = list(sg.catalog.data("embedded", transform=subject.transform))
features = dissection.network_features(subject.network, "blocks.0.act2", images)
found = sg.dissect(features, masks, quantile=0.98)
ranked = found.best_iou[0, 0].argsort(descending=True).tolist()
for unit in ranked:
    concept, iou = found.unit(unit)
    print(f"channel {unit:>2}: {concept!s:<24} IoU {iou:.3f}")

# %%
# Do other directions in the space of channels detect as much? Power 0 is the layer's own basis,
# power 1 a random rotation of it. The mean of the best IoU falls, and fewer concepts are detected.

turned = sg.dissect(features, masks, quantile=0.98, seeds=range(3), powers=(0, 0.5, 1))
print(turned)

# %%
# The four channels that detect different concepts best, each with the images in which it is most
# active. Lines are around the active pixels.

best = {found.unit(unit)[0]: unit for unit in reversed(ranked)}
units = sorted(best.values(), key=ranked.index)[:4]
maps = next(iter(features))[:, units]
figure, panels = plt.subplots(4, 6, figsize=(7, 5.4))
figure.subplots_adjust(0.01, 0.01, 0.99, 0.95, wspace=0.05, hspace=0.25)
for row, unit, active in zip(panels, units, maps.unbind(dim=1), strict=True):
    threshold = float(found.thresholds[0, 0, unit])
    most = (active > threshold).float().mean(dim=(1, 2)).argsort(descending=True)
    for panel, place in zip(row, most.tolist(), strict=False):
        panel.imshow(pictures[place].permute(1, 2, 0).numpy())
        panel.contour(active[place].numpy(), [threshold], colors="magenta", linewidths=1.2)
        panel.set_axis_off()
    concept, iou = found.unit(unit)
    row[0].set_title(f"channel {unit}: {concept}, IoU {iou:.2f}", loc="left")
