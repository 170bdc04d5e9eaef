"""Figures 2, 5, 9, 10, 11 and 16, Tables 2 and 4: how alike the layers of two networks are."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes

from sigmascope.figures import Drawn, draw_similarity, new_figure, styled
from sigmascope.figures.style import PAGE, add_panel_legend, look
from sigmascope.maths.procrustes import Matrix
from sigmascope_papers.item import Check, Item, conclude, judge_by
from sigmascope_papers.rules import at_most
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry import similarity_rules as rules
from sigmascope_papers.symmetry.curves import OVER_BLOCKS, draw_means, rows_of
from sigmascope_papers.symmetry.data import PRINTED
from sigmascope_papers.symmetry.similarities import (
    GROUPS,
    MYRTLE,
    RESNET18,
    RESNET20,
    WIDE,
    Pairs,
    Subject,
    pairs_of,
)

MATRICES: Mapping[str, Mapping[str, Matrix]] = {
    item: {group: np.array(rows) for group, rows in matrices.items()}
    for item, matrices in PRINTED["matrices"].items()
}
"""Item -> group -> the paper's similarities of all layers, row by row."""
NUMBERS: Mapping[str, rules.Numbers] = PRINTED["similarities"]
"""Item -> group -> layer -> the paper's similarity of layers at the same place, where known."""
INSIDE20: Mapping[str, rules.Limits] = PRINTED["inside blocks"]
"""Group -> least and largest similarity of the layers inside blocks, in Figure 9."""
ENDS18, ODD = RESNET18.layers[::2], "70*"
INSIDE18 = ("60*", ODD)
# The decay at constant width as a share of that at growing width; in the paper 0.98.
DECAY = (0.75, 0.5)


class Widths(NamedTuple):
    """Pairs of networks of constant width, and of growing width."""

    constant: Pairs
    growing: Pairs


def _like_growing(widths: Widths, group: str) -> Check:
    constant, growing = (pairs.matrices(group).mean(axis=0) for pairs in widths)
    gap, limits = np.abs(constant - growing), rules.CKA_LIMITS
    claim = f"{group} group: constant width gives what growing width gives"
    obtained = f"off by {gap.max():.2f} at most, {np.median(gap):.2f} in median"
    return conclude(claim, f"each entry within {limits[0]:g}", at_most(obtained, gap, limits))


def _same_decay(widths: Widths) -> Check:
    constant, growing = (-np.diff(pairs.mean("relu")[[0, -1]])[0] for pairs in widths)
    claim = "the decay by the relu group is not due to width"
    expected = f"at constant width at least {DECAY[0]:g} of that at growing width, which is there"
    obtained = f"from first to last {constant:.2f} against {growing:.2f}"
    clear, true = (bool(growing > 0 and constant >= share * growing) for share in DECAY)
    return conclude(claim, expected, (obtained, true, clear))


@styled()
def draw_layers(pairs: Pairs, paper: rules.Numbers, *, live: bool = False) -> dict[str, Drawn]:
    """Draw similarities of layers at the same place, and the paper's as crosses.

    If wanted, the relu group over live channels only is added, and the share of these.
    """
    figure = new_figure(PAGE, 3.4 if live else 2.6)
    ratios = (3, 1)[: 1 + live]
    panels = figure.subplots(1 + live, 1, sharex=True, squeeze=False, height_ratios=ratios)[:, 0]
    layers, table = pairs.layers, []
    for number, group in enumerate(GROUPS):
        table += _curve(panels[0], layers, f"{group} group", pairs.same_place(group), number)
        known = {layers.index(layer): value for layer, value in paper[group].items()}
        name = f"{group} group, the paper's"
        at, values = list(known), list(known.values())
        panels[0].plot(at, values, "x", color=look(number).color, label=name)
        table += rows_of(layer=list(paper[group]), curve=name, at=at, mean=values)
    if live:
        name = "relu group, live channels only"
        table += _curve(panels[0], layers, name, pairs.by_live_channels(), 2)
        widths = np.array([one.channels for one in pairs.found["relu"]])
        shares = (pairs.live_channels() / widths).reshape(-1, len(layers))
        table += _curve(panels[1], layers, "share of live channels", shares, 3)
        panels[1].set(ylabel="live channels", ylim=(-0.1, 1.1))
    inside = any(layer.endswith("*") for layer in layers)
    panels[0].set(ylabel="Procrustes similarity")
    panels[-1].set(xlabel=OVER_BLOCKS if inside else "activation")
    panels[-1].set_xticks(range(len(layers)), list(layers))
    add_panel_legend(figure, [panels[0]])
    return {"": Drawn(figure, tuple(panels), table)}


