"""The stitching experiments: which networks are stitched, where, by what, and for how long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sigmascope.stitching import ALPHAS, Task
from sigmascope_papers.symmetry.stitches import FAMILIES, Plan

__all__ = ["ALPHA", "LASSO", "LEAKY", "MYRTLE", "RESNET18", "RESNET20", "SLOPES", "TRANSFORMER"]


def _block_sites(first: int, steps: tuple[int, ...]) -> dict[str, str]:
    """Return site -> the paper's name, for a ResNet with modules numbered as the paper does.

    Args:
        first: the number of the activation before all blocks.
        steps: for each block, by how much its numbers grow; the shortcut with a convolution has two
            more modules.

    >>> _block_sites(3, (8,))
    {'act1': '3', 'blocks.0.act1': '8*', 'blocks.0.act2': '11'}
    """
    sites, at = {"act1": str(first)}, first
    for block, step in enumerate(steps):
        sites[f"blocks.{block}.act1"] = f"{at + 5}*"
        sites[f"blocks.{block}.act2"] = f"{at + 8}"
        at += step
    return sites


MYRTLE_LAYERS = {"2": "3", "5": "6", "9": "10", "13": "14"}
RESNET20_LAYERS = _block_sites(3, (8,) * 9)
# The paper numbers ResNet-18 as its authors' modules are registered: a block has eight, one with a
# convolution on its shortcut ten, and the shortcut comes last.
RESNET18_LAYERS = _block_sites(3, (8, 8, 10, 8, 10, 8, 10, 8))
SMOKE_RESNET = ("act1", "blocks.0.act1", "blocks.0.act2")

# Myrtle CNNs are stitched as the paper's scripts did, but that the epoch is chosen on held-out
# samples.
AS_RUN: Mapping[str, Any] = {"preset": "as-run", "changes": {"select_on": "validation"}}
MYRTLE = Plan("families", "myrtle", ((0, 1), (2, 3)), MYRTLE_LAYERS, FAMILIES, epochs=20, **AS_RUN)
RESNET20 = Plan(
    "families",
    "resnet20",
    ((0, 1), (2, 3)),
    RESNET20_LAYERS,
    FAMILIES,
    epochs=6,
    smoke_sites=(*SMOKE_RESNET, "blocks.8.act1"),
)
RESNET18 = Plan(
    "families",
    "resnet18",
    ((0, 1),),
    RESNET18_LAYERS,
    {label: FAMILIES[label] for label in ("full", "rank 1", "relu-group", "permutation")},
    epochs=3,
    smoke_sites=("act1", "blocks.7.act1"),
)

SLOPES = ("0.0001", "0.001", "0.01", "0.1", "0.5", "0.9", "1")
"""Of LeakyReLU, as names of the zoo have them."""
LEAKY_SITES = (
    "act1",
    "blocks.0.act2",
    "blocks.2.act2",
    "blocks.4.act2",
    "blocks.6.act2",
    "blocks.8.act1",
    "blocks.8.act2",
)
LEAKY: Mapping[str, Plan] = {
    slope: Plan(
        "leaky",
        f"resnet20-leaky{slope}",
        ((0, 1),),
        {site: RESNET20_LAYERS[site] for site in LEAKY_SITES},
        {label: FAMILIES[label] for label in ("full", "relu-group", "permutation")},
        epochs=6,
        smoke_sites=("blocks.8.act1", "blocks.8.act2"),
    )
    for slope in SLOPES
}
"""Slope -> the experiment with networks of that slope."""

TRANSFORMER = Plan(
    "families",
    "vit-patch4",
    ((0, 1),),
    {f"blocks.{block}": f"block {block + 1}" for block in range(6)},
    {
        label: FAMILIES[label]
        for label in ("full", "rank 4", "relu-group", "permutation", "least-squares")
    },
    epochs=6,
    smoke_sites=("blocks.0", "blocks.5"),
)

CROSS_VALIDATION = {"epochs": 5, "head_start": 0, "validation": 0.2, "final_pass": True}
ALPHA = Plan(
    "alpha",
    "myrtle",
    MYRTLE.pairs[:1],
    MYRTLE_LAYERS,
    {
        f"α = {alpha:g}": Task("relu-group", {**CROSS_VALIDATION, "alpha": alpha})
        for alpha in ALPHAS
    },
    epochs=5,
    **AS_RUN,
)
"""As the paper chooses α: five epochs without a head start, judged on a fifth of the training data.
"""

LASSO = Plan(
    "lasso",
    "myrtle",
    MYRTLE.pairs,
    MYRTLE_LAYERS,
    {f"λ = {strength:g}": Task("lasso", {"strength": strength}) for strength in (1e-3, 1e-2, 1e-1)},
    epochs=20,
    **AS_RUN,
)
