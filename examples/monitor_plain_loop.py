"""
Watch a training loop of your own
=================================

A monitor measures every activation of a network between two steps of the optimizer, on the same
held-out images. The training is the same to the bit as one without it.
"""

# %%
# 512 images of CIFAR-10 come with the package. Most train a small network, the rest is the probe.
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


torch.manual_seed(0)
model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

# %%
# With samples="positions" every pixel of a feature map counts as a sample, so that 128 images are
# enough. Without ``every``, the monitor measures as often as 3 % of the time allows. Add
# ``log=`` a run of W&B, a SummaryWriter or "scores.csv", and ``file="run.json"`` to follow the
# training with ``sigmascope track run.json``.
monitor = sg.Monitor(model, probe, every=8, samples="positions")
monitor.step(0)
step = 0
for _ in range(12):
    for x, y in DataLoader(train, batch_size=64, shuffle=True):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        monitor.step(step)
monitor.close()
print(monitor.track)

# %%
# Each row of the map is an activation, from input to output; lighter is more affine. The last one
# begins nearly affine, and does not stay so for long. Below, the same scores as lines, with their
# 95 % intervals.
drawn = monitor.track.plot()
drawn.axes[0].set_title("A small convolutional network, trained by a loop")
