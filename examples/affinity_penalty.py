"""
Make chosen activations more affine
===================================

``sg.AffinityPenalty`` is a term for the loss. Here it pushes the last three activations of a small
network towards affine, and leaves the others alone.
"""

# %%
# A small network, and the 512 images of CIFAR-10 that come with the package.
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import sigmascope as sg

images, labels = next(iter(sg.catalog.data("embedded")))
images = (images - 120) / 64
train, probe = TensorDataset(images[:384], labels[:384]), [images[384:]]


def network() -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, stride in ((3, 2), (24, 1), (24, 1), (24, 2), (24, 1), (24, 1)):
        layers += [nn.Conv2d(inputs, 24, 3, stride, 1), nn.BatchNorm2d(24), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 10))


# %%
# The forward pass runs in the context of the penalty, whose value is then added to the loss.
def trained(weight: float) -> sg.Track:
    torch.manual_seed(0)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    penalty = sg.AffinityPenalty(
        model, sites=["11", "14", "17"], weight=weight, samples="positions"
    )
    monitor, step = sg.Monitor(model, probe, every=8, samples="positions"), 0
    monitor.step(0)
    for _ in range(12):
        for x, y in DataLoader(train, batch_size=64, shuffle=True):
            with penalty:
                out = model(x)
            loss = nn.functional.cross_entropy(out, y) + penalty.value
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            monitor.step(step)
    monitor.close()
    return monitor.track


free, pushed = trained(0.0), trained(1.0)
for site, before, after in zip(free.sites, free.scores[-1], pushed.scores[-1], strict=True):
    print(f"{site:>3}  {before:.3f}  {after:.3f}")

# %%
# The training with the penalty: the last three rows turn light, the others do not.
drawn = pushed.plot()
drawn.axes[0].set_title("A small convolutional network, trained with a penalty")
