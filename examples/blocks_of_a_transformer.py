"""
Blocks of a transformer
=======================

In a transformer every token is a sample. ``sg.blocks`` scores the activation of each block, and
says how linear the block is as a whole.
"""

# %%
# A small vision transformer from the zoo of a checkout. Its 64 tokens of each image are samples, up
# to a number that ``max_positions`` sets.

import sigmascope as sg

subject = sg.catalog.model("sigmascope/vit-patch4")
images = list(sg.catalog.data("embedded", transform=subject.transform, batch_size=64, limit=256))
signature = sg.signature(subject.network, images, samples="positions", name="ViT, patch 4")
print(signature)

# %%
# A block turns the residual stream x into y = x + f(x). How much of each part does a linear map
# explain on images that it was not fitted to?
#
# - ``feed_forward``: the output of the feed-forward part,
# - ``increment``: what the block adds, y - x,
# - ``stream``: y itself, which contains x.

blocks = sg.blocks(subject.network, images, name="ViT, patch 4")
print(blocks)

# %%
# The stream looks more linear than what the block adds, since it contains the block's own input.
# The last block is more linear than those in the middle, by its activation and by what it adds.

drawn = blocks.plot()
