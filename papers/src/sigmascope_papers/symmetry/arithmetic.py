"""Figure 17 and Appendix E.7, which need no networks: GELU, and capacities of families."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr

from sigmascope.figures import Drawn, styled
from sigmascope.figures.style import COLUMN, look
from sigmascope_papers.chance import Array
from sigmascope_papers.item import Check, Finding, Item, agrees, judge_by
from sigmascope_papers.symmetry.curves import page, rows_of, with_legend
from sigmascope_papers.theory.capacity import Capacity, capacity_logs
from sigmascope_papers.theory.gelu import gelu_asymptotic_slope, gelu_xi

SCALES = np.linspace(1e-9, 2, 1000)
SAMPLES, SEED = 100_000, 0
INPUTS = np.linspace(-6, 6, 481)
FAR = 1e6
# Printed by the paper, and computed independently.
PRINTED_SLOPE, SLOPE = 0.127, 0.1267538539
# What 10⁵ samples may be off: a share of ξ or, near its zero, what no eye sees in the figure.
RELATIVE, ABSOLUTE = 0.02, 0.0005
WIDTHS, RANKS = (16, 32, 64, 128, 256, 512), (1, 2, 4)
FINE = 1e7
# How far the paper's approximation may be off; it drops a term in log 2, which is a tenth of the
# whole for rank 1 and n = 64.
CLOSE = 0.2
GRIDS: Mapping[str, Callable[[int], float]] = {
    "fine": lambda n: FINE,
    "n": float,
    "n/16": lambda n: n / 16,
}
"""Name -> M/ε as a function of the width n."""
Capacities = dict[str, dict[tuple[int, int], Capacity]]
"""Grid -> (n, r) -> capacities."""


@dataclass(frozen=True, eq=False)
class Homogeneity:
    """GELU and ReLU at `INPUTS`, ξ at `SCALES` by two methods, ξ(1), ξ(λ)/λ at `FAR`, its limit."""

    gelu: Array
    relu: Array
    quadrature: Array
    sampled: Array
    at_one: float
    far: float
    slope: float


@functools.cache
def _homogeneity() -> Homogeneity:
    return Homogeneity(
        gelu=INPUTS * ndtr(INPUTS),
        relu=np.maximum(INPUTS, 0),
        quadrature=gelu_xi(SCALES),
        sampled=gelu_xi(SCALES, "monte-carlo", samples=SAMPLES, seed=SEED),
        at_one=gelu_xi(1.0),
        far=gelu_xi(FAR) / FAR,
        slope=gelu_asymptotic_slope(),
    )


def _find_gelu(found: Homogeneity) -> dict[str, Finding]:
    apart = np.abs(found.gelu - found.relu)
    outside = float(apart[np.abs(INPUTS) >= 4].max())
    widest = float(np.abs(INPUTS[apart.argmax()]))
    elsewhere = found.quadrature[(np.abs(SCALES - 1) > 0.01) & (SCALES > 0.01)].min()
    gap = np.abs(found.sampled - found.quadrature)
    allowed = np.maximum(RELATIVE * found.quadrature, ABSOLUTE)
    told = f"{outside:.1g} beyond 4, most ({apart.max():.3f}) at ± {widest:.2f}"
    at_one = f"ξ(1) = {found.at_one:.1g}, elsewhere at least {elsewhere:.1g}"
    off = f"{gap.max():.2g} off at most, {(gap / allowed).max():.0%} of what is allowed"
    return {
        "near_zero": (told, outside < 0.001 and widest < 1),
        "homogeneous": (at_one, abs(found.at_one) < 1e-12 and elsewhere > 0),
        "sampled": (off, (gap <= allowed).all()),
    }


def _slopes(found: Homogeneity) -> list[Check]:
    printed, digits = "asymptotic slope, as printed", "asymptotic slope, to ten digits"
    return [
        agrees(printed, PRINTED_SLOPE, found.slope, tolerance=0.0005, digits=3),
        agrees(digits, SLOPE, found.slope, tolerance=1e-10, digits=10),
        agrees("ξ(λ)/λ at λ = 10⁶", SLOPE, found.far, tolerance=1e-5, digits=6),
    ]


@styled()
def _draw_gelu(found: Homogeneity) -> dict[str, Drawn]:
    """Draw both functions, and ξ by both methods."""
    left, right = page(2.4, 2)
    curves = [
        (left, "GELU", INPUTS, found.gelu, "-"),
        (left, "ReLU", INPUTS, found.relu, "--"),
        (right, "ξ by quadrature", SCALES, found.quadrature, "-"),
        (right, "ξ from 10⁵ samples", SCALES, found.sampled, "--"),
    ]
    table = []
    for number, (panel, name, at, values, line) in enumerate(curves):
        panel.plot(at, values, line, color=look(number).color, label=name)
        table += rows_of(curve=name, at=at, value=values)
    left.set(xlabel="x", xlim=(-3, 3), ylim=(-0.4, 3))
    right.set(xlabel="λ", ylabel="ξ(λ)", ylim=(0, None))
    return {"": with_legend([left, right], table)}


def _approximation(n: int, r: int) -> float:
    """Return the paper's approximation E.37, n log n - n - ((2r - 1)n - r²) log(M/ε)."""
    return n * math.log(n) - n - ((2 * r - 1) * n - r * r) * math.log(FINE)


