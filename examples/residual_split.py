"""
What residual connections do to activations
===========================================

Take the connections out of a ResNet-20 and train it again. The accuracy is nearly the same, but the
activations share the work in another way. This is Figure 7 of the first paper, at a small size.
"""

# %%
# The two networks have the same layers, and 269,722 parameters each. The catalog knows their
# accuracy on the test set of CIFAR-10.

import numpy as np

import sigmascope as sg

networks = {"with connections": "sigmascope/resnet20", "without": "sigmascope/plain20"}
signatures = []
for title, name in networks.items():
    subject = sg.catalog.model(name)
    images = sg.catalog.data("embedded", transform=subject.transform)
    measured = sg.signature(subject.network, images, estimator="published", name=title)
    signatures.append(measured)
    print(f"{title:>16}: {subject.accuracy:.2f} % of the test images are classified correctly")

# %%
# A block has two activations: ``act1`` inside, and ``act2`` at its end, behind the addition if
# there is one. Compare each activation at an end with each one inside.

for signature in signatures:
    inside, ends = (
        np.array([site.score for site in signature if site.name.endswith(name)])
        for name in (".act1", ".act2")
    )
    share = (ends[:, None] > inside).mean()
    print(f"{signature.name:>16}: the end of a block scores higher in {share:.0%} of the pairs")

# %%
# With connections there are two groups: nearly affine activations at the ends, and others inside
# that do the work. Without connections the two groups are one.

drawn = sg.figures.draw_signatures(signatures)