def _curve(
    panel: Axes, layers: tuple[str, ...], name: str, found: Matrix, number: int
) -> list[dict[str, Any]]:
    order = 2.5 - number / 10  # where curves coincide, the first is in front
    at = np.arange(len(layers))
    mean, std = draw_means(panel, at, found, look(number), label=name, zorder=order)
    own = {"layer": layers, "curve": name, "at": at}
    return rows_of(**own, mean=mean, std=std, repetitions=len(found))


@styled()
def draw_matrices(pairs: Pairs) -> dict[str, Drawn]:
    """Draw the mean matrix of each group as a heat map."""
    figure = new_figure(PAGE, 3.2)
    panels = figure.subplots(1, len(GROUPS)).tolist()
    table: list[dict[str, Any]] = []
    for panel, group in zip(panels, GROUPS, strict=True):
        drawn = draw_similarity(pairs.averaged(group), axes=panel)
        panel.set_box_aspect(1)
        table += [{"group": group, **row} for row in drawn.table]
    return {"": Drawn(figure, tuple(panels), table)}


@styled()
def _draw_decay(widths: Widths) -> Drawn:
    """Draw the diagonals at constant and at growing width."""
    figure = new_figure(PAGE, 2.4)
    panels = figure.subplots(1, len(GROUPS), sharey=True).tolist()
    layers, table = widths.constant.layers, []
    for panel, group in zip(panels, GROUPS, strict=True):
        for number, (name, pairs) in enumerate(
            zip(("constant width", "growing width"), widths, strict=True)
        ):
            rows = _curve(panel, layers, name, pairs.same_place(group), number)
            table += [{"group": group, **row} for row in rows]
        paper = np.diagonal(MATRICES["sym-fig16"][group])
        name = "constant width, the paper's"
        panel.plot(range(len(layers)), paper, "x", color="0.2", label=name)
        panel.set(title=f"{group} group", xlabel="activation")
        panel.set_xticks(range(len(layers)), list(layers))
    panels[0].set(ylabel="CKA similarity", ylim=(None, 1.05))
    add_panel_legend(figure, panels)
    return Drawn(figure, tuple(panels), table)


def _each_group(*chosen: Any) -> list[Any]:
    """Return rules for one group after the other."""
    return [partial(rule, group=group) for group in GROUPS for rule in chosen]


def _cka(subject: Subject, name: str, *chosen: Any) -> Item:
    """Return an item about CKA: mean matrices as heat maps."""
    judge = judge_by(f"symmetry.{name.removeprefix('sym-')}", *chosen)
    return Item(lambda setting: pairs_of(setting, subject, "cka"), judge, draw_matrices)


def _procrustes(subject: Subject, name: str, *chosen: Any, live: bool = False) -> Item:
    """Return an item about Procrustes: curves over the layers."""
    draw = partial(draw_layers, paper=NUMBERS[name], live=live)
    judge = judge_by(f"symmetry.{name.removeprefix('sym-')}", *chosen)
    return Item(lambda setting: pairs_of(setting, subject, "procrustes"), judge, draw)


def _near(name: str, words: str = "{}", layers: tuple[str, ...] = ()) -> Any:
    """Return a rule that compares with the paper's numbers, at some layers or at all."""
    paper = {
        group: {layer: row[layer] for layer in row if not layers or layer in layers}
        for group, row in NUMBERS[name].items()
    }
    limits = rules.CKA_LIMITS if name in ("sym-fig5", "sym-fig11") else rules.PROCRUSTES_LIMITS
    return partial(rules.numbers, paper=paper, limits=limits, words=words)


def _entries(name: str) -> list[Any]:
    """Return the rules that compare with the paper's matrices, on the diagonal and off it."""
    return [partial(rules.entries, paper=MATRICES[name], same=same) for same in (True, False)]


