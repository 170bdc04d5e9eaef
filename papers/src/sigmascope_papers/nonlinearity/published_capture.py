"""What the hook of the published code makes of a network, emulated.

The hook runs before an activation and calls it. If the activation overwrites its input, the network
then continues with what is already activated; this is harmless for ReLU, but not for SiLU.
"""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
from torch import Tensor, nn

from sigmascope.measure.result import Signature

# Activations that may overwrite their input, and act differently on what they have acted on.
SMOOTH = (nn.SiLU, nn.Hardswish, nn.Mish, nn.ELU, nn.CELU, nn.SELU)
NOT_IDEMPOTENT = (*SMOOTH, nn.LeakyReLU, nn.RReLU, nn.Hardsigmoid)
ENDING = ".once"
NOTE = "activations that overwrite their input act twice, as under the published capture; "
NOTE += "first calls only"


class Twice(nn.Module):
    """An activation that is applied to its own output."""

    def __init__(self, once: nn.Module) -> None:
        super().__init__()
        self.once = once

    def forward(self, x: Tensor) -> Tensor:
        """Return the activation of the activation of `x`."""
        out: Tensor = self.once(self.once(x))
        return out


def acting_twice(network: nn.Module) -> nn.Module:
    """Return a copy in which what overwrites its input, and is not idempotent, acts twice."""
    changed = copy.deepcopy(network)
    for parent in list(changed.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, NOT_IDEMPOTENT) and getattr(child, "inplace", False):
                setattr(parent, name, Twice(child))
    return changed


def first_calls(found: Signature) -> Signature:
    """Return a signature of `acting_twice` without the second calls, by the network's own paths."""
    sites = [
        replace(site, path=site.path.removesuffix(ENDING), call=site.call // 2)
        if site.path.endswith(ENDING)
        else site
        for site in found.sites
        if not (site.path.endswith(ENDING) and site.call % 2)
    ]
    seen, notes = len(sites) + len(found.coverage.skipped), (*found.coverage.notes, NOTE)
    scored = sum(bool(np.isfinite(site.score)) for site in sites)
    coverage = replace(found.coverage, seen=seen, scored=scored, notes=notes)
    coverage = replace(coverage, failed=len(sites) - scored)
    return replace(found, sites=tuple(sites), coverage=coverage)
