"""
Activations that are written as formulas
========================================

Many networks do not call ``nn.GELU``. They write it out. The formulas are found in the pass, and
each is one site with one score, as the module would have been.
"""

# %%
# Four ways to write an activation. None of them is registered.

import math

import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn

import sigmascope as sg


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(5))

    def forward(self, x: Tensor) -> Tensor:
        x = self.layers[0](x)
        x = x * torch.sigmoid(1.702 * x)
        x = self.layers[1](3 * x)
        x = 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))
        x = self.layers[2](3 * x)
        x = torch.where(x > 0, x, 0.1 * x)
        x = self.layers[3](3 * x)
        x = x * torch.tanh(torch.log1p(torch.exp(x)))
        return self.layers[4](x)


torch.manual_seed(0)
batch = torch.randn(1024, 32)
found = sg.signature(Network(), [batch], estimator="population", name="formulas")
print(found)

# %%
# ``formula`` says what was recognized, and ``kind`` under which name.

for site in found:
    print(f"{site.kind:<12} {site.formula}")

# %%
# With ``fuse=False`` the sigmoid and the tanh inside them would be sites, and two would be lost.

parts = sg.signature(Network(), [batch], fuse=False, progress=False)
print([site.kind for site in parts])

# %%
# An audit counts the operators that torch computes, independently, and says that none was missed.

print(sg.audit(Network(), batch[:8], name="formulas"))

# %%
# The scores with their intervals, and the formulas as they were read from the pass.

figure, axes = plt.subplots(figsize=(7, 2.6), layout="constrained")
for row, site in enumerate(found):
    axes.barh(row, site.population, xerr=site.population - site.low, height=0.6, capsize=4)
    axes.text(0.015, row, site.formula, color="white", va="center", family="monospace")
axes.set_yticks(range(len(found)), [site.kind for site in found])
axes.invert_yaxis()
axes.set(xlim=(0, 1), xlabel="population score")