FIRST_THREE = partial(rules.falls, first=3, words="the first three layers")
LIKE_OWN20, LIKE_OWN18 = (
    partial(rules.like_their_own, counts=dict.fromkeys(GROUPS, counts), source=", our limit")
    for counts in ((29, 19), (26, 17))  # three quarters, and half, of the rows and columns
)
MOST_OWN2, MOST_OWN16 = (
    partial(rules.like_their_own, counts={"relu": counts, "orthogonal": (8, 6)})
    for counts in ((7, 6), (6, 5))
)
DECAYS = (rules.below_orthogonal, rules.decays_faster)
CONSTANT_WIDTH = _cka(WIDE, "sym-fig16", *_each_group(*_entries("sym-fig16"), MOST_OWN16), *DECAYS)


def _judge_widths(widths: Widths) -> list[Check]:
    """Judge constant width as in Figure 2, and compare it with growing width."""
    alike = [_like_growing(widths, group) for group in GROUPS]
    return [*CONSTANT_WIDTH.judge(widths.constant), *alike, _same_decay(widths)]


def _widths(setting: Setting) -> Widths:
    return Widths(*(pairs_of(setting, subject, "cka") for subject in (WIDE, MYRTLE)))


def _draw_widths(widths: Widths) -> dict[str, Drawn]:
    return {**draw_matrices(widths.constant), "decay": _draw_decay(widths)}


ITEMS: Mapping[str, Item] = {
    "sym-fig2": _cka(
        MYRTLE, "sym-fig2", *_each_group(*_entries("sym-fig2")), *_each_group(MOST_OWN2), *DECAYS
    ),
    "sym-fig5": _cka(
        RESNET20,
        "sym-fig5",
        *_each_group(
            _near("sym-fig5", "3 and 75 at the same place"), LIKE_OWN20, rules.inner_lower
        ),
        *DECAYS,
    ),
    "sym-fig9": _procrustes(
        RESNET20,
        "sym-fig9",
        *_each_group(
            _near("sym-fig9", "at the ends of blocks"),
            partial(rules.within_range, paper=INSIDE20, limits=rules.PROCRUSTES_LIMITS),
            rules.inner_lower,
        ),
        *(rules.below_orthogonal, rules.orders_agree),
    ),
    "sym-fig10": _procrustes(
        RESNET18,
        "sym-fig10",
        *_each_group(
            _near("sym-fig10", "at the ends of blocks", ENDS18),
            _near("sym-fig10", "60* and 70*", INSIDE18),
            partial(rules.falls_and_rises, paper=NUMBERS["sym-fig10"]),
        ),
        partial(rules.below_at_ends, layers=ENDS18, counts=(9, 7)),
        partial(rules.orders_agree, layers=ENDS18),
        partial(rules.stand_out, layers=INSIDE18),
        partial(rules.of_dead_channels, layer=ODD),
        live=True,
    ),
    "sym-fig11": _cka(
        RESNET18,
        "sym-fig11",
        *_each_group(
            _near("sym-fig11", "{} at the same place", ENDS18),
            partial(rules.unlike_itself, paper=NUMBERS["sym-fig11"], layer=ODD),
            LIKE_OWN18,
        ),
        *(partial(rules.below_orthogonal, but=(ODD,)), rules.decays_faster),
    ),
    "sym-fig16": Item(_widths, _judge_widths, _draw_widths),
    "sym-table2": _procrustes(
        MYRTLE,
        "sym-table2",
        *(*_each_group(_near("sym-table2")), rules.below_orthogonal),
        *_each_group(FIRST_THREE, rules.rises_last),
        partial(rules.differ_little, spread=0.04),
    ),
    "sym-table4": _procrustes(
        WIDE,
        "sym-table4",
        *_each_group(_near("sym-table4")),
        partial(rules.falls, group="relu", first=4, words="all layers"),
        partial(FIRST_THREE, group="orthogonal"),
        partial(rules.rises_last, group="orthogonal"),
        partial(rules.above_between, signs=(-1, 1, 1, -1)),
        partial(rules.differ_little, spread=0.008),
        live=True,
    ),
}
