"""
How many images does a score need?
==================================

Each population score comes with a 95 % interval, so that you need not guess. Here the intervals of
three layers shrink as the number of images grows.
"""

# %%
# A population score needs at least 2.5 samples for each channel. With ``samples="positions"`` every
# pixel of a feature map is a sample, up to 64 for each image, so that a few images are enough for a
# score. Its interval treats the pixels of an image as what they are: dependent.

import matplotlib.pyplot as plt

import sigmascope as sg

subject = sg.catalog.model("sigmascope/resnet20")
sites = ["blocks.2.act2", "blocks.5.act1", "blocks.7.act1"]
sizes = [16, 32, 64, 128, 256, 512]
signatures = {}
for size in sizes:
    images = sg.catalog.data("embedded", transform=subject.transform, limit=size)
    signatures[size] = sg.signature(
        subject.network, images, samples="positions", sites=sites, progress=False
    )

# %%
# The more images, the narrower the interval.

for size, signature in signatures.items():
    site = signature["blocks.5.act1"]
    width = site.high - site.low
    print(f"{size:>3} images: [{site.low:.3f}, {site.high:.3f}], {width:.3f} wide")

# %%
# Where there are too few samples, the site has a reason instead of a number.

few = sg.catalog.data("embedded", transform=subject.transform, limit=100)
site = sg.signature(subject.network, few, sites=sites, progress=False)["blocks.7.act1"]
print(site.population, "-", site.population_reason)

# %%
# Each bar is an interval, and the dotted line is the score of all 512 images. Of 95 % intervals,
# one in twenty misses on average.

figure, panels = plt.subplots(1, 3, figsize=(9, 3), layout="constrained")
for panel, name in zip(panels, sites, strict=True):
    found = [signature[name] for signature in signatures.values()]
    scores = [site.population for site in found]
    errors = [
        [one.population - one.low for one in found],
        [one.high - one.population for one in found],
    ]
    panel.errorbar(sizes, scores, errors, fmt="o", capsize=4)
    panel.axhline(scores[-1], color="black", linestyle=":", linewidth=1)
    panel.set(title=name, xscale="log", xlabel="images")
    panel.set_xticks(sizes, sizes)
    panel.minorticks_off()
panels[0].set_ylabel("population score, 95 %")
