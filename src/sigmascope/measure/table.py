"""A signature as a table, in text and in HTML."""

from __future__ import annotations

import html
import math
from collections import Counter
from typing import TYPE_CHECKING

from sigmascope.tables import aligned

if TYPE_CHECKING:
    from sigmascope.measure.result import Signature, Site

WIDTH = 20
LONGEST_PATH = 48
# Skipped calls, and modules that never ran, listed below a table.
LISTED = 4
NO_SCORE = "no score"


def bar(score: float, width: int = WIDTH) -> str:
    """Return a bar for a score between 0 and 1, in eighths of a character.

    >>> bar(0.5, 4)
    '██'
    """
    if not math.isfinite(score):
        return ""
    eighths = round(8 * width * min(max(score, 0.0), 1.0))
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def as_text(signature: Signature) -> str:
    """Return a signature as a table of text."""
    head, metrics = _head(signature)
    rows = []
    for site in signature.sites:
        row = _row(site, head, metrics)
        drawn = bar(site.score) if math.isfinite(site.score) else NO_SCORE
        row[0], row[head.index("")] = _shortened(site.name), drawn
        rows.append(row)
    numeric = {
        column for column, name in enumerate(head) if name in ("dim", "score", "std", *metrics)
    }
    lines = aligned([head, *rows], numeric)
    return "\n".join([_title(signature), "", *lines, "", *_footer(signature)])


def as_html(signature: Signature) -> str:
    """Return a signature as an HTML table, for notebooks."""
    head, metrics = _head(signature)
    cells = "".join(f"<th scope='col'>{html.escape(name)}</th>" for name in head)
    rows = ""
    for site in signature.sites:
        row = [html.escape(text) for text in _row(site, head, metrics)]
        row[head.index("")] = _html_bar(site.score) if math.isfinite(site.score) else NO_SCORE
        rows += f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>"
    foot = "<br>".join(html.escape(line) for line in _footer(signature))
    return (
        f"<table><caption>{html.escape(_title(signature))}</caption><thead><tr>{cells}</tr></thead>"
        f"<tbody>{rows}</tbody></table><p>{foot}</p>"
    )


def _html_bar(score: float) -> str:
    width = 8 * min(max(score, 0.0), 1.0)
    return f"<div style='background:#4269d0;height:.7em;width:{width:.3f}em'></div>"


def _head(signature: Signature) -> tuple[list[str], list[str]]:
    """Return the names of all columns, the bar's being empty, and of those that are metrics.

    Metrics are shown as their change from input to output, and the norm once.
    """
    names = dict.fromkeys(name for site in signature.sites for name in site.metrics)
    metrics = [name for name in names if not name.endswith(("_before", "_after", "_per_sample"))]
    std = ["std"] if signature.batches > 1 else []
    return ["site", "activation", "dim", "score", *std, "", *metrics], metrics


def _row(site: Site, head: list[str], metrics: list[str]) -> list[str]:
    """Return the cells of a site, that of the bar empty."""
    values = [f"{site.metrics.get(name, math.nan):.4g}" for name in metrics]
    std = [_number(site.scatter.std)] if "std" in head[:5] else []
    return [site.name, site.kind, str(site.dim or "–"), _number(site.score), *std, "", *values]


def _title(signature: Signature) -> str:
    calls = _counted(len(signature), "activation call")
    batches = f"{signature.batches} batch{'es' * (signature.batches != 1)}"
    data = f"{_counted(signature.samples, 'sample')} in {batches}"
    return f"Signature of {signature.name}: {calls}, {data}, {signature.options.covariance}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def _footer(signature: Signature) -> list[str]:
    coverage, lines = signature.coverage, []
    if coverage.scored:
        summary = ", ".join(f"{name} {value:.3f}" for name, value in signature.summary().items())
        lines.append(f"Score 1 is affine, lower is more non-linear: {summary}.")
    lines.append(f"{coverage}.")
    without = Counter(site.reason for site in signature.sites if not math.isfinite(site.score))
    lines += [f"No score at {_counted(n, 'site')}: {reason}." for reason, n in without.items()]
    skipped = [
        f"Skipped: {call.path or '(network)'} ({call.kind}): {call.reason}."
        for call in coverage.skipped
    ]
    lines += [*skipped[:LISTED], *(["…"] if len(skipped) > LISTED else [])]
    if unused := coverage.never_called:
        lines.append(f"Never ran: {', '.join(unused[:LISTED])}{', …' * (len(unused) > LISTED)}.")
    return [*lines, *(f"Note: {note}." for note in coverage.notes)]


def _number(value: float) -> str:
    return f"{value:.4f}" if math.isfinite(value) else "–"


def _shortened(text: str, longest: int = LONGEST_PATH) -> str:
    """Return a text with its middle cut out where it is too long."""
    if len(text) <= longest:
        return text
    front = (longest - 1) // 2
    return f"{text[:front]}…{text[-(longest - 1 - front) :]}"
