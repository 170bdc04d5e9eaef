"""
Families of networks
====================

The distance between two signatures is that of dynamic time warping, so that networks of different
depths can be compared. Distances make clusters, and a map.
"""

# %%
# Twelve networks, trained on CIFAR-10 from scratch. The weights are those of the zoo of a checkout.

import sigmascope as sg

families = {
    "ResNet": ["resnet20", "resnet32", "resnet20:1"],
    "without connections": ["plain20", "plain32", "plain20:1"],
    "VGG": ["vgg", "vgg13:1", "vgg16:1"],
    "transformer": ["vit-patch4", "vit-patch8", "swin-small"],
}
signatures = []
for names in families.values():
    for name in names:
        subject = sg.catalog.model(f"sigmascope/{name}")
        images = sg.catalog.data("embedded", transform=subject.transform, limit=128)
        signatures.append(
            sg.signature(subject.network, images, estimator="published", name=name, progress=False)
        )

# %%
# Distances grow with depth; ``normalize="path"`` divides them by the length of the path.

distances = sg.distances(signatures, normalize="path")
print(distances)

# %%
# Average linkage merges the networks that are nearest, step by step.

tree = distances.cluster()
print(tree)

# %%
# On the map, networks are near each other where their signatures are alike; its axes have no
# meaning. The nearest neighbor of each network is one of its family, though the distances know
# nothing of families.

family = {name: title for title, names in families.items() for name in names}
drawn = distances.embed().plot(families=family)
