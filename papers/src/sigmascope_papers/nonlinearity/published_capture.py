"""What the hook of the published code makes of a network, emulated.

The hook runs before an activation and calls it. Where the activation overwrites its input, the
network then goes on with what is already activated; this is harmless for ReLU, which is idempotent,
and not for SiLU.
"""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
from torch import Tensor, nn

from sigmascope.measure.signature import Signature

__all__ = ["Twice", "acting_twice", "first_calls"]

# Activations that may overwrite their input, and that act differently on what they have already
# acted on.
NOT_IDEMPOTENT = (
    nn.SiLU,
    nn.Hardswish,
    nn.Mish,
    nn.ELU,
    nn.CELU,
    nn.SELU,
    nn.LeakyReLU,
    nn.RReLU,
    nn.Hardsigmoid,
)


class Twice(nn.Module):
    """An activation that acts, and acts again on what it has made."""

    def __init__(self, once: nn.Module) -> None:
        super().__init__()
        self.once = once

    def forward(self, x: Tensor) -> Tensor:
        """Return the activation of the activation of `x`."""
        out: Tensor = self.once(self.once(x))
        return out


def acting_twice(network: nn.Module) -> nn.Module:
    """Return a copy of a network as the published hook makes it: what overwrites its input and is
    not idempotent acts twice.
    """
    changed = copy.deepcopy(network)
    for parent in list(changed.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, NOT_IDEMPOTENT) and getattr(child, "inplace", False):
                setattr(parent, name, Twice(child))
    return changed


def first_calls(found: Signature) -> Signature:
    """Return a signature of what `acting_twice` made, without the second calls, and with the paths
    of the network itself.
    """
    ending = ".once"
    sites = [
        replace(site, path=site.path.removesuffix(ending), call=site.call // 2)
        if site.path.endswith(ending)
        else site
        for site in found.sites
        if not (site.path.endswith(ending) and site.call % 2)
    ]
    scored = sum(bool(np.isfinite(site.score)) for site in sites)
    told = (
        "activations that overwrite their input act twice, as under the published capture; first "
        "calls only"
    )
    coverage = replace(
        found.coverage,
        seen=len(sites) + len(found.coverage.skipped),
        scored=scored,
        failed=len(sites) - scored,
        notes=(*found.coverage.notes, told),
    )
    return replace(found, sites=tuple(sites), coverage=coverage)
