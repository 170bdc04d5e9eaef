"""Figure 2C: the higher the degree of a polynomial, the less affine it is.

x^k for k = 1, 3, 5, 11, 21, 41 on 1000 evenly spaced points of [-1, 1]; the unbiased covariance.
For a uniform input the correlation of x and x^k is c = sqrt(3 (2k + 1)) / (k + 2), and the score 1
- sqrt(1 - c).
"""

from __future__ import annotations

import math

import numpy as np

from sigmascope.figures import Drawn, new_figure, styled
from sigmascope_papers.item import Check, Item, agrees, relation
from sigmascope_papers.nonlinearity.cases import Case, case_of, draw_cases
from sigmascope_papers.setting import Setting

__all__ = ["ITEM", "population_score"]

PRINTED = {1: 1.0, 3: 0.71, 5: 0.58, 11: 0.40, 21: 0.29, 41: 0.20}
POINTS = 1000


def population_score(degree: int) -> float:
    """Return the score of x^k, k odd, for x uniform on [-1, 1].

    >>> round(population_score(3), 4)
    0.7111
    """
    return 1 - math.sqrt(1 - min(math.sqrt(3 * (2 * degree + 1)) / (degree + 2), 1))


def measure(setting: Setting) -> dict[int, Case]:
    """Return the case of each degree."""
    x = np.linspace(-1, 1, POINTS)
    return {degree: case_of(x, x**degree) for degree in PRINTED}


def judge(cases: dict[int, Case]) -> list[Check]:
    """The scores agree with the printed ones, which have two digits, and with the closed form up to
    1/n; and they fall.
    """
    checks = [
        agrees(f"score of degree {k}", PRINTED[k], case.score, tolerance=0.005)
        for k, case in cases.items()
    ]
    worst = max(cases, key=lambda k: abs(cases[k].score - population_score(k)))
    claim = f"closed form, at degree {worst}, the furthest from it"
    checks.append(
        agrees(claim, population_score(worst), cases[worst].score, tolerance=1 / POINTS, digits=4)
    )
    ranked = sorted(cases, key=lambda k: -cases[k].score)
    order = " > ".join(f"x^{k}" for k in PRINTED)
    checks.append(
        relation("order", order, " > ".join(f"x^{k}" for k in ranked), true=ranked == sorted(cases))
    )
    return checks


@styled()
def draw(cases: dict[int, Case]) -> dict[str, Drawn]:
    """Draw each polynomial beside its affine map."""
    figure = new_figure(7, 1.9)
    panels = figure.subplots(1, len(cases), sharey=True, squeeze=False)[0].tolist()
    table = draw_cases({f"degree {k}": case for k, case in cases.items()}, panels)
    panels[0].set_ylabel("output")
    figure.supxlabel("input", fontsize=8)
    return {"": Drawn(figure, tuple(panels), table)}


ITEM = Item(measure=measure, judge=judge, draw=draw)
