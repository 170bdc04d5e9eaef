"""What was merged, and why not, in words."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from sigmascope.linearize.folding.choice import Segment
from sigmascope.linearize.folding.layers import MergedConv
from sigmascope.linearize.maps import Affine


def dearer(found: Segment, instead: Sequence[Segment]) -> str:
    """Return what a segment costs, and what is made instead costs."""
    if found.seconds == found.seconds:
        seconds = sum(one.seconds for one in instead)
        return (
            f"one layer takes {1e3 * found.seconds:.3f} ms, {len(instead)} layers take "
            f"{1e3 * seconds:.3f} ms"
        )
    count = sum(one.multiply_adds for one in instead)
    return f"one layer takes {found.multiply_adds:,} multiply-adds, {len(instead)} take {count:,}"


def described(module: nn.Module) -> str:
    """Return a merged module in words."""
    if isinstance(module, nn.Linear):
        return f"one linear layer, {module.in_features} to {module.out_features}"
    if isinstance(module, Affine):
        return f"one affine map of {module.channels} channels"
    assert isinstance(module.weight, Tensor)
    out, _, *kernel = module.weight.shape
    side = " × ".join(map(str, kernel))
    grouped = getattr(module, "groups", 1)
    groups = f", {grouped} groups" * (grouped > 1)
    border = ""
    if isinstance(module, MergedConv):
        border = ", the border by strips" if module.parts else ", a shift that the border lacks"
    return f"one convolution of {side}, {out} channels{groups}{border}"
