"""
Does a high score mean that an activation can go?
=================================================

Replace each activation of a network by an affine map, one at a time, and measure the accuracy. The
score is a good guess of what this costs, and no more than that.
"""

# %%
# The maps are fitted on some images and judged on others.

import dataclasses

import matplotlib.pyplot as plt
import torch

import sigmascope as sg

subject = sg.catalog.model("sigmascope/resnet20")
images, labels = next(iter(sg.catalog.data("embedded", transform=subject.transform)))
fitted, judged, labels = images[:128], images[128:], labels[128:]


def accuracy(network):
    with torch.no_grad():
        return 100 * float((network(judged).argmax(dim=1) == labels).float().mean())


# %%
# A plan has a map for each activation, fitted by least squares to its inputs and outputs. We let it
# choose a single one, and apply it.

plan = sg.linearize.plan(subject.network, [fitted], budget=19)
before = accuracy(subject.network)
drops = {}
for name in (site.name for site in plan.sites):
    sites = tuple(dataclasses.replace(site, chosen=site.name == name) for site in plan.sites)
    one = dataclasses.replace(plan, sites=sites)
    drops[name] = before - accuracy(sg.linearize.apply(subject.network, one))

# %%
# What each replacement costs, the cheapest first.

sites = sorted(plan.sites, key=lambda site: drops[site.name])
for site in sites:
    print(f"{site.name:<14} score {site.score:.2f}, {drops[site.name]:5.1f} points lost")

# %%
# Activations that score more than 0.7 cost a point at most. Of those below, some cost little and
# one ruins the network. So a score says where to look first, and the accuracy decides.

figure, axes = plt.subplots(figsize=(6, 3.8), layout="constrained")
for end, label in ((".act1", "inside a block"), (".act2", "at the end of a block")):
    chosen = [site for site in sites if site.name.endswith(end)]
    axes.scatter([s.score for s in chosen], [drops[s.name] for s in chosen], label=label)
axes.scatter(plan.sites[0].score, drops["act1"], label="before the blocks")
worst = sites[-1]
axes.annotate(
    worst.name, (worst.score, drops[worst.name]), xytext=(8, -3), textcoords="offset points"
)
axes.set(xlabel="population score", ylabel="accuracy lost, points", yscale="symlog")
axes.set_yticks([0, 1, 3, 10, 30, 60], [0, 1, 3, 10, 30, 60])
axes.set_title("ResNet-20, one activation replaced by an affine map")
axes.legend()
