"""Beyond the paper: how many images a score needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sigmascope.figures import Drawn, new_figure, styled
from sigmascope.figures.drawn import finished
from sigmascope.figures.style import PAGE, add_legend, look
from sigmascope.measure.result import Signature
from sigmascope_papers.item import Check, Finding, Item, conclude
from sigmascope_papers.nonlinearity.convergence import WANTED, Convergence, quantile
from sigmascope_papers.setting import Setting

GROUPS = ("ResNets", "VGGs", "ViTs", "ConvNeXts")
SIZES, IMAGES, MOST = (64, 128, 256, 512, 1024, 2048), 8192, 16
PAPERS = 512
Images = Mapping[str, Convergence]
"""Name of a network -> how its scores converge."""


def measure(setting: Setting) -> Images:
    """Read or measure up to four networks, at every size that there are images for."""
    cast = setting.cast
    names = [lead for group in GROUPS if (lead := cast.lead(group))] or cast.names()[: len(GROUPS)]
    sizes = [size for size in SIZES if setting.limit is None or size <= setting.limit] or [SIZES[0]]
    found: dict[str, dict[int, Signature]] = {name: {} for name in names}
    for size in sizes:
        runs = setting.runs(names, images=IMAGES, batch=size, max_batches=MOST, metrics=())
        for name, run in zip(names, runs, strict=True):
            found[name][run.signature.sites[0].n] = run.signature
    return {name: common_calls(signatures) for name, signatures in found.items()}


def common_calls(signatures: Mapping[int, Signature]) -> Convergence:
    """Return the scores of the calls that every batch of every size has scored."""
    every = list(signatures.values())
    kept = set.intersection(
        *({site.name for site in one.sites if site.batches == one.batches} for one in every)
    )
    scores = {
        n: np.array([site.scores for site in one.sites if site.name in kept]).T
        for n, one in signatures.items()
    }
    return Convergence(scores, tuple(site.name for site in every[0].sites if site.name in kept))


def judge(found: Images) -> list[Check]:
    """With 512 images every call is within 0.01 of its limit, band included; weakly in the mean.

    The distance from the largest n shrinks with every doubling; weakly from first to last.
    """
    checks = []
    for name, one in found.items():
        short = name.rpartition("/")[2]
        told = f"{short}: {PAPERS} images give every score to {WANTED:g}", f"within {WANTED:g}"
        if len(one.scores) < 3 or PAPERS not in one.scores:
            reason = f"there are batches of {', '.join(map(str, one.scores))} only"
            checks.append(conclude(*told, reason))
            continue
        shrinks = f"{short}: the distance shrinks with every doubling", "less at every n"
        checks += [conclude(*told, _enough(one)), conclude(*shrinks, _shrinks(one))]
    return checks


def _enough(one: Convergence) -> Finding:
    off, other = one.within(PAPERS), one.within(PAPERS, form=one.other_form)
    alone, several = (
        f"n = {n}" if (n := one.needed(batch=batch)) else f"n > {max(one.scores)}"
        for batch in (True, False)
    )
    bias = one.means[list(one.scores).index(PAPERS)] - one.limits
    obtained = (
        f"{off.max():.4f} at most, {off.mean():.4f} in the mean; "
        f"bias {bias.mean():+.4f} ({bias.min():+.4f} to {bias.max():+.4f}) as {one.form}, "
        f"which fits {one.fitting()} of {len(bias)} calls better; "
        f"as {one.other_form} {other.mean():.4f} in the mean. "
        f"{WANTED:g} at every call: by the fitted bias from n = {one.unbiased_from()}, "
        f"by the mean of all batches from {several}, by one batch from {alone}"
    )
    return obtained, off.mean() <= WANTED, off.max() <= WANTED


def _shrinks(one: Convergence) -> Finding:
    # the last is measured from itself
    distances = [float(one.apart(n).mean()) for n in one.scores][:-1]
    told = ", ".join(f"{distance:.4f}" for distance in distances)
    return told, distances[-1] < distances[0], (np.diff(distances) < 0).all()


@styled()
def draw(found: Images) -> dict[str, Drawn]:
    """Draw over n the distance of a batch from the largest n, the mean score, and each call."""
    return {"": _draw_means(found), "calls": _draw_calls(found)}


def _draw_means(found: Images) -> Drawn:
    figure = new_figure(7, 2.6)
    left, right = panels = figure.subplots(1, 2)
    table: list[dict[str, Any]] = []
    for number, (name, one) in enumerate(found.items()):
        color, marker, line = look(number)
        style = {"color": color, "marker": marker, "linestyle": line, "markeredgewidth": 0}
        rows = _rows(name, one)
        table += rows
        for axes, key, some in ((left, "distance", rows[:-1] or rows), (right, "score", rows)):
            n, center, half = (np.array([row[c] for row in some]) for c in ("n", key, f"{key} ±"))
            axes.fill_between(n, center - half, center + half, color=color, alpha=0.18, linewidth=0)
            axes.plot(n, center, label=name.rpartition("/")[2], markersize=4, **style)
        right.axhline(rows[0]["limit"], color=color, linestyle=line, linewidth=0.6, alpha=0.7)
    sizes = sorted({row["n"] for row in table})
    left.axhline(WANTED, color="0.4", linewidth=0.7)
    left.set_yscale("log")
    left.set(xlabel="images n in a batch", ylabel=f"distance from n = {sizes[-1]}")
    right.set(xlabel="images n in a batch", ylabel="mean score")
    left.set_title("one batch, mean over the calls; the line is 0.01")
    right.set_title("mean over calls and batches; thin: extrapolated")
    for axes, ticks in ((left, sizes[:-1] or sizes), (right, sizes)):
        _log_scale(axes, ticks)
    add_legend(figure, *left.get_legend_handles_labels())
    return finished(panels, table)


def _log_scale(axes: Any, ticks: Any) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [f"{size:g}" for size in ticks])
    axes.minorticks_off()


def _draw_calls(found: Images) -> Drawn:
    """Draw for each call the mean score less the extrapolated one, with its 95 % band."""
    count = len(found)
    figure = new_figure(PAGE, 0.3 + 2 * ((count + 1) // 2))
    panels = figure.subplots((count + 1) // 2, min(2, count), sharey=True, squeeze=False).ravel()
    table: list[dict[str, Any]] = []
    for number, (panel, name) in enumerate(zip(panels, found, strict=False)):
        one, color = found[name], look(number).color
        known = one.limits if len(one.scores) > 2 else one.means[-1]
        for off, half in zip((one.means - known).T, one.bands.T, strict=True):
            band = one.sizes, off - half, off + half
            panel.fill_between(*band, color=color, alpha=0.07, linewidth=0)
            panel.plot(one.sizes, off, color=color, linewidth=0.6, alpha=0.8)
        panel.axhspan(-WANTED, WANTED, color="0.5", alpha=0.25, linewidth=0, zorder=0)
        _log_scale(panel, one.sizes)
        panel.set_title(f"{name.rpartition('/')[2]}, {len(known)} calls")
        table += _rows_of_calls(name, one)
    for panel in panels[count:]:
        panel.set_axis_off()
    figure.supxlabel("images n in a batch; the gray band is ± 0.01", fontsize=8)
    figure.supylabel("mean score less its limit", fontsize=8)
    return finished(panels[:count], table)


def _rows_of_calls(name: str, one: Convergence) -> list[dict[str, Any]]:
    calls = one.calls or tuple(map(str, range(1, 1 + one.means.shape[1])))
    limits = one.limits if len(one.scores) > 2 else np.full(len(calls), np.nan)
    return [
        {
            **{"network": name, "call": call, "n": n, "batches": len(batches)},
            "score": float(one.means[place, number]),
            "std": float(one.deviations[place, number]),
            "score ±": float(one.bands[place, number]),
            "limit": float(limits[number]),
        }
        for number, call in enumerate(calls)
        for place, (n, batches) in enumerate(one.scores.items())
    ]


def _rows(name: str, one: Convergence) -> list[dict[str, Any]]:
    rows = []
    limit = float(one.limits.mean()) if len(one.scores) > 2 else np.nan
    for n, batches in one.scores.items():
        row: dict[str, Any] = {"network": name, "n": n, "batches": len(batches), "limit": limit}
        for key, numbers in (("distance", one.apart(n)), ("score", batches.mean(axis=1))):
            count, half = len(numbers), np.nan
            if count > 1:
                half = quantile(count) * numbers.std(ddof=1) / np.sqrt(count)
            row |= {key: float(numbers.mean()), f"{key} ±": float(half)}
        rows.append(row)
    return rows


ITEM = Item(measure, judge, draw)
