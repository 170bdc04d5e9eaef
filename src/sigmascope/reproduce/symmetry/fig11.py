"""Figure 11: CKA of every layer of one ResNet-18 with every layer of another. The zoo has no ResNet-18.

The expected numbers were read off the paper's figure, to about 0.01.
"""

from __future__ import annotations

from sigmascope.reproduce.item import Check, Item
from sigmascope.reproduce.symmetry.absent import RESNET18, all_untried, measure_nothing, no_figure

__all__ = ["ITEM"]

CLAIMS = {
    "relu group, layers 3, 11, 19, 27, 37, 45, 55, 63, 73": "0.84, 0.62, 0.55, 0.56, 0.48, 0.42, 0.39, 0.48, 0.46",
    "orthogonal group, first and last layer": "0.98 and 0.85",
    "layer 70*, inside of the last block, is unlike itself by both groups": "0.36 and 0.35",
}


def judge(nothing: None) -> list[Check]:
    """Nothing can be tried without the network."""
    return all_untried(CLAIMS, RESNET18)


ITEM = Item(
    title="CKA of the layers of two ResNet-18, up to the symmetries of ReLU and by the linear kernel",
    budget="none",
    exact="nothing: the paper's network is not in the zoo, which keeps to small ones",
    uncertainty="none, since nothing was measured",
    measure=measure_nothing,
    judge=judge,
    draw=no_figure,
)
