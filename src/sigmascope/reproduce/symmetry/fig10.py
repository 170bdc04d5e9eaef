"""Figure 10: how alike the layers of two ResNet-18 are, by Procrustes. The zoo has no ResNet-18.

The expected numbers were read off the paper's figure, to about 0.01, for the layers at the ends of blocks and for two inside,
marked `*`. The similarity of 0.98 at layer 70 is one that channels without any output would give under the authors' normaliser;
whether they do can be told from the numbers of live channels, once there is such a network.
"""

from __future__ import annotations

from sigmascope.reproduce.item import Check, Item
from sigmascope.reproduce.symmetry.absent import RESNET18, all_untried, measure_nothing, no_figure

__all__ = ["ITEM"]

CLAIMS = {
    "relu group, layers 3, 11, 19, 27, 37, 45, 55, 63, 73": "0.62, 0.56, 0.54, 0.51, 0.49, 0.52, 0.50, 0.69, 0.69",
    "orthogonal group, the same layers": "0.75, 0.67, 0.62, 0.63, 0.58, 0.53, 0.51, 0.71, 0.71",
    "layers 60* and 70* are more alike by the relu group": "0.83 and 0.98 against 0.57 and 0.73",
}


def judge(nothing: None) -> list[Check]:
    """Nothing can be tried without the network."""
    return all_untried(CLAIMS, RESNET18)


ITEM = Item(
    title="layers of two ResNet-18, aligned by the symmetries of ReLU and by rotations",
    budget="none",
    exact="nothing: the paper's network is not in the zoo, which keeps to small ones",
    uncertainty="none, since nothing was measured",
    measure=measure_nothing,
    judge=judge,
    draw=no_figure,
)
