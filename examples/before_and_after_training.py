"""
What changes during training
============================

``sg.track`` measures a network at stored checkpoints. You get the scores over the steps without
training again.
"""

# %%
# Six checkpoints of one ResNet-20: before training, after 1, 3, 10 and 30 epochs, and the end,
# after 80. They are in the zoo of a checkout; here they are written as a training of yours would do
# it.

import tempfile

import torch

import sigmascope as sg

names = {0: ":3-init", 1: ":3-e1", 3: ":3-e3", 10: ":3-e10", 30: ":3-e30", 80: ":3"}
with tempfile.TemporaryDirectory() as directory:
    files = {}
    for epoch, name in names.items():
        subject = sg.catalog.model(f"sigmascope/resnet20{name}")
        files[epoch] = f"{directory}/epoch-{epoch}.pt"
        torch.save(subject.network.state_dict(), files[epoch])

    # The probe is the same for all of them.
    probe = list(sg.catalog.data("embedded", transform=subject.transform, limit=192))
    track = sg.track(files, subject.network, probe, samples="positions", name="ResNet-20")
print(track)

# %%
# Blocks have an activation inside, and one at their end. How far apart are the two kinds?

for epoch, scores in zip(track.steps, track.scores, strict=True):
    print(
        f"epoch {epoch:>2}: inside {scores[1::2].mean():.3f}, at the ends {scores[2::2].mean():.3f}"
    )

# %%
# Before training, all activations but the first are nearly affine. In the first epoch those inside
# the blocks become non-linear; those at the ends hardly do. Rows of the map are activations from
# input to output, columns are checkpoints.

drawn = track.plot()
drawn.axes[1].set(xscale="symlog", xlabel="epoch", xticks=track.steps, xticklabels=track.steps)
drawn.axes[1].minorticks_off()
