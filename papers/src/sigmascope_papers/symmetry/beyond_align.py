"""Beyond the paper: is the line between two networks of different seeds free, once aligned?"""

from __future__ import annotations

import math
import statistics
from functools import partial
from typing import Any

from matplotlib.axes import Axes

from sigmascope.figures import Drawn, new_figure, styled
from sigmascope.figures.drawn import finished
from sigmascope.figures.style import PAGE, add_legend, add_panel_legend, look
from sigmascope_papers.item import Check, Finding, Item, conclude, judge_by
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry.lines import (
    BEST,
    BY,
    CALIBRATED,
    CURVES,
    LOST,
    MEASURES,
    Line,
    Lines,
    correction_gain,
    mean_difference,
    predicted,
    reduced as reduction_of,
    scale_gain,
    scaled,
    told_points,
    verdict,
)

FILE = "trainings/align.json"
AGAIN = (
    "It follows hundreds of lines, on a GPU: python zoo/align_experiment.py run --data DATA --out "
    "OUT --scratch DIR in the repository, then python zoo/align_experiment.py summary OUT --store "
    f"results/{FILE} of this package."
)
CURVE = f"{BEST}, corrected"
# Matched by activations, both groups find the same permutations.
NOTES = {("activations", ", corrected"): ", as they must: the correction begins with equal scales"}
GOAL, STRONG = 0.75, -0.5
WIDTHS = ("vgg16", "vgg16 x2", "vgg16 x4")


def measure(setting: Setting) -> Lines:
    """Read the stored lines."""
    return Lines.load(setting.stored(FILE, written_by=AGAIN))


def reduced(found: Lines) -> Finding:
    """Judge the goal for Myrtle and VGG-16."""
    families = found.plain
    if missing := [name for name in ("myrtle", "vgg16") if name not in families]:
        return f"no pair of {' and '.join(missing)} is measured"
    values = {
        of: [reduction_of(families[name], CURVE, of) for name in ("myrtle", "vgg16")]
        for of in (CALIBRATED, LOST)
    }
    told = "; ".join(
        f"{words}: Myrtle {_share(own[0])}, VGG-16 {_share(own[1])}"
        for words, own in zip(("calibrated loss", "accuracy"), values.values(), strict=True)
    )
    reached = [all(one[0] >= GOAL for one in own) for own in values.values()]
    return told, any(reached), all(reached)


def _share(ends: tuple[float, float, float]) -> str:
    return f"{100 * ends[0]:.0f} % ({100 * ends[1]:.0f} to {100 * ends[2]:.0f})"


def scales(found: Lines) -> list[Check]:
    """Judge what scales add, by weights and by activations, without and with the correction."""
    checks = []
    for by in BY:
        for end, words in (("", "without correction"), (", corrected", "with the correction")):
            ends = mean_difference(scaled(found), partial(scale_gain, by=by, end=end))
            word = verdict(*ends[1:])
            told = f"{told_points(ends)}: scales {word}{NOTES.get((by, end), '')}"
            claim = f"ours: by {by}, {words}, scales add nothing to permutations"
            finding = told if word == "undecided" else (told, word == "add nothing")
            checks.append(
                conclude(claim, "accuracy gained: an interval with 0, within ± 1 point", finding)
            )
    return checks


def correction(found: Lines) -> Finding:
    """Judge whether the correction of statistics helps aligned lines."""
    mean, low, high = mean_difference(scaled(found), correction_gain)
    told = f"{mean:.1f} points fewer lost ({low:.1f} to {high:.1f})"
    return (told, low > 0) if low > 0 or high < 0 else f"undecided: {told}"


def width(found: Lines) -> Finding:
    """Judge the known result on width."""
    families = found.families
    if missing := [name for name in WIDTHS if name not in families]:
        return f"no pair of {' and '.join(missing)} is measured"
    values = {
        of: [statistics.fmean(one.heights[CURVE][of] for one in families[name]) for name in WIDTHS]
        for of in (CALIBRATED, LOST)
    }
    told = f"calibrated {_falling(values[CALIBRATED], 3)}; points lost {_falling(values[LOST], 1)}"
    falls = all(one[0] > one[1] > one[2] for one in values.values())
    return told, falls, falls and all(one[2] <= one[0] / 2 for one in values.values())


def _falling(values: list[float], digits: int) -> str:
    return ", ".join(f"{one:.{digits}f}" for one in values)


def predicts(found: Lines) -> list[Check]:
    """Judge whether similarity before aligning says what is lost after it."""
    checks = []
    for measure, name in MEASURES.items():
        whole, within = predicted(found, measure)
        claim = f"ours: the more alike two networks are by {name}, the less their line loses"
        told = f"{whole:.2f} over all pairs, {within:.2f} within families"
        known = not math.isnan(whole + within)
        finding = (told, whole <= STRONG and within < 0) if known else f"too few pairs: {told}"
        checks.append(
            conclude(claim, "rank correlation of -0.5 or less, below 0 within families", finding)
        )
    return checks


@styled()
def draw(found: Lines) -> dict[str, Drawn]:
    """Draw what is lost on every line, and the similarity of every pair against it."""
    return {"": _draw_lines(found), "similarity": _draw_similarity(found)}


