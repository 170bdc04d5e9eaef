"""
An activation you wrote yourself
================================

Modules and functions that torch does not know are scored like all others, once they are registered.
``sg.testing.check_activation`` says whether yours works.
"""

# %%
# A function with a kink of its own: linear outside, flat inside.

import matplotlib.pyplot as plt
import torch
from torch import nn

import sigmascope as sg


@sg.register_activation
def dead_zone(x: torch.Tensor) -> torch.Tensor:
    return x.sign() * (x.abs() - 0.5).clamp(min=0)


# %%
# Here is what is asked of an activation, with the answers. Compiling it is left out.

print(sg.testing.check_activation(dead_zone, backend="eager"))

# %%
# A class of modules is registered in the same way. All that it calls inside is one activation.


@sg.register_activation
class Snake(nn.Module):
    def __init__(self, frequency: float) -> None:
        super().__init__()
        self.frequency = frequency

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.sin(self.frequency * x) ** 2 / self.frequency


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(24, 24) for _ in range(4))
        self.snakes = nn.ModuleList(Snake(frequency) for frequency in (0.5, 2.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = dead_zone(self.layers[0](x))
        x = dead_zone(self.layers[1](3 * x))
        return self.snakes[1](self.layers[3](self.snakes[0](self.layers[2](x))))


torch.manual_seed(0)
model = Network()
signature = sg.signature(model, [torch.randn(1024, 24)], estimator="population", name="own")
print(signature)

# %%
# The functions over the range of inputs that each gets, with the scores.

inputs = []
with torch.no_grad(), sg.recording(model, lambda call, x: inputs.append(x.flatten())):
    model(torch.randn(1024, 24))
figure, panels = plt.subplots(1, 4, figsize=(9, 2.6), layout="constrained")
functions = (dead_zone, dead_zone, *model.snakes)
for panel, site, x, function in zip(panels, signature, inputs, functions, strict=True):
    x = x.sort().values
    panel.plot(x, function(x), linewidth=2)
    panel.set(title=f"{site.kind}: {site.population:.2f}", xlabel="input")
panels[0].set_ylabel("output")
