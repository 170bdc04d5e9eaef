"""Beyond the paper: when in training residual connections split the activations in two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from sigmascope.errors import InputError
from sigmascope.figures import Drawn, new_figure, styled
from sigmascope.figures.drawn import finished
from sigmascope.figures.style import PAGE, add_panel_legend, look
from sigmascope_papers.chance import Array
from sigmascope_papers.nonlinearity.courses import (
    END,
    INSIDE,
    PLAIN,
    RESIDUAL,
    RULES,
    WIDE,
    Course,
    Courses,
    margin,
)
from sigmascope_papers.nonlinearity.items import item_of
from sigmascope_papers.setting import Setting

FILE = "trainings/split.json"
TITLES = {RESIDUAL: "ResNet-20, with residual connections", PLAIN: "the same network without them"}
PLACES = {END: "at the end of a block", INSIDE: "inside a block"}
ZERO = 1  # the axis is linear up to this step and logarithmic beyond


def measure(setting: Setting) -> Courses:
    """Read the stored trainings."""
    if not setting.ours:
        told = "this item is about networks of the zoo only."
        raise InputError(f"{told} Leave out --weights and --data.")
    if setting.from_scratch:
        told = "this item trains four networks, on a GPU."
        raise InputError(
            f"{told} Run python zoo/split_experiment.py DATA OUT in the repository, and put "
            f"OUT/split.json into results/{FILE} of this package."
        )
    place = setting.results / FILE
    if not place.is_file():
        raise InputError(f"{place} is missing. Restore the file from the repository.")
    return Courses.load(place)


@styled()
def draw(found: Courses) -> dict[str, Drawn]:
    """Draw the scores of both places over the steps, with and without connections."""
    figure = new_figure(PAGE, 2.9)
    panels = figure.subplots(1, 2, sharey=True)
    table: list[dict[str, Any]] = []
    for panel, (network, title) in zip(panels, TITLES.items(), strict=True):
        courses = found.of(network)
        _draw_steps(panel, courses)
        for number, place in enumerate(PLACES):
            _draw_place(panel, courses, place, number)
        gaps = ", ".join(f"{one.gaps[-1]:+.2f}" for one in courses)
        panel.set_title(f"{title}\nfinal gap {gaps}")
        table += [row for one in courses for row in _rows(one)]
    panels[0].set_ylabel("population score")
    add_panel_legend(figure, panels)
    return {"": finished(panels, table)}


def _draw_place(panel: Axes, courses: Sequence[Course], place: str, number: int) -> None:
    """Draw each call thinly, and the mean of all with its interval over the calls."""
    color, _, line = look(number)
    steps = courses[0].steps
    every = np.stack([one.at(place) for one in courses])  # seeds, steps, blocks
    for one in every:
        panel.plot(steps, one, color=color, linewidth=0.4, alpha=0.35)
    calls: Array = every.mean(axis=0)
    mean, half = calls.mean(axis=1), margin(calls)
    panel.fill_between(steps, mean - half, mean + half, color=color, alpha=0.2, linewidth=0)
    how: dict[str, Any] = {"linestyle": line, "linewidth": 1.8, "zorder": 3}
    panel.plot(steps, mean, color=color, label=PLACES[place], **how)


def _draw_steps(panel: Axes, courses: Sequence[Course]) -> None:
    """Draw the axis of the steps, the end of the first epoch, and when half of the gap is there."""
    first = courses[0]
    panel.set_xscale("symlog", linthresh=ZERO, linscale=0.4)
    panel.set_xlim(0, first.steps[-1])
    powers = [10**power for power in range(9) if 10**power <= first.steps[-1]]
    panel.set_xticks([0, *powers], ["0", *(f"{power:,}" for power in powers)])
    panel.minorticks_off()
    panel.set_xlabel("step of the training")
    epoch: dict[str, Any] = {"color": "0.6", "linewidth": 0.7, "zorder": 0}
    panel.axvline(first.epoch, linestyle="-", label="end of the first epoch", **epoch)
    parted = [one for one in courses if one.gaps[-1] >= WIDE]
    for step in {one.halfway for one in parted} - {None}:
        halfway: dict[str, Any] = {"color": "0.25", "linewidth": 0.9, "zorder": 1}
        panel.axvline(step or 0, linestyle=":", label="half of the final gap", **halfway)


def _rows(one: Course) -> list[dict[str, Any]]:
    training = {"network": one.network, "seed": one.seed}
    return [
        {
            **training,
            "step": step,
            "site": site,
            "score": one.scores[row][column],
            "low": one.low[row][column],
            "high": one.high[row][column],
        }
        for row, step in enumerate(one.steps)
        for column, site in enumerate(one.sites)
    ]


ITEM = item_of("beyond_training", measure, draw, *RULES.values())
