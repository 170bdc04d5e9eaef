"""The page of a linearized network: one HTML file that loads nothing."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sigmascope import __version__
from sigmascope.checks import check_kind
from sigmascope.linearize.folding.result import Cost
from sigmascope.linearize.linearization import CurvePoint, Linearization
from sigmascope.linearize.result import MAPS_IN_WORDS, PlannedSite
from sigmascope.reporting.page import page_of
from sigmascope.store.files import Location, write_atomic

KIND = "linearization-page"
TEMPLATE = "linearization.html"
SCRIPTS = ("dom", "lens", "choice", "refresh", "frame", "linearization")


def linearization_page(result: Linearization, path: Location) -> Path:
    """Write a linearization as one HTML page: the curve, sites, tuning, folding, settings.

    The page is self-contained. Names of networks and layers are shown as text, whatever they hold.

    Args:
        result: of `sigmascope.linearize.fit`, or loaded.
        path: the file, which is replaced at once or not at all.

    Raises:
        InputTypeError: not a linearization.
        InputError: the path is a directory.
    """
    check_kind("result", result, Linearization, "sigmascope.linearize.fit")
    document = document_of(result)
    write_atomic(path, page_of(document, template=TEMPLATE, scripts=SCRIPTS, kind=KIND))
    return Path(path)


def document_of(result: Linearization) -> dict[str, Any]:
    """Return what the page shows, as plain numbers and texts, None for NaN."""
    order = sorted(result.plan.sites, key=lambda site: (not site.rank, site.rank))
    return {
        "sigmascope": __version__,
        "name": result.name,
        "by": result.plan.by,
        "meaning": result.plan.meaning,
        "elements": result.plan.elements,
        "saved": result.plan.saved,
        "sites": [_site(site) for site in order],
        "points": [_point(result, point) for point in result.points],
        "tunings": _tunings(result),
        "folding": _folding(result),
        "test": {
            "before": _number(result.before.accuracy),
            "after": _number(result.after.accuracy),
        },
        "samples": asdict(result.samples),
        "settings": _settings(result),
    }


def _site(site: PlannedSite) -> dict[str, Any]:
    numbers = {name: _number(getattr(site, name)) for name in ("score", "low", "high")}
    return numbers | {
        "name": site.name,
        "rank": site.rank,
        "kind": site.kind,
        "channels": site.channels,
        "elements": site.elements,
        "value": _number(site.value),
        "fit": _number(site.fit),
        "chosen": site.chosen,
        "reason": site.reason,
    }


def _point(result: Linearization, point: CurvePoint) -> dict[str, Any]:
    ranking = result.plan.ranking
    return {
        "left": point.left,
        "replaced": point.replaced,
        "elements": point.elements,
        "epochs": point.epochs,
        "accuracy": _number(point.held_out.accuracy),
        "loss": _number(point.held_out.loss),
        "isResult": point is result.chosen,
        "site": ranking[point.replaced - 1].name if point.replaced else None,
    }


def _tunings(result: Linearization) -> list[dict[str, Any]]:
    return [
        {
            "replaced": tuning.replaced,
            "epochs": [
                {
                    "number": epoch.number,
                    "loss": _number(epoch.loss),
                    "heldOut": _number(epoch.held_out.loss),
                    "accuracy": _number(epoch.held_out.accuracy),
                }
                for epoch in tuning.history
            ],
        }
        for tuning in result.tunings
    ]


def _folding(result: Linearization) -> dict[str, Any] | None:
    folding = result.folding
    if folding is None:
        return None
    return {
        "steps": list(folding.steps),
        "refused": list(folding.refused),
        "before": _cost(folding.before),
        "after": _cost(folding.after),
    }


def _cost(cost: Cost) -> dict[str, Any]:
    return {
        "layers": cost.layers,
        "maps": cost.maps,
        "parameters": cost.parameters,
        "multiplyAdds": cost.multiply_adds,
        "latency": _number(cost.seconds),
    }


def _settings(result: Linearization) -> list[list[str]]:
    plan, samples = result.plan, result.samples
    shown = {
        "network": result.name,
        "class": plan.network,
        "data": result.data or "–",
        "samples to tune on": f"{samples.train:,}",
        "samples held out": f"{samples.held_out:,}",
        "samples of the test": f"{samples.test:,}",
        "budget": plan.budget,
        "ranked by": plan.by,
        "maps": MAPS_IN_WORDS[plan.maps],
        "iterative": "yes" if plan.iterative else "no",
        "seed": str(result.seed),
    }
    if result.settings is not None:
        tuning = asdict(result.settings)
        shown |= {f"tuning: {name.replace('_', ' ')}": _text(tuning[name]) for name in tuning}
    shown |= result.versions
    return [[name, value] for name, value in shown.items()]


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _number(value: float) -> float | None:
    return float(f"{value:.10g}") if math.isfinite(value) else None
