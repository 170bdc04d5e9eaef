"""
Published score and population score
====================================

The published score is a mean over batches, and depends on their size. The population score belongs
to the distribution that the samples come from. Use the first to reproduce a paper, the second to
compare networks.
"""

# %%
# The same 512 images of CIFAR-10, in batches of 32 to 512.

import matplotlib.pyplot as plt

import sigmascope as sg

subject = sg.catalog.model("sigmascope/resnet20")
sites = ["blocks.3.act1", "blocks.6.act1", "blocks.7.act1", "blocks.8.act2"]
signatures = {}
for size in (32, 64, 128, 256, 512):
    images = sg.catalog.data("embedded", transform=subject.transform, batch_size=size)
    signatures[size] = sg.signature(subject.network, images, sites=sites, progress=False)

# %%
# The published score of a site changes with the batches, its population score does not.

for size, signature in signatures.items():
    site = signature["blocks.6.act1"]
    print(f"batches of {size:>3}: published {site.score:.3f}, population {site.population:.4f}")

# %%
# Points are published scores. A band is the 95 % interval of a population score. The smaller the
# batches, the higher is the published score, and by how much differs from layer to layer: batches
# of other sizes can make two networks look different that are the same.

figure, panels = plt.subplots(1, 4, figsize=(9, 2.8), sharey=True, layout="constrained")
for panel, name in zip(panels, sites, strict=True):
    site = signatures[512][name]
    panel.plot(list(signatures), [one[name].score for one in signatures.values()], "o-")
    panel.axhspan(site.low, site.high, color="tab:orange", alpha=0.4)
    panel.set(title=name, xscale="log", xlabel="images per batch")
    panel.set_xticks(list(signatures), list(signatures))
    panel.minorticks_off()
panels[0].set_ylabel("affinity score")
panels[0].legend(["published", "population"])
