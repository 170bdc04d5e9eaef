"""
Which channels of a layer are non-linear?
=========================================

A score of a layer says little about its single channels. ``sg.recording`` hands over what goes into
each activation, so that you can score them one by one.
"""

# %%
# The observer is called at each activation with its input. It returns a function that is called
# with the output, or None.

import matplotlib.pyplot as plt
import numpy as np
import torch

import sigmascope as sg

subject = sg.catalog.model("sigmascope/resnet20")
images, _ = next(iter(sg.catalog.data("embedded", transform=subject.transform)))
inputs = {}


def observe(call, x):
    if call.path == "blocks.5.act1":
        inputs[call.path] = x.clone()


with torch.no_grad(), sg.recording(subject.network, observe):
    subject.network(images)

# %%
# Each channel on its own, with all pixels of all images as samples: of (512, 32, 16, 16), every
# 29th.

x = inputs["blocks.5.act1"].transpose(0, 1).flatten(1)[:, ::29]
pairs = [(channel[:, None], channel.relu()[:, None]) for channel in x]
scores = np.array([float(one) for one in sg.affinities(pairs, coupling="paired")])
ranked = scores.argsort()
positive = (x > 0).float().mean(dim=1).numpy()
print(f"{scores.min():.2f} to {scores.max():.2f}, median {np.median(scores):.2f}")
print(f"correlation with the share of positive inputs: {np.corrcoef(scores, positive)[0, 1]:.2f}")

# %%
# The least and the most affine channels, and one between them. Bars are the distribution of the
# inputs, and the dashed line is the affine map between inputs and outputs. The more of the inputs
# of a channel are positive, the higher it scores.

figure, panels = plt.subplot_mosaic("sabc", figsize=(9, 2.9), layout="constrained")
panels["s"].bar(range(len(scores)), scores[ranked], width=1)
panels["s"].set(xlabel="channel, sorted", ylabel="score")
for key, channel in zip("abc", ranked[[0, len(ranked) // 2, -1]], strict=True):
    values, panel = x[channel], panels[key]
    line = sg.affine_map(*pairs[channel])
    grid = torch.linspace(values.quantile(0.002), values.quantile(0.998), 50)[:, None]
    panel.hist(values, 60, range=(float(grid[0]), float(grid[-1])), color="0.8")
    panel.set(title=f"channel {channel}: {scores[channel]:.2f}", xlabel="input")
    panel.set_yticks([])
    curves = panel.twinx()
    curves.plot(grid, grid.relu(), linewidth=2.5, label="ReLU")
    curves.plot(grid, line(grid.double()), "--", color="tab:orange", label="affine")
curves.set_ylabel("output")
panels["a"].figure.legend(*curves.get_legend_handles_labels(), loc="outside lower right", ncols=2)
