"""
Watch a training with accelerate
================================

A monitor takes a network that ``accelerate`` has prepared, and its ``Accelerator`` as a logger. Of
several processes the first one measures, and the training stays the same to the bit.
"""

# %%
# A small network, and the 512 images of CIFAR-10 that come with the package.
import torch
from accelerate import Accelerator
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
# ``register_for_checkpointing`` puts the history into what ``accelerator.save_state`` writes. The
# trackers of ``Accelerator(log_with=…)`` get the scores.
torch.manual_seed(0)
accelerator = Accelerator(cpu=True)
model = network()
model, optimizer, loader = accelerator.prepare(
    model,
    torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
    DataLoader(train, batch_size=64, shuffle=True),
)
monitor = sg.Monitor(model, probe, every=8, samples="positions", log=accelerator)
accelerator.register_for_checkpointing(monitor)

monitor.step(0)
step = 0
for _ in range(12):
    for x, y in loader:
        optimizer.zero_grad()
        accelerator.backward(nn.functional.cross_entropy(model(x), y))
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
drawn.axes[0].set_title("A small convolutional network, trained with accelerate")
