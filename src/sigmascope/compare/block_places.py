"""Where in its block an activation call is made, from the paths of the modules."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from sigmascope.capture.call_site import CallSite

OUTSIDE, OTHER = "outside the blocks", "elsewhere"
MOST = 8  # as many as there are colors
NUMBERED = re.compile(r"\d")


def places_of(sites: Sequence[CallSite]) -> list[str]:
    """Return the place of each site in its block, the same for all blocks that are alike.

    A block is the last numbered module on the path that has a named one below it: `layer1.0` in
    `layer1.0.relu`, `features.2` in `features.2.conv.0.2`. The place is the rest of the path, with
    the number of the call.

    There are at most eight different ones: the rarest become `OTHER`. Where no site of the network
    lies in a block, the kinds of activation are returned.

    >>> calls = [("relu", 0), ("layer1.0.relu", 0), ("layer1.0.relu", 1)]
    >>> places_of([CallSite(path, call, "relu") for path, call in calls])
    ['outside the blocks', 'relu', 'relu#1']
    """
    places = [_place(site) for site in sites]
    if all(place == OUTSIDE for place in places):
        places = [site.kind for site in sites]
    counts = Counter(places)
    if len(counts) <= MOST:
        return places
    kept = {place for place, _ in counts.most_common(MOST - 1)}
    return [place if place in kept else OTHER for place in places]


def _place(site: CallSite) -> str:
    parts = site.path.split(".")
    for end in range(len(parts) - 1, 0, -1):
        if NUMBERED.search(parts[end - 1]) and not all(part.isdecimal() for part in parts[end:]):
            return ".".join(parts[end:]) + (f"#{site.call}" if site.call else "")
    return OUTSIDE
