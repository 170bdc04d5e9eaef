"""Where in its block an activation call is made, read off the paths of the modules."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from sigmascope.measure.signature import Site

__all__ = ["OTHER", "OUTSIDE", "places_of"]

OUTSIDE, OTHER = "outside the blocks", "elsewhere"
MOST = 8  # as many as there are colors
NUMBERED = re.compile(r"\d")


def places_of(sites: Sequence[Site]) -> list[str]:
    """Name for every site its place in a block, the same for all blocks that are alike.

    A block is the last numbered module on the path that has a named one below it: `layer1.0` in
    `layer1.0.relu`, `features.2` in `features.2.conv.0.2`. The place is the rest of the path, with
    the number of the call.

    Args:
        sites: of one network.

    Returns:
        One name per site, at most eight different ones: the rarest become `OTHER`. Where no site
        lies in a block, the kinds of activation.

    >>> from types import SimpleNamespace as Made
    >>> places_of([Made(path="relu", call=0, kind="relu"), *(Made(path="layer1.0.relu", call=n, kind="relu") for n in (0, 1))])
    ['outside the blocks', 'relu', 'relu#1']
    """
    found = [_place(site) for site in sites]
    if all(place == OUTSIDE for place in found):
        found = [site.kind for site in sites]
    counts = Counter(found)
    if len(counts) <= MOST:
        return found
    kept = {place for place, _ in counts.most_common(MOST - 1)}
    return [place if place in kept else OTHER for place in found]


def _place(site: Site) -> str:
    parts = site.path.split(".")
    for end in range(len(parts) - 1, 0, -1):
        if NUMBERED.search(parts[end - 1]) and not all(part.isdecimal() for part in parts[end:]):
            return ".".join(parts[end:]) + (f"#{site.call}" if site.call else "")
    return OUTSIDE