def _capacities() -> Capacities:
    places = [(n, r) for n in WIDTHS for r in range(1, n + 1)]
    return {
        grid: {(n, r): capacity_logs(n, r, M=ratio(n), eps=1.0) for n, r in places}
        for grid, ratio in GRIDS.items()
    }


def _find_capacities(found: Capacities) -> dict[str, Finding]:
    fine = {place: one.difference for place, one in found["fine"].items()}
    nearest = [max(range(1, n + 1), key=lambda r: (fine[n, r], r)) for n in WIDTHS]
    near = [(_approximation(n, r), fine[n, r]) for n in WIDTHS for r in RANKS]
    off = max(abs(one / exact - 1) for one, exact in near)
    most, equal = max(fine.values()), max(one.difference for one in found["n"].values())
    coarse = min(found["n/16"][n, 1].difference for n in WIDTHS)
    ranks = ", ".join(map(str, nearest))
    return {
        "smaller": (f"{most:.1f} at most, over {len(fine)} widths and ranks", most < 0),
        "nearest": (f"ranks {ranks}", set(nearest) == {1}),
        "approximation": (f"{off:.0%} off at most", all(one < 0 for one, _ in near), off <= CLOSE),
        "enough": (f"{equal:.1f} at most", equal < 0),
        "needed": (f"{coarse:.1f} at least", coarse > 0),
    }


@styled()
def _draw_capacities(found: Capacities) -> dict[str, Drawn]:
    """Draw both logarithms over the width, for the ranks that the paper stitches with."""
    (panel,), fine = page(2.4, width=COLUMN), found["fine"]
    lines = {"group of ReLU": [fine[n, 1].log_group for n in WIDTHS]}
    lines |= {f"rank {r}": [fine[n, r].log_matrices for n in WIDTHS] for r in RANKS}
    for number, (name, values) in enumerate(lines.items()):
        color, marker, line = look(number)
        style: dict[str, Any] = {"marker": marker, "linestyle": line, "markersize": 4}
        panel.plot(WIDTHS, values, color=color, label=name, **style)
    elements = "log of the number of elements"
    panel.set(xscale="log", yscale="log", xlabel="channels n", ylabel=elements)
    panel.set_xticks(WIDTHS, [str(n) for n in WIDTHS])
    panel.minorticks_off()
    table: list[dict[str, Any]] = [
        {"grid": "M/ε = 10⁷", "n": n, "r": r, **fine[n, r]._asdict()}
        | {"approximation": _approximation(n, r)}
        for n in WIDTHS
        for r in RANKS
    ]
    return {"": with_legend([panel], table)}


ITEMS: Mapping[str, Item] = {
    "sym-fig17": Item(
        lambda setting: _homogeneity(), judge_by("symmetry.fig17", _find_gelu, _slopes), _draw_gelu
    ),
    "sym-capacity": Item(
        lambda setting: _capacities(),
        judge_by("symmetry.capacity", _find_capacities),
        _draw_capacities,
    ),
}
