"""Couplings of transported inputs with outputs, and the slack that proves one of them."""

import matplotlib.pyplot as plt
import numpy as np

import sigmascope as sg
from sigmascope.maths.assignment import assign

ROWS = 40
BLUE, ORANGE, GRAY = "#0072B2", "#D55E00", "#666666"


def coupled(channels, opposed):
    x = np.random.default_rng(3).standard_normal((ROWS, channels))
    if opposed:
        x[:, 1] = 0.3 * x[:, 1] - x[:, 0]  # two channels that do the opposite of each other
    y = np.maximum(x, 0)
    moved = sg.affine_map(x, y)(x)
    cost = np.square(moved[:, None] - y).sum(axis=2)
    return moved, y, cost, assign(cost)


figure, panels = plt.subplots(1, 3, figsize=(9, 3.1), layout="constrained")
for panel, (channels, opposed) in zip(panels, ((16, False), (2, True)), strict=False):
    moved, y, cost, found = coupled(channels, opposed)
    for row, column in enumerate(found.columns):
        color = GRAY if row == column else ORANGE
        panel.plot(*np.stack([moved[row, :2], y[column, :2]]).T, color=color, linewidth=0.8)
    panel.plot(*moved[:, :2].T, "o", color=BLUE, markersize=3, label="T(x)")
    panel.plot(*y[:, :2].T, "s", color="black", markersize=3, label="ReLU(x)")
    panel.set_title(f"{channels} channels: {found.certified}", fontsize=9)
    panel.set(xlabel="channel 1", ylabel="channel 2")
panels[0].legend(frameon=False, fontsize=8)
slack = cost - found.row_potentials[:, None] - found.column_potentials
image = panels[2].imshow(slack, cmap="Blues", vmin=0)
panels[2].plot(found.columns, range(ROWS), ".", color=ORANGE, markersize=4)
panels[2].set_title("2 channels: slack", fontsize=9)
panels[2].set(xlabel="output", ylabel="transported input")
figure.colorbar(image, ax=panels[2], shrink=0.85)
