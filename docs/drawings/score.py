"""ReLU on three ranges of inputs: the best affine map, and the distributions that are compared."""

import matplotlib.pyplot as plt
import numpy as np

import sigmascope as sg

RANGES = ((-0.3, 1.0), (-1.0, 1.0), (-1.0, 0.3))
BLUE, ORANGE = "#0072B2", "#D55E00"

figure, panels = plt.subplots(2, 3, figsize=(8.4, 4.6), height_ratios=(3, 2), layout="constrained")
for (low, high), (top, bottom) in zip(RANGES, panels.T, strict=True):
    x = np.linspace(low, high, 2001)[:, None]
    y = np.maximum(x, 0)
    moved = sg.affine_map(x, y, covariance="unbiased")(x)
    score = sg.affinity(x, y, covariance="unbiased").score
    top.plot(x, y, color=BLUE, label="ReLU")
    top.plot(x, moved, color=ORANGE, linestyle="--", label="T, affine")
    top.set_title(f"inputs from {low:g} to {high:g}: score {score:.2f}", fontsize=9)
    bins = np.linspace(min(moved.min(), 0), max(moved.max(), y.max()), 30)
    bottom.hist(y[:, 0], bins=bins, color=BLUE, alpha=0.75, label="ReLU(X)")
    bottom.hist(moved[:, 0], bins=bins, histtype="step", color=ORANGE, label="T(X)")
    bottom.set_yticks([])
    top.set_xlabel("x", fontsize=8)
    bottom.set_xlabel("value", fontsize=8)
panels[0, 0].legend(frameon=False, fontsize=8)
panels[1, 0].legend(frameon=False, fontsize=8)
