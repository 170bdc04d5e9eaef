"""
Watch a Trainer of transformers
===============================

A callback measures the network while the Trainer trains it. The scores go through ``trainer.log``,
and so to all its reporters; the history is kept in its checkpoints.
"""

# %%
# A small vision transformer with weights drawn at random, and the 512 images of CIFAR-10 that come
# with the package.
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import (
    PrinterCallback,
    Trainer,
    TrainingArguments,
    ViTConfig,
    ViTForImageClassification,
)

import sigmascope as sg
from sigmascope.integrations.huggingface import SignatureCallback

images, labels = next(iter(sg.catalog.data("embedded")))
images = (images - 120) / 64


class Images(Dataset):
    def __len__(self) -> int:
        return 384

    def __getitem__(self, place: int) -> dict[str, torch.Tensor]:
        return {"pixel_values": images[place], "labels": labels[place]}


torch.manual_seed(0)
config = ViTConfig(
    image_size=32,
    patch_size=8,
    hidden_size=48,
    intermediate_size=96,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_labels=10,
)
model = ViTForImageClassification(config)

# %%
# The callback needs the trainer, through which it logs. With samples="positions" every token counts
# as a sample.
with tempfile.TemporaryDirectory() as directory:
    arguments = TrainingArguments(
        output_dir=directory,
        per_device_train_batch_size=64,
        num_train_epochs=12,
        learning_rate=2e-3,
        save_strategy="no",
        logging_steps=40,
        disable_tqdm=True,
        use_cpu=True,
        dataloader_pin_memory=False,
    )
    trainer = Trainer(model=model, args=arguments, train_dataset=Images())
    probe = [{"pixel_values": images[384:]}]
    callback = SignatureCallback(trainer, probe, every=8, samples="positions")
    trainer.add_callback(callback)
    trainer.remove_callback(PrinterCallback)  # which would print all of them
    trainer.train()
print(callback.track)

# %%
# Each row of the map is an activation, from input to output; lighter is more affine. All four
# become less affine, the second one most. Below, the same scores as lines, with their 95 %
# intervals.
drawn = callback.track.plot()
drawn.axes[0].set_title("A small vision transformer, trained with transformers")
