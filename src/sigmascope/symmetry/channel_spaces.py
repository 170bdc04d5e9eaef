"""The spaces of channels of a network that may move, by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from sigmascope.capture.guard import unwrapped
from sigmascope.symmetry.wiring.network import Wiring
from sigmascope.symmetry.wiring.ties import MAGNITUDE, SIGN, Channels, Integers
from sigmascope.symmetry.wiring.trace import trace
from sigmascope.tables import as_lines

# By which freedoms are left: of the magnitude, of the sign.
SCALARS = {
    (True, True): "d ≠ 0",
    (True, False): "d > 0",
    (False, True): "d = ±1",
    (False, False): "d = 1",
}


@dataclass(frozen=True)
class Space:
    """Channels that are moved by one monomial element.

    Attributes:
        name: where they begin: a module, or a function in a module; with a range for some of its
            channels.
        width: number of channels.
        permuted: whether they may be permuted.
        scalars: the scales that they admit, such as `d > 0`.
        joined: names of others that must carry the same element.
        shares: the name of the space whose permutation it shares, if it is not the first of them.
        reasons: what restricts it, and where.
    """

    name: str
    width: int
    permuted: bool
    scalars: str
    joined: tuple[str, ...]
    shares: str
    reasons: tuple[str, ...]

    @property
    def group(self) -> str:
        """The group that the space admits, in words."""
        words = ("permutations" if self.permuted else "", self.scalars.replace("d = 1", ""))
        return ", ".join(filter(None, words)) or "fixed"


class Spaces(tuple[Space, ...]):
    """The spaces of a network, in order of execution. Prints itself as a table.

    >>> from torch import nn
    >>> from sigmascope import symmetry
    >>> found = symmetry.spaces(nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)))
    >>> [(space.name, space.width) for space in found]
    [('0', 3), ('2', 1)]
    """

    def __repr__(self) -> str:
        if not self:
            return "no channels that begin in the network"
        columns: dict[str, list[Any]] = {
            "space": [row.name for row in self],
            "width": [row.width for row in self],
            "group": [row.group for row in self],
            "permuted with": [row.shares or "–" for row in self],
            "joined": [len(row.joined) for row in self],
        }
        reasons = ["", *("; ".join(row.reasons) for row in self)]
        lines = zip(as_lines(columns), reasons, strict=True)
        return "\n".join(f"{line}  {reason}".rstrip() for line, reason in lines)


def spaces(model: nn.Module, example_input: Any = None, *, exact_eval: bool = False) -> Spaces:
    """Return the spaces of channels of a network and the group that each admits.

    Godfrey et al., NeurIPS 2022, arXiv:2205.14258.

    Args:
        model: the network, which is not changed.
        example_input: see `sigmascope.symmetry.move`.
        exact_eval: see `sigmascope.symmetry.move`.

    Raises:
        UnmovableError: the network computes something through which channels cannot be followed.

    >>> spaces(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)))
    space  width  group                permuted with  joined
    0          3  permutations, d > 0  –                   0  relu admits d > 0 (1)
    2          1  fixed                –                   0  it is the output of the network
    """
    wiring = trace(unwrapped(model), example_input, exact_eval=exact_eval)
    return Spaces(space for space, _ in found_spaces(wiring))


def found_spaces(wiring: Wiring) -> list[tuple[Space, dict[str, Channels]]]:
    """Return the spaces of a wiring, each with its channels by name."""
    ties, cells = wiring.ties, wiring.ties.cells()
    # channels that do not move are listed together
    cells[ties.places.lost[0, ties.places.roots(np.arange(len(cells)))] > 0] = -1
    found: dict[tuple[int, int], dict[str, Channels]] = {}
    first_of_cell: dict[int, str] = {}
    for site, channels in wiring.origins:
        own = cells[channels.place]
        for cell in dict.fromkeys(own.tolist()):
            index = np.flatnonzero(own == cell)
            name = site if len(index) == len(channels) else f"{site}[{_ranges(index)}]"
            scale = int(ties.scales.roots(channels.scale[index]).min())
            found.setdefault((cell, scale), {}).setdefault(name, channels[index])
            first_of_cell.setdefault(cell, name)
    return [
        (_space(wiring, parts, first_of_cell[cell] if cell >= 0 else ""), parts)
        for (cell, _), parts in found.items()
    ]


def _space(wiring: Wiring, parts: dict[str, Channels], first: str) -> Space:
    ties, (name, *joined) = wiring.ties, parts
    channels = parts[name]
    places = ties.places.roots(channels.place)
    scales = ties.scales.roots(channels.scale)
    lost = [*ties.places.lost[:, places], *ties.scales.lost[:, scales]]
    numbers = np.unique(np.concatenate(lost))
    free = {freedom: not ties.scales.lost[freedom, scales].any() for freedom in (MAGNITUDE, SIGN)}
    return Space(
        name=name,
        width=len(channels),
        permuted=len(np.unique(places)) > 1 and not ties.places.lost[0, places].any(),
        scalars=SCALARS[free[MAGNITUDE], free[SIGN]],
        joined=tuple(joined),
        shares="" if first == name else first,
        reasons=tuple(ties.reasons[number] for number in numbers if number),
    )


def _ranges(index: Integers) -> str:
    """Return positions as ranges: 0, 1, 2, 5 are `0:3,5:6`."""
    breaks = np.flatnonzero(np.diff(index) != 1) + 1
    return ",".join(f"{part[0]}:{part[-1] + 1}" for part in np.split(index, breaks))
