"""Which scales an activation admits: where sigma(lambda x) is a multiple of sigma(x)."""

import matplotlib.pyplot as plt
import torch

SCALES = ((2.0, "#0072B2", "-"), (0.5, "#D55E00", "--"), (-1.0, "#666666", ":"))
ROWS = (("ReLU", torch.relu), ("tanh", torch.tanh), ("GELU", torch.nn.functional.gelu))
LIMITS = {"ReLU": (-0.2, 3), "tanh": (-1.1, 1.1), "GELU": (-0.5, 3)}

figure, panels = plt.subplots(1, 3, figsize=(8.4, 3), layout="constrained")
x = torch.linspace(-6, 6, 2001, dtype=torch.float64)
for panel, (name, sigma) in zip(panels, ROWS, strict=True):
    for scale, color, style in SCALES:
        panel.plot(sigma(x), sigma(scale * x), style, color=color, label=f"λ = {scale:g}")
    panel.set_title(name, fontsize=9)
    panel.set(xlabel="σ(x)", xlim=LIMITS[name], ylim=LIMITS[name], aspect="equal")
panels[0].set_ylabel("σ(λx)")
panels[0].legend(frameon=False, fontsize=8, loc="upper right")
