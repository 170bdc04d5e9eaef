"""Appendix E.7: the group of ReLU is a smaller family of stitching layers than the matrices of any
rank.

Every real dimension becomes a grid of spacing ε on [-M, M), and elements are counted: log n! + n
log(M/ε) of the group, and (2nr - r²) log(2M/ε) of rank r. (Equation E.34 has a parenthesis too far
to the right; this is what it stands for.) M/ε = 10⁷ is about the precision of float32; widths are
those of ResNet-20 and of the Myrtle CNN, and all ranks are tried. The claim needs M/ε much larger
than n, the paper says; how large is tried with M/ε = n, and with n/16.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from sigmascope.figures import Drawn, new_figure, styled
from sigmascope.figures.style import COLUMN, add_panel_legend, look
from sigmascope_papers.item import Check, Item, relation
from sigmascope_papers.setting import Setting
from sigmascope_papers.theory.capacity import Capacity, capacity_logs

__all__ = ["ITEM", "Capacities", "approximation"]

WIDTHS, RANKS = (16, 32, 64, 128, 256, 512), (1, 2, 4)
FINE = 1e7
# How far the paper's approximation may be off; it drops a term in log 2, which is a tenth of the
# whole for rank 1 and n = 64.
CLOSE = 0.2

Capacities = dict[str, dict[tuple[int, int], Capacity]]
"""Grid -> (n, r) -> capacities; grids are "fine" (M/ε = 10⁷), "n" and "n/16"."""


def approximation(n: int, r: int, ratio: float) -> float:
    """Return the paper's approximation E.37 of the difference, n log n - n - ((2r - 1)n - r²) log(M/ε)."""
    return n * math.log(n) - n - ((2 * r - 1) * n - r * r) * math.log(ratio)


def measure(setting: Setting) -> Capacities:
    """Count for every width and rank; there are no networks."""
    places = [(n, r) for n in WIDTHS for r in range(1, n + 1)]
    ratios: dict[str, Callable[[int], float]] = {
        "fine": lambda n: FINE,
        "n": float,
        "n/16": lambda n: n / 16,
    }
    return {
        grid: {(n, r): capacity_logs(n, r, M=ratio(n), eps=1.0) for n, r in places}
        for grid, ratio in ratios.items()
    }


def judge(found: Capacities) -> list[Check]:
    """The group is smaller for every rank with 10⁷ and n, not with n/16; rank 1 is nearest; E.37 is
    right to a fifth.
    """
    fine = {place: one.difference for place, one in found["fine"].items()}
    nearest = [
        max((difference, r) for (m, r), difference in fine.items() if m == n)[1] for n in WIDTHS
    ]
    off = max(abs(approximation(n, r, FINE) / fine[n, r] - 1) for n in WIDTHS for r in RANKS)
    same_sign = all(approximation(n, r, FINE) < 0 for n in WIDTHS for r in RANKS)
    equal = [one.difference for one in found["n"].values()]
    coarse = [found["n/16"][n, 1].difference for n in WIDTHS]
    return [
        relation(
            "the group is the smaller family for every rank",
            "difference of logarithms below 0",
            f"{max(fine.values()):.1f} at most, over {len(fine)} widths and ranks",
            true=max(fine.values()) < 0,
        ),
        relation(
            "rank 1 is nearest",
            "at every width",
            f"ranks {', '.join(map(str, nearest))}",
            true=set(nearest) == {1},
        ),
        relation(
            "the paper's approximation",
            f"negative, and within {CLOSE:.0%}",
            f"{off:.0%} off at most",
            true=same_sign,
            clear=off <= CLOSE,
        ),
        relation(
            "M/ε = n is enough",
            "below 0 for every rank",
            f"{max(equal):.1f} at most",
            true=max(equal) < 0,
        ),
        relation(
            "M/ε = n/16 is not, so that a condition is needed",
            "above 0 for rank 1",
            f"{min(coarse):.1f} at least",
            true=min(coarse) > 0,
        ),
    ]


@styled()
def draw(found: Capacities) -> dict[str, Drawn]:
    """Draw both logarithms over the width, for the ranks that the paper stitches with."""
    figure = new_figure(COLUMN, 2.4)
    panel = figure.subplots()
    fine = found["fine"]
    lines = {"group of ReLU": [fine[n, 1].log_group for n in WIDTHS]}
    lines |= {f"rank {r}": [fine[n, r].log_matrices for n in WIDTHS] for r in RANKS}
    for number, (name, values) in enumerate(lines.items()):
        color, marker, line = look(number)
        panel.plot(
            WIDTHS, values, color=color, marker=marker, linestyle=line, markersize=4, label=name
        )
    panel.set(
        xscale="log", yscale="log", xlabel="channels n", ylabel="log of the number of elements"
    )
    panel.set_xticks(WIDTHS, [str(n) for n in WIDTHS])
    panel.minorticks_off()
    add_panel_legend(figure, [panel])
    table: list[dict[str, Any]] = [
        {
            "grid": "M/ε = 10⁷",
            "n": n,
            "r": r,
            **fine[n, r]._asdict(),
            "approximation": approximation(n, r, FINE),
        }
        for n in WIDTHS
        for r in RANKS
    ]
    return {"": Drawn(figure, (panel,), table)}


ITEM = Item(measure=measure, judge=judge, draw=draw)
