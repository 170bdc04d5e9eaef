"""Beyond the paper: is the line between two networks of different seeds free, once aligned?"""

from __future__ import annotations

import math
import statistics
from functools import partial

from sigmascope.errors import InputError
from sigmascope.figures import Drawn, new_figure, styled
from sigmascope.figures.drawn import finished
from sigmascope.figures.style import PAGE, add_legend, look
from sigmascope_papers.item import Check, Finding, Item, conclude, judge_by
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry.lines import (
    BEST,
    BY,
    CALIBRATED,
    LOST,
    MEASURES,
    Lines,
    correction_gain,
    mean_difference,
    predicted,
    reduced as reduction_of,
    scale_gain,
    scaled,
    verdict,
)

FILE = "trainings/align.json"
CURVE = f"{BEST}, corrected"
GOAL, STRONG = 0.75, -0.5
WIDTHS = ("vgg16", "vgg16 x2", "vgg16 x4")


def measure(setting: Setting) -> Lines:
    """Read the stored lines."""
    if not setting.ours:
        raise InputError(
            "this item is about networks of one experiment only. Leave out --weights and --data."
        )
    if setting.from_scratch:
        raise InputError(
            "this item follows hundreds of lines, on a GPU. Run python zoo/align_experiment.py run "
            "--data DATA --out OUT --scratch DIR in the repository, and then python "
            f"zoo/align_experiment.py summary OUT --store results/{FILE} of this package."
        )
    place = setting.results / FILE
    if not place.is_file():
        raise InputError(f"{place} is missing. Restore the file from the repository.")
    return Lines.load(place)


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
            mean, low, high = mean_difference(scaled(found), partial(scale_gain, by=by, end=end))
            word = verdict(low, high)
            told = f"{mean:.2f} points ({low:.2f} to {high:.2f}): scales {word}"
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
    """Draw the similarity of every pair against what is lost on its line."""
    figure = new_figure(PAGE, 2.8)
    panels = figure.subplots(1, 2, sharey=True)
    table = []
    for number, (family, own) in enumerate(found.families.items()):
        lost = [one.lost(CURVE) for one in own]
        for panel, name in zip(panels, MEASURES, strict=True):
            x = [one.similarity[name] for one in own]
            style = look(number).points(4) | {"linestyle": "none"}
            panel.plot(x, lost, label=_title(family), **style)
        table += [
            {"family": family, "seeds": " and ".join(map(str, one.seeds))}
            | one.similarity
            | {"naive": one.lost("naive"), "aligned": one.lost(CURVE)}
            for one in own
        ]
    for panel, name in zip(panels, MEASURES.values(), strict=True):
        panel.set_xlabel(f"{name} of the pair before aligning")
    panels[0].set_ylabel("points of accuracy lost\non the aligned line")
    add_legend(figure, *panels[0].get_legend_handles_labels())
    return {"": finished(list(panels), table)}


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
ITEM = Item(measure, judge_by("symmetry/waiting.beyond_align", *RULES), draw)
