"""
Watch a training of Lightning
=============================

A callback measures the network while Lightning trains it, sends the scores to the loggers of the
trainer, and keeps them in its checkpoints. It is for ``lightning.pytorch`` and for
``pytorch_lightning``.
"""

# %%
# A small network, and the 512 images of CIFAR-10 that come with the package.
import logging

import lightning.pytorch as pl
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import sigmascope as sg
from sigmascope.integrations.lightning import SignatureCallback

logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
images, labels = next(iter(sg.catalog.data("embedded")))
images = (images - 120) / 64
train, probe = TensorDataset(images[:384], labels[:384]), [images[384:]]


def network() -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, stride in ((3, 2), (24, 1), (24, 1), (24, 2), (24, 1), (24, 1)):
        layers += [nn.Conv2d(inputs, 24, 3, stride, 1), nn.BatchNorm2d(24), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 10))


class Classifier(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = network()

    def training_step(self, batch: list[Tensor], _: int) -> Tensor:
        return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    def validation_step(self, batch: list[Tensor], _: int) -> None:
        right = self.net(batch[0]).argmax(dim=1) == batch[1]
        self.log("accuracy", right.float().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)


# %%
# ``network=`` names the module to measure; without it, the LightningModule is, by its ``forward``.
# The scores are logged with the validation too, so that other callbacks find them: here the
# training ends when the mean score has stopped falling.
torch.manual_seed(0)
callback = SignatureCallback(probe, every=8, network="net", samples="positions")
stopping = pl.callbacks.EarlyStopping("sigmascope/mean", mode="min", patience=6)
trainer = pl.Trainer(
    max_epochs=12,
    callbacks=[callback, stopping],
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
held_out = TensorDataset(images[384:], labels[384:])
trainer.fit(Classifier(), DataLoader(train, batch_size=64, shuffle=True), DataLoader(held_out, 128))
print(callback.track)

# %%
# Each row of the map is an activation, from input to output; lighter is more affine. The last one
# begins nearly affine, and does not stay so for long. Below, the same scores as lines, with their
# 95 % intervals.
drawn = callback.track.plot()
drawn.axes[0].set_title("A small convolutional network, trained with Lightning")
