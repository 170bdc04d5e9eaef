"""Beyond the paper: how many images a score needs.

Four networks on single batches of n = 64, 128, … 2048 images, up to sixteen disjoint batches of
each size, Ledoit–Wolf covariance. The score of a batch is biased, and it is noisy. Averaging over
batches removes the noise and leaves the bias. The bias is taken for b / n or b / √n, whichever fits
the mean score of a network better, and each call's limit for n without end is extrapolated in this
form by least squares, weighted by the standard errors. Bands are those of Student's t.

The paper measures in batches of 512 and says nothing of a bias; two decimals, as it prints them,
need 0.01.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sigmascope.figures import Drawn, new_figure, styled
from sigmascope.figures.style import PAGE, add_legend, look
from sigmascope.measure.signature import Signature
from sigmascope_papers.item import Check, Item, relation, untried
from sigmascope_papers.nonlinearity.convergence import WANTED, Convergence, quantile
from sigmascope_papers.setting import Setting

__all__ = ["ITEM", "Convergence", "Images"]

GROUPS = ("ResNets", "VGGs", "ViTs", "ConvNeXts")
SIZES, IMAGES, MOST = (64, 128, 256, 512, 1024, 2048), 8192, 16
PAPERS = 512


@dataclass(frozen=True, eq=False)
class Images:
    """Name of a network -> how its scores converge."""

    networks: dict[str, Convergence]


def measure(setting: Setting) -> Images:
    """Read or measure the signatures of up to four networks, at every size that there are images for."""
    cast = setting.cast
    names = [lead for group in GROUPS if (lead := cast.lead(group))] or cast.names()[: len(GROUPS)]
    sizes = [size for size in SIZES if setting.limit is None or size <= setting.limit] or [SIZES[0]]
    found: dict[str, dict[int, Signature]] = {name: {} for name in names}
    for size in sizes:
        runs = setting.runs(names, images=IMAGES, batch=size, max_batches=MOST, metrics=())
        for name, run in zip(names, runs, strict=True):
            found[name][run.signature.sites[0].n] = run.signature
    return Images({name: _common(signatures) for name, signatures in found.items()})


def _common(signatures: dict[int, Signature]) -> Convergence:
    """Return the scores of the calls that every batch of every size has scored."""
    scored = [
        {site.name for site in one.sites if site.batches == one.batches}
        for one in signatures.values()
    ]
    kept = set.intersection(*scored)
    scores = {
        n: np.array([site.scores for site in one.sites if site.name in kept]).T
        for n, one in signatures.items()
    }
    one = next(iter(signatures.values()))
    return Convergence(scores, tuple(site.name for site in one.sites if site.name in kept))


def judge(found: Images) -> list[Check]:
    """With 512 images every call is within 0.01 of its limit, band included; in direction where the
    mean over the calls is.

    The distance from the largest n shrinks with every doubling; in direction where it does from the
    first to the last.
    """
    checks = []
    for name, one in found.networks.items():
        short = name.rpartition("/")[2]
        claim = f"{short}: {PAPERS} images give every score to {WANTED:g}"
        if len(one.scores) < 3 or PAPERS not in one.scores:
            checks.append(
                untried(
                    claim,
                    f"within {WANTED:g}",
                    f"there are batches of {', '.join(map(str, one.scores))} only",
                )
            )
        else:
            checks += [
                _enough(claim, one),
                _shrinks(f"{short}: the distance shrinks with every doubling", one),
            ]
    return checks


def _enough(claim: str, one: Convergence) -> Check:
    off = one.within(PAPERS)
    alone, several = (
        f"n = {n}" if (n := one.needed(batch=batch)) else f"n > {max(one.scores)}"
        for batch in (True, False)
    )
    bias = one.means[list(one.scores).index(PAPERS)] - one.limits
    told = (
        f"bias {bias.mean():+.4f} ({bias.min():+.4f} to {bias.max():+.4f}) as {one.form}, which "
        f"fits {one.fitting()} of "
    )
    told += (
        f"{len(bias)} calls better; as {one.other_form} "
        f"{one.within(PAPERS, form=one.other_form).mean():.4f} in the mean"
    )
    return relation(
        claim,
        f"within {WANTED:g}",
        f"{off.max():.4f} at most, {off.mean():.4f} in the mean; {told}. {WANTED:g} at every "
        "call: by "
        f"the fitted bias from n = {one.unbiased_from()}, by the mean of all batches from "
        f"{several}, by one batch from {alone}",
        true=float(off.mean()) <= WANTED,
        clear=float(off.max()) <= WANTED,
    )


def _shrinks(claim: str, one: Convergence) -> Check:
    # the last is measured from itself
    distances = [float(one.apart(n).mean()) for n in one.scores][:-1]
    told = ", ".join(f"{distance:.4f}" for distance in distances)
    steps = np.diff(distances)
    return relation(
        claim,
        "less at every n",
        told,
        true=distances[-1] < distances[0],
        clear=bool((steps < 0).all()),
    )


@styled()
def draw(found: Images) -> dict[str, Drawn]:
    """Draw over n the mean distance of a batch from the largest n, and the mean score; and every
    call for itself.
    """
    return {"": _draw_means(found), "calls": _draw_calls(found)}


def _draw_means(found: Images) -> Drawn:
    figure = new_figure(7, 2.6)
    left, right = figure.subplots(1, 2)
    table: list[dict[str, Any]] = []
    for number, (name, one) in enumerate(found.networks.items()):
        color, marker, line = look(number)
        style: dict[str, Any] = {
            "color": color,
            "marker": marker,
            "linestyle": line,
            "markersize": 4,
            "markeredgewidth": 0,
        }
        rows = _rows(name, one)
        table += rows
        for axes, key, shown in ((left, "distance", rows[:-1] or rows), (right, "score", rows)):
            n, center, half = (
                np.array([row[column] for row in shown]) for column in ("n", key, f"{key} ±")
            )
            axes.fill_between(n, center - half, center + half, color=color, alpha=0.18, linewidth=0)
            axes.plot(n, center, label=name.rpartition("/")[2], **style)
        right.axhline(rows[0]["limit"], color=color, linestyle=line, linewidth=0.6, alpha=0.7)
    left.axhline(WANTED, color="0.4", linewidth=0.7)
    left.set_yscale("log")
    left.set(
        xlabel="images n in a batch", ylabel=f"distance from n = {max(row['n'] for row in table)}"
    )
    right.set(xlabel="images n in a batch", ylabel="mean score")
    left.set_title("one batch, mean over the calls; the line is 0.01")
    right.set_title("mean over calls and batches; thin: extrapolated")
    sizes = sorted({row["n"] for row in table})
    for axes, ticks in ((left, sizes[:-1] or sizes), (right, sizes)):
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, [str(size) for size in ticks])
        axes.minorticks_off()
    add_legend(figure, *left.get_legend_handles_labels())
    return Drawn(figure, (left, right), table)


def _draw_calls(found: Images) -> Drawn:
    """Draw for each network one thin line per call, with its 95 % band: the mean score less the
    extrapolated one.
    """
    count = len(found.networks)
    figure = new_figure(PAGE, 0.3 + 2 * ((count + 1) // 2))
    panels = figure.subplots((count + 1) // 2, min(2, count), sharey=True, squeeze=False).ravel()
    table: list[dict[str, Any]] = []
    for number, (panel, (name, one)) in enumerate(
        zip(panels, found.networks.items(), strict=False)
    ):
        known = one.limits if len(one.scores) > 2 else one.means[-1]
        for off, half in zip((one.means - known).T, one.bands.T, strict=True):
            panel.fill_between(
                one.sizes, off - half, off + half, color=look(number).color, alpha=0.07, linewidth=0
            )
            panel.plot(one.sizes, off, color=look(number).color, linewidth=0.6, alpha=0.8)
        panel.axhspan(-WANTED, WANTED, color="0.5", alpha=0.25, linewidth=0, zorder=0)
        panel.set_xscale("log", base=2)
        panel.set_xticks(one.sizes, [f"{size:g}" for size in one.sizes])
        panel.minorticks_off()
        panel.set_title(f"{name.rpartition('/')[2]}, {len(known)} calls")
        table += _rows_of_calls(name, one)
    for panel in panels[count:]:
        panel.set_axis_off()
    figure.supxlabel("images n in a batch; the gray band is ± 0.01", fontsize=8)
    figure.supylabel("mean score less its limit", fontsize=8)
    return Drawn(figure, tuple(panels[:count]), table)


def _rows_of_calls(name: str, one: Convergence) -> list[dict[str, Any]]:
    calls = one.calls or tuple(map(str, range(1, 1 + one.means.shape[1])))
    limits = one.limits if len(one.scores) > 2 else np.full(len(calls), np.nan)
    return [
        {
            "network": name,
            "call": call,
            "n": n,
            "batches": len(batches),
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
        values = {"distance": one.apart(n), "score": batches.mean(axis=1)}
        row: dict[str, Any] = {"network": name, "n": n, "batches": len(batches), "limit": limit}
        for key, numbers in values.items():
            several = len(numbers) > 1
            half = (
                quantile(len(numbers)) * numbers.std(ddof=1) / np.sqrt(len(numbers))
                if several
                else np.nan
            )
            row |= {key: float(numbers.mean()), f"{key} ±": float(half)}
        rows.append(row)
    return rows


ITEM = Item(measure=measure, judge=judge, draw=draw)
