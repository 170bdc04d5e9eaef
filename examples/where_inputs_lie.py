"""
One function, many scores: where the inputs lie
===============================================

A score does not belong to a function alone. It belongs to a function and its inputs. Here ReLU,
GELU and tanh get normal inputs with other means and other widths.
"""

# %%
# ``sg.affinities`` scores pairs of inputs and outputs. Rows are samples and columns are channels;
# here there is one channel. With ``coupling="paired"`` each input keeps its own output.

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch.nn import functional as F

import sigmascope as sg

functions = {"ReLU": F.relu, "GELU": F.gelu, "tanh": torch.tanh}
means, widths = np.linspace(-2, 2, 25), np.logspace(-1, 0.6, 25)
torch.manual_seed(0)
normal = torch.randn(2000, 1)

grids = {}
for name, function in functions.items():
    inputs = [mean + width * normal for width in widths for mean in means]
    found = sg.affinities([(x, function(x)) for x in inputs], coupling="paired")
    grids[name] = np.reshape([float(one) for one in found], (len(widths), len(means)))

# %%
# Inputs with mean 0 and standard deviation 1 are one point of the plane.

for name, function in functions.items():
    print(f"{name}: {float(sg.affinity(normal, function(normal))):.3f}")

# %%
# A wide range makes every function look non-linear, and a narrow one makes it look like its
# tangent. ReLU has no scale of its own: only the ratio of mean and width counts. Where it is left
# white, all outputs are 0 and there is no score.
#
# GELU falls below -0.75, and its lowest scores are there: the affine map of optimal transport never
# reverses a direction, so that a decreasing function is as far from it as can be.

figure, panels = plt.subplots(1, 3, figsize=(9, 3.4), sharey=True, layout="constrained")
for panel, (name, grid) in zip(panels, grids.items(), strict=True):
    shown = panel.pcolormesh(means, widths, grid, vmin=0, vmax=1, shading="gouraud")
    panel.set(title=name, xlabel="mean of the inputs", yscale="log")
panels[0].set_ylabel("their standard deviation")
panels[0].set_yticks([0.1, 0.3, 1, 3], ["0.1", "0.3", "1", "3"])
panels[0].minorticks_off()
figure.colorbar(shown, ax=panels, label="affinity score", extend="min")
