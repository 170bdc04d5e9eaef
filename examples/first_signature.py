"""
A first signature, and how to read it
=====================================

``sg.signature`` runs a network over data and scores every activation call. The score says how close
the activation is to an affine map on the inputs that it gets there: 1 is affine, lower is more
non-linear.
"""

# %%
# Any ``nn.Module`` and any loader will do. This ResNet-20, and 512 test images of CIFAR-10, come
# with the package.

import sigmascope as sg

subject = sg.catalog.model("sigmascope/resnet20")
images = sg.catalog.data("embedded", transform=subject.transform)
signature = sg.signature(subject.network, images, name="ResNet-20")

# %%
# A signature prints itself, and says what a reader should know. ``score`` is the published one. It
# is too high by an amount that depends on the size of the batches. ``population`` has this bias
# removed, and an interval.

print(signature)

# %%
# It is a sequence of sites, each with all that was measured there.

site = signature["blocks.7.act1"]
print(f"population score {site.population:.3f}, between {site.low:.3f} and {site.high:.3f}")
print(f"{site.dim} channels, {site.population_n} samples, {100 * site.dead:.0f} % dead channels")

# %%
# Or it is a table of pandas.

frame = signature.to_frame()
print(frame.nsmallest(4, "score")[["site", "kind", "score", "population"]])

# %%
# The picture goes from the input of the network to its output. The activations at the ends of the
# blocks (``act2``) are closer to affine than those inside (``act1``).
#
# Gray marks are population scores. One lies far below its published score. The last note says why:
# in a layer with few channels, the best coupling of inputs and outputs is not the one that the
# network makes, and the population score is a lower bound there.

drawn = signature.plot()
