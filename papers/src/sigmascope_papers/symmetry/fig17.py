"""Figure 17: GELU beside ReLU, and how far GELU is from positively homogeneous.

ξ(λ), the root mean square of GELU(λX) - λ GELU(X) for X standard normal, by quadrature and, as in
the paper, by the mean over 10⁵ samples, the same for all λ. Its asymptotic slope has a closed form;
beside it stands ξ(λ)/λ at λ = 10⁶ by quadrature.

The mean over 10⁵ samples is allowed 2 % of ξ or, near its zero, 0.0005, which no eye tells apart in
the figure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr

from sigmascope.figures import Drawn, new_figure, styled
from sigmascope.figures.style import PAGE, add_panel_legend, look
from sigmascope_papers.item import Check, Item, agrees, relation
from sigmascope_papers.setting import Setting
from sigmascope_papers.theory.gelu import gelu_asymptotic_slope, gelu_xi

__all__ = ["ITEM", "Homogeneity"]

Array = np.ndarray[Any, np.dtype[np.float64]]
SCALES = np.linspace(1e-9, 2, 1000)
SAMPLES, SEED = 100_000, 0
INPUTS = np.linspace(-6, 6, 481)
FAR = 1e6
# Printed by the paper, and computed independently.
PRINTED_SLOPE, SLOPE = 0.127, 0.1267538539
RELATIVE, ABSOLUTE = 0.02, 0.0005


@dataclass(frozen=True, eq=False)
class Homogeneity:
    """Both functions, and ξ by two methods.

    Attributes:
        gelu, relu: (m,), at `INPUTS`.
        quadrature, sampled: (k,), ξ at `SCALES`.
        at_one: ξ(1) by quadrature.
        far: ξ(λ)/λ at a large λ by quadrature.
        slope: its limit, in closed form.
    """

    gelu: Array
    relu: Array
    quadrature: Array
    sampled: Array
    at_one: float
    far: float
    slope: float


def measure(setting: Setting) -> Homogeneity:
    """Compute all; there are no networks."""
    return Homogeneity(
        gelu=INPUTS * ndtr(INPUTS),
        relu=np.maximum(INPUTS, 0),
        quadrature=gelu_xi(SCALES),
        sampled=gelu_xi(SCALES, "monte-carlo", samples=SAMPLES, generator=SEED),
        at_one=gelu_xi(1.0),
        far=gelu_xi(FAR) / FAR,
        slope=gelu_asymptotic_slope(),
    )


def judge(found: Homogeneity) -> list[Check]:
    """The functions meet outside; ξ is 0 at 1 only; both methods agree; the slope is the printed
    one and that of large λ.
    """
    apart = np.abs(found.gelu - found.relu)
    outside = float(apart[np.abs(INPUTS) >= 4].max())
    widest = float(np.abs(INPUTS[apart.argmax()]))
    elsewhere = found.quadrature[(np.abs(SCALES - 1) > 0.01) & (SCALES > 0.01)]
    gap = np.abs(found.sampled - found.quadrature)
    allowed = np.maximum(RELATIVE * found.quadrature, ABSOLUTE)
    return [
        relation(
            "GELU and ReLU differ near 0 only",
            "less than 0.001 beyond 4, most within 1 of 0",
            f"{outside:.1g} beyond 4, most ({apart.max():.3f}) at ± {widest:.2f}",
            true=outside < 0.001 and widest < 1,
        ),
        relation(
            "GELU is homogeneous for λ = 1 only",
            "ξ(1) = 0, ξ > 0 elsewhere",
            f"ξ(1) = {found.at_one:.1g}, elsewhere at least {elsewhere.min():.1g}",
            true=bool(abs(found.at_one) < 1e-12 and elsewhere.min() > 0),
        ),
        relation(
            f"{SAMPLES:.0e} samples give ξ".replace("1e+05", "10⁵"),
            f"within {RELATIVE:.0%} or {ABSOLUTE:g} of the integral",
            f"{gap.max():.2g} off at most, {(gap / allowed).max():.0%} of what is allowed",
            true=bool((gap <= allowed).all()),
        ),
        agrees(
            "asymptotic slope, as printed", PRINTED_SLOPE, found.slope, tolerance=0.0005, digits=3
        ),
        agrees("asymptotic slope, to ten digits", SLOPE, found.slope, tolerance=1e-10, digits=10),
        agrees("ξ(λ)/λ at λ = 10⁶", SLOPE, found.far, tolerance=1e-5, digits=6),
    ]


@styled()
def draw(found: Homogeneity) -> dict[str, Drawn]:
    """Draw both functions, and ξ by both methods."""
    figure = new_figure(PAGE, 2.4)
    left, right = figure.subplots(1, 2)
    curves = [
        (left, "GELU", INPUTS, found.gelu, "-"),
        (left, "ReLU", INPUTS, found.relu, "--"),
        (right, "ξ by quadrature", SCALES, found.quadrature, "-"),
        (right, "ξ from 10⁵ samples", SCALES, found.sampled, "--"),
    ]
    table = []
    for number, (panel, name, at, values, line) in enumerate(curves):
        panel.plot(at, values, line, color=look(number).color, label=name)
        table += [
            {"curve": name, "at": x, "value": y}
            for x, y in zip(at.tolist(), values.tolist(), strict=True)
        ]
    left.set(xlabel="x", xlim=(-3, 3), ylim=(-0.4, 3))
    right.set(xlabel="λ", ylabel="ξ(λ)", ylim=(0, None))
    add_panel_legend(figure, [left, right])
    return {"": Drawn(figure, (left, right), table)}


ITEM = Item(measure=measure, judge=judge, draw=draw)
