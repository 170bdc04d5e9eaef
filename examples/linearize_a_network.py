"""
Linearize a network
===================

Which activations does a network hardly use, and what does it cost to take them out? We rank the
activations of a ResNet-20 by their affinity score, put affine maps in place of the most affine
ones, tune the network for a few epochs, and merge what became linear. The network and 512 images
are part of the package, so this runs offline, in about half a minute.
"""

# %%
# The data has three parts: images to tune on, held-out images on which sites are selected and maps
# fitted, and images for the test, which are used once.

import torch

import sigmascope as sg

model = sg.catalog.model("sigmascope/resnet20")
loaded = sg.catalog.data("embedded", transform=model.transform)
images, labels = (torch.cat(part) for part in zip(*loaded, strict=True))
data = sg.linearize.Split.divided((images, labels))

# %%
# A plan ranks the sites. It prints itself as a table: the score with its interval, how well the map
# fits, and what a replacement saves.

batches = list(zip(*(part.split(64) for part in data.held_out), strict=True))
plan = sg.linearize.plan(model.network, batches, budget=4)
print(plan)

# %%
# The most affine activations are at the ends of the blocks, after the addition. ``apply`` returns a
# copy of the network with maps in their place; the original is not changed.

shallower = sg.linearize.apply(model.network, plan)
print(shallower.blocks[4].act2)

# %%
# ``fit`` goes all the way: the plan, the accuracy for every number of replaced activations, a short
# tuning with the original as teacher, the fold and the test.

result = sg.linearize.fit(
    model.network, data, budget=6, epochs=3, augment="flip-shift", name=model.name
)
print(result)

# %%
# Accuracy against activations left. Without tuning, a few activations can be replaced at almost no
# cost; tuning makes room for more.

drawn = result.plot()

# %%
# With 307 images to tune on, this is a demonstration. On all of CIFAR-10:
#
# .. code-block:: console
#
#     sigmascope linearize sigmascope/resnet20 --data cifar10 --budget 8 -o linearized