def _draw_lines(found: Lines) -> Drawn:
    """Draw the points lost on the lines of all pairs, thinly, and their means by family."""
    families = dict(sorted(found.families.items(), key=_place))
    figure = new_figure(PAGE, 0.7 + 0.52 * len(families))
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    table: list[dict[str, Any]] = []
    for panel, end in zip(panels, ENDS, strict=True):
        for row, (family, own) in enumerate(families.items()):
            for number, curve in enumerate(CURVES):
                lost = [one.lost(f"{curve}{end}") for one in own]
                height = row + STEP * (number - (len(CURVES) - 1) / 2)
                _draw_family(panel, height, lost, curve)
                facts = {"family": family, "pairs": len(own), "line": f"{curve}{end}"}
                table.append({**facts, "points lost": statistics.fmean(lost)})
        panel.set_title(ENDS[end])
        panel.set(xlim=(0, 88), xlabel="points of accuracy lost on the line")
        panel.grid(visible=False, axis="y")
        for row in range(1, len(families)):
            panel.axhline(row - 0.5, color="0.85", linewidth=0.6, zorder=0)
        panel.tick_params(axis="y", length=0)
    names = [f"{_title(name)}\n{_counted(len(own))}" for name, own in families.items()]
    panels[0].set_yticks(range(len(families)), names)
    panels[0].set_ylim(len(families) - 0.5, -0.5)
    add_panel_legend(figure, panels)
    return finished(list(panels), table)


def _place(family: tuple[str, list[Line]]) -> float:
    """Return the place of a family in the figure: the most is lost at the bottom."""
    return statistics.fmean(one.lost(CURVE) for one in family[1])


def _counted(pairs: int) -> str:
    return "1 pair" if pairs == 1 else f"{pairs} pairs"


def _draw_family(panel: Axes, height: float, lost: list[float], curve: str) -> None:
    color, marker, filled = LOOKS[curve]
    how: dict[str, Any] = {"color": color, "linestyle": "none"}
    height_of_all = [height] * len(lost)
    panel.plot(lost, height_of_all, "|", markersize=3.2, alpha=0.35, markeredgewidth=0.7, **how)
    shape: dict[str, Any] = {"marker": marker, "markersize": 4.2, "markeredgewidth": 0.9}
    face = color if filled else "white"
    mean = [statistics.fmean(lost)]
    panel.plot(mean, [height], label=LABELS[curve], markerfacecolor=face, zorder=4, **how, **shape)


def _draw_similarity(found: Lines) -> Drawn:
    """Draw the similarity of every pair against what is lost on its line."""
    figure = new_figure(PAGE, 2.8)
    panels = figure.subplots(1, 2, sharey=True)
    table = []
    for number, (family, own) in enumerate(found.families.items()):
        lost = [one.lost(CURVE) for one in own]
        for panel, name in zip(panels, MEASURES, strict=True):
            x = [one.similarity[name] for one in own]
            style = look(number).points(4) | {"markeredgewidth": 0.3, "markeredgecolor": "white"}
            panel.plot(x, lost, label=_title(family), **style)
        table += [
            {"family": family, "seeds": " and ".join(map(str, one.seeds))}
            | one.similarity
            | {"naive": one.lost("naive"), "aligned": one.lost(CURVE)}
            for one in own
        ]
    for panel, (measure, name) in zip(panels, MEASURES.items(), strict=True):
        panel.set_xlabel(f"{name} of the pair before aligning")
        whole, within = predicted(found, measure)
        if not math.isnan(whole + within):
            panel.set_title(f"rank correlation {_signed(whole)}, within families {_signed(within)}")
    panels[0].set_ylabel("points of accuracy lost\non the aligned line, corrected")
    panels[0].set_ylim(bottom=0)
    add_legend(figure, *panels[0].get_legend_handles_labels())
    return finished(list(panels), table)


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")


STEP = 0.16  # between the lines of a family, whose rows are 1 apart
ENDS = {"": "the line as it is", ", corrected": "with the correction of statistics"}
LABELS = {
    "naive": "naive",
    "weights, permutations": "by weights: permutations",
    "weights, all": "by weights: the whole group",
    "activations, permutations": "by activations: permutations",
    "activations, all": "by activations: the whole group",
}
# Curve -> color, marker, and whether it is filled
LOOKS = {
    "naive": ("0.35", "X", True),
    "weights, permutations": (look(1).color, "s", False),
    "weights, all": (look(1).color, "s", True),
    "activations, permutations": (look(0).color, "o", False),
    "activations, all": (look(0).color, "o", True),
}
TITLES = {"myrtle": "Myrtle CNN", "vgg16": "VGG-16", "resnet20": "ResNet-20"}
TITLES |= {"vit-patch4": "ViT", "myrtle-nobn": "Myrtle CNN, no norm"}


def _title(family: str) -> str:
    """Return what the legend calls a family.

    >>> _title("vgg16 x2")
    'VGG-16, 2 times as wide'
    """
    name, _, times = family.partition(" x")
    return TITLES.get(name, name) + (f", {times} times as wide" if times else "")


RULES = (reduced, scales, correction, width, predicts)
ITEM = Item(measure, judge_by("symmetry.beyond_align", *RULES), draw)
