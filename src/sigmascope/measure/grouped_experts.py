"""Experts that are computed in one product, whose activation is one site: said in the coverage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from torch import nn

from sigmascope.capture.call_site import CallSite
from sigmascope.capture.guard import plain_path
from sigmascope.capture.walk import modules_of

NOTE = (
    "the {experts} experts of {path} are computed in one product, so that their activation is one "
    "site{more}; to score each of them, let the network compute them one after the other, in "
    "transformers by set_experts_implementation('eager')"
)


def notes_of(network: nn.Module, calls: Iterable[CallSite]) -> list[str]:
    """Return a note where the calls of a batch contain an activation of all experts together."""
    modules = {plain_path(path): module for path, module in modules_of(network)}
    together = []
    for path, count in Counter(call.path for call in calls).items():
        holder = next(
            (one for one in (path, path.rpartition(".")[0]) if _experts(modules, one)), ""
        )
        if count == 1 and _experts(modules, holder):
            together.append((holder, _experts(modules, holder)))
    if not together:
        return []
    path, experts = together[0]
    more = f", and so {len(together) - 1} more" if len(together) > 1 else ""
    return [NOTE.format(experts=experts, path=path or "the network", more=more)]


def _experts(modules: dict[str, nn.Module], path: str) -> int:
    """Return how many experts a module holds the weights of, in tensors (experts, in, out), or 0.

    There are at least two, one before and one after the activation.
    """
    if path not in modules:
        return 0
    lengths = Counter(len(one) for one in modules[path].parameters(recurse=False) if one.ndim == 3)
    length, count = next(iter(lengths.most_common(1)), (0, 0))
    return length if count > 1 and length > 1 else 0
