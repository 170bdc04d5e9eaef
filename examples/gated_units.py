"""
Gates: SwiGLU as one unit
=========================

In a gated layer the activation multiplies another tensor. You can score the activation alone, or
the gated unit: how much does what comes out differ from an affine function of what is multiplied?
"""

# %%
# A small network with three SwiGLU layers, trained for a few steps to classify the 512 images that
# come with the package.

import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import sigmascope as sg


class SwiGLU(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(width, hidden), nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        normed = self.norm(x)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


images, labels = next(iter(sg.catalog.data("embedded")))
patches = F.avg_pool2d((images - 120) / 64, 4).flatten(1)
torch.manual_seed(0)
layers = [SwiGLU(96, 64) for _ in range(3)]
model = nn.Sequential(nn.Linear(192, 96), *layers, nn.LayerNorm(96), nn.Linear(96, 10))


def measured(gates):
    return sg.signature(model, [patches], gates=gates, progress=False)


before = {gates: measured(gates) for gates in ("alone", "unit")}
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for _ in range(60):
    loss = F.cross_entropy(model(patches), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
after = {gates: measured(gates) for gates in ("alone", "unit")}

# %%
# The default scores the SiLU alone, and says that it is a gate, and of what.

print(after["alone"])
print(after["alone"].sites[0].role, "of", after["alone"].sites[0].multiplies)

# %%
# With ``gates="unit"`` the product is scored as a function of what the gate multiplies.

print(after["unit"])

# %%
# A SiLU alone is not far from affine. The unit is: two functions of the input are multiplied.
# Training makes the SiLU more non-linear in each layer, and the unit of the last layer less so.

figure, axes = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
for gates, color in (("alone", "tab:blue"), ("unit", "tab:orange")):
    for found, style, when in ((before, "o--", "before"), (after, "o-", "after")):
        scores = found[gates].scores
        label = f"{'SiLU alone' if gates == 'alone' else 'gated unit'}, {when} training"
        axes.plot(range(1, 4), scores, style, color=color, label=label)
axes.set(xlabel="layer", ylabel="affinity score", xticks=[1, 2, 3])
axes.legend()
