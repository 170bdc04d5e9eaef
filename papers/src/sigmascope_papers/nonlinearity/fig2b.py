"""Figure 2B: ReLU, Tanh and Sigmoid on inputs of one law.

Normal inputs with mean -1 and standard deviation 2, one channel, 1000 samples for each function,
from one generator of NumPy seeded with 987; the unbiased covariance.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sigmascope.figures import Drawn, new_figure, styled
from sigmascope_papers.item import Check, Item, agrees, relation
from sigmascope_papers.nonlinearity.cases import Array, Case, case_of, draw_cases
from sigmascope_papers.setting import Setting

__all__ = ["ITEM", "drawn_inputs"]

FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "ReLU": lambda x: np.maximum(x, 0),
    "Tanh": np.tanh,
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}
PRINTED = {"ReLU": 0.49, "Tanh": 0.67, "Sigmoid": 0.77}


def drawn_inputs() -> tuple[dict[str, Array], np.random.RandomState]:
    """Return the inputs (1000,) of each function, and the generator for whoever draws next."""
    generator = np.random.RandomState(987)
    return {name: generator.normal(-1, 2, size=1000) for name in FUNCTIONS}, generator


def measure(setting: Setting) -> dict[str, Case]:
    """Return the case of each function."""
    inputs, _ = drawn_inputs()
    return {name: case_of(x, FUNCTIONS[name](x)) for name, x in inputs.items()}


def judge(cases: dict[str, Case]) -> list[Check]:
    """The scores agree with the printed ones, which have two digits, and stand in the same order."""
    checks = [
        agrees(f"score of {name}", PRINTED[name], case.score, tolerance=0.005)
        for name, case in cases.items()
    ]
    ranked = sorted(cases, key=lambda name: cases[name].score)
    checks.append(
        relation("order", "ReLU < Tanh < Sigmoid", " < ".join(ranked), true=ranked == list(PRINTED))
    )
    return checks


@styled()
def draw(cases: dict[str, Case]) -> dict[str, Drawn]:
    """Draw each function on its inputs, beside its affine map."""
    figure = new_figure(5.2, 2.2)
    panels = figure.subplots(1, len(cases), squeeze=False)[0].tolist()
    table = draw_cases(cases, panels)
    panels[0].set_ylabel("output")
    figure.supxlabel("input", fontsize=8)
    return {"": Drawn(figure, tuple(panels), table)}


ITEM = Item(measure=measure, judge=judge, draw=draw)
