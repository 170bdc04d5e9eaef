"""
Other weights, the same function
================================

The channels of a ReLU network can be permuted, and scaled by positive numbers, if the next layer is
changed in turn. ``sg.symmetry.move`` does this to a whole network.
"""

# %%
# Each activation has a group: the matrices A for which A can be taken from its input to its output.
# They are permutations times a diagonal matrix with entries d.

import matplotlib.pyplot as plt
import torch

import sigmascope as sg

for name in ("relu", "tanh", "sigmoid", "gelu"):
    print(sg.symmetry.group(name))

# %%
# ``spaces`` says which channels of a network can be moved, and by what. These are the first ones.

subject = sg.catalog.model("sigmascope/resnet20")
print(*str(sg.symmetry.spaces(subject.network)).splitlines()[:5], sep="\n")

# %%
# Draw an element at random for each, and move the weights. The function stays.

moved = sg.symmetry.move(subject.network, seed=0)
images, _ = next(iter(sg.catalog.data("embedded", transform=subject.transform, limit=256)))
print(sg.symmetry.check_equivalence(subject.network, moved, images))

# %%
# Scores do not depend on the order of channels. They do depend on their scales, since a channel
# with a larger variance has more weight. So compare networks as they were trained.

permuted = sg.symmetry.move(subject.network, seed=0, log_std=0.0)
scores = [
    sg.signature(network, [images], estimator="published", progress=False).scores
    for network in (subject.network, permuted, moved)
]
for title, others in (("permuted", scores[1]), ("permuted and scaled", scores[2])):
    print(f"{title}: scores differ by {abs(others - scores[0]).max():.1e} at most")

# %%
# The weights of one layer before and after, and all outputs of the two networks.

figure, panels = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained")
networks = {"weights before": subject.network, "weights after": moved}
for panel, (title, network) in zip(panels, networks.items(), strict=False):
    weight = network.blocks[4].conv1.weight.detach().mean(dim=(2, 3)).numpy()
    panel.imshow(weight, cmap="RdBu", vmin=-0.15, vmax=0.15)
    panel.set(title=title, xlabel="input channel", ylabel="output channel")
with torch.no_grad():
    panels[2].plot(subject.network(images).flatten(), moved(images).flatten(), ".", markersize=3)
panels[2].set(title="outputs", xlabel="before", ylabel="after", aspect="equal")
