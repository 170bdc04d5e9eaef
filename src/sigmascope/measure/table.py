"""A signature as a table, in text and in HTML."""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING

from sigmascope.tables import aligned

if TYPE_CHECKING:
    from sigmascope.measure.signature import Signature, Site

__all__ = ["as_html", "as_text", "bar"]

WIDTH = 20
LONGEST_PATH = 48
# Calls that are no sites, and modules that never ran, named below a table.
LISTED = 4


def bar(score: float, width: int = WIDTH) -> str:
    """Draw a score between 0 and 1 in eighths of a character.

    >>> bar(0.5, 4)
    '██'
    """
    if not math.isfinite(score):
        return ""
    eighths = round(8 * width * min(max(score, 0.0), 1.0))
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def as_text(signature: Signature) -> str:
    """Lay a signature out as a table of text."""
    metrics = _columns(signature)
    many = signature.batches > 1
    head = ["site", "activation", "dim", "score", *(["std"] if many else []), "", *metrics]
    rows = [
        [
            _shortened(site.name),
            site.kind,
            str(site.dim or "–"),
            _number(site.score),
            *([_number(site.std)] if many else []),
            bar(site.score)
            if math.isfinite(site.score)
            else f"no score: {_shortened(site.reason, 60)}",
            *(f"{site.metrics.get(name, math.nan):.4g}" for name in metrics),
        ]
        for site in signature.sites
    ]
    numeric = {
        column for column, name in enumerate(head) if name in ("dim", "score", "std", *metrics)
    }
    return "\n".join(
        [_title(signature), "", *aligned([head, *rows], numeric), "", *_footer(signature)]
    )


def _columns(signature: Signature) -> list[str]:
    """Name the metrics to show: the change of what is measured before and after, and one norm."""
    names = dict.fromkeys(name for site in signature.sites for name in site.metrics)
    return [name for name in names if not name.endswith(("_before", "_after", "_per_sample"))]


def _title(signature: Signature) -> str:
    options = signature.options
    what = (
        f"{signature.samples} samples in {signature.batches} batch{'es' * (signature.batches != 1)}"
    )
    calls = f"{len(signature)} activation call{'s' * (len(signature) != 1)}"
    return f"Signature of {signature.name}: {calls}, {what}, {options.covariance}"


def _footer(signature: Signature) -> list[str]:
    summary = ", ".join(f"{name} {value:.3f}" for name, value in signature.summary().items())
    coverage = signature.coverage
    lines = [f"Score 1 is affine, lower is more non-linear: {summary}."] if coverage.scored else []
    skipped = [
        f"Skipped: {one.path or '(network)'} ({one.kind}): {one.reason}."
        for one in coverage.skipped
    ]
    silent = [
        "Never ran: "
        f"{', '.join(coverage.silent[:LISTED])}{', …' * (len(coverage.silent) > LISTED)}."
    ]
    lines += [f"{coverage}.", *skipped[:LISTED], *(["…"] if len(skipped) > LISTED else [])]
    return (
        lines + (silent if coverage.silent else []) + [f"Note: {note}." for note in coverage.notes]
    )


def _number(value: float) -> str:
    return f"{value:.4f}" if math.isfinite(value) else "–"


def _shortened(text: str, longest: int = LONGEST_PATH) -> str:
    """Cut a long text in its middle: both ends tell most."""
    if len(text) <= longest:
        return text
    front = (longest - 1) // 2
    return f"{text[:front]}…{text[-(longest - 1 - front) :]}"


def as_html(signature: Signature) -> str:
    """Lay a signature out as an HTML table, for notebooks."""
    metrics = _columns(signature)
    cells = "".join(
        f"<th scope='col'>{html.escape(name)}</th>"
        for name in ["site", "activation", "dim", "score", "", *metrics]
    )
    rows = "".join(_html_row(site, metrics) for site in signature.sites)
    foot = "<br>".join(html.escape(line) for line in _footer(signature))
    return (
        f"<table><caption>{html.escape(_title(signature))}</caption><thead><tr>{cells}</tr></thead>"
        f"<tbody>{rows}</tbody></table><p>{foot}</p>"
    )


def _html_row(site: Site, metrics: list[str]) -> str:
    width = 8 * min(max(site.score, 0.0), 1.0) if math.isfinite(site.score) else 0.0
    drawn = (
        f"<div style='background:#4269d0;height:.7em;width:{width:.3f}em'></div>"
        if math.isfinite(site.score)
        else f"no score: {html.escape(site.reason)}"
    )
    texts = [site.name, site.kind, str(site.dim or "–"), _number(site.score)]
    values = [f"{site.metrics.get(name, math.nan):.4g}" for name in metrics]
    return (
        f"<tr>{''.join(f'<td>{html.escape(text)}</td>' for text in texts)}<td>{drawn}</td>"
        f"{''.join(f'<td>{value}</td>' for value in values)}</tr>"
    )
