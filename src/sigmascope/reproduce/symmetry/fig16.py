"""Figure 16 and Table 4: the measures on Myrtle CNNs of constant width 512, which the zoo does not have.

They are the paper's answer to the doubt that the decay of CKA by the group of ReLU is due to the number of channels, which
grows with depth in all its other networks. The expected numbers are those that the paper and its authors' heat maps print.
"""

from __future__ import annotations

from sigmascope.reproduce.item import Check, Item
from sigmascope.reproduce.symmetry.absent import CONSTANT_WIDTH, all_untried, measure_nothing, no_figure

__all__ = ["ITEM"]

CLAIMS = {
    "Table 4: Procrustes, relu group, layers 3, 6, 10, 14": "0.8176 ± 0.007, 0.7602 ± 0.005, 0.5691 ± 0.005, 0.4971 ± 0.003",
    "Table 4: Procrustes, orthogonal group": "0.8460 ± 0.008, 0.6735 ± 0.005, 0.5409 ± 0.003, 0.6050 ± 0.002",
    "Figure 16: CKA, relu group, layers at the same place": "0.84, 0.51, 0.45, 0.44",
    "Figure 16: CKA, orthogonal group, layers at the same place": "0.99, 0.96, 0.92, 0.94",
    "the decay of CKA by the relu group is not due to width": "it is there at constant width too",
}


def judge(nothing: None) -> list[Check]:
    """Nothing can be tried without the network."""
    return all_untried(CLAIMS, CONSTANT_WIDTH)


ITEM = Item(
    title="layers of two Myrtle CNNs of constant width, by Procrustes and CKA",
    budget="none",
    exact="nothing: the paper's network is not in the zoo, which keeps to small ones",
    uncertainty="none, since nothing was measured",
    measure=measure_nothing,
    judge=judge,
    draw=no_figure,
)
