"""A signature as a table, in text and in HTML."""

from __future__ import annotations

import html
import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sigmascope.capture.gates import UNIT
from sigmascope.choices import ScoreKind
from sigmascope.errors import printable
from sigmascope.tables import aligned

if TYPE_CHECKING:
    from sigmascope.measure.result import Signature, Site

WIDTH = 20
LONGEST_PATH = 48
# Skipped calls, and modules that never ran, listed below a table.
LISTED = 4
NO_SCORE = "no score"
SHOWN = 5e-5  # what four digits show
NUMERIC = ("dim", "score", "std", "population")


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
        row = _row(site, head, metrics, counts=signature.counts(site))
        value = _drawn(site)
        row[0] = _shortened(site.name)
        row[head.index("")] = bar(value) if math.isfinite(value) else NO_SCORE
        rows.append(row)
    numeric = {column for column, name in enumerate(head) if name in (*NUMERIC, *metrics)}
    lines = aligned([head, *rows], numeric)
    return printable("\n".join([_title(signature), "", *lines, "", *_footer(signature)]))


def as_html(signature: Signature) -> str:
    """Return a signature as an HTML table, for notebooks."""
    head, metrics = _head(signature)
    cells = "".join(f"<th scope='col'>{html.escape(name)}</th>" for name in head)
    rows = ""
    for site in signature.sites:
        cells_of_site = _row(site, head, metrics, counts=signature.counts(site))
        row = [html.escape(text) for text in cells_of_site]
        value = _drawn(site)
        row[head.index("")] = _html_bar(value) if math.isfinite(value) else NO_SCORE
        rows += f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>"
    foot = "<br>".join(html.escape(line) for line in _footer(signature))
    return printable(
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
    shown = {
        "score": signature.options.published,
        "std": signature.batches > 1 and not signature.options.population,
        "population": signature.options.population,
    }
    columns = [name for name, is_shown in shown.items() if is_shown]
    return ["site", "activation", "dim", *columns, "", *metrics], metrics


def _row(site: Site, head: list[str], metrics: list[str], *, counts: bool) -> list[str]:
    """Return the cells of a site, that of the bar empty; it `counts` in statistics or does not."""
    cells = {
        "score": _number(site.score),
        "std": _number(site.std),
        "population": _with_error(site),
        "": "",
    }
    values = [f"{site.metrics.get(name, math.nan):.4g}" for name in metrics]
    columns = head[3 : len(head) - len(metrics)]
    front = [site.name, _activation(site, counts=counts), str(site.dim or "–")]
    return [*front, *(cells[name] for name in columns), *values]


def _activation(site: Site, *, counts: bool) -> str:
    """Return the kind of a site with its role, unless the kind says it."""
    if not site.role or site.role == UNIT:
        return site.kind
    return f"{site.kind} ({site.role}{'' if counts else ', left out'})"


def _drawn(site: Site) -> float:
    """Return the score that the bar shows."""
    return site.score if math.isfinite(site.score) else site.population


def half_width(site: Site) -> float:
    """Return half the width of the interval of a population score, which may end at 1."""
    return max(site.high - site.population, site.population - site.low)


def _with_error(site: Site) -> str:
    """Return a population score with half the width of its interval."""
    half = half_width(site)
    return _number(site.population) + (f" ± {half:.4f}" if math.isfinite(half) else "")


def _title(signature: Signature) -> str:
    calls = _counted(len(signature), "activation call")
    batches = f"{signature.batches} batch{'es' * (signature.batches != 1)}"
    data = f"{_counted(signature.samples, 'sample')} in {batches}"
    estimator = signature.options.covariance if signature.options.published else "population"
    return f"Signature of {signature.name}: {calls}, {data}, {estimator}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def _footer(signature: Signature) -> list[str]:
    coverage, lines = signature.coverage, []
    if coverage.scored:
        # without any published score, as for batches of one sample
        by: ScoreKind | None = None
        if signature.options.population and all(math.isnan(site.score) for site in signature.sites):
            by = "population"
        summary = {
            name: value for name, value in signature.summary(by).items() if math.isfinite(value)
        }
        if summary:  # not so where all sites are gates that do not count
            listed = ", ".join(f"{name} {value:.3f}" for name, value in summary.items())
            lines.append(f"Score 1 is affine, lower is more non-linear: {listed}.")
    if left_out := len(signature) - len(signature.counted):
        gates = _counted(left_out, "gate")
        lines.append(f"{gates} left out of statistics and comparisons (gates='out').")
    lines.append(f"{coverage}.")
    missing = Counter(line for site in signature.sites for line in _missing(site, signature))
    lines += [
        f"No {name} at {_counted(n, 'site')}: {reason}." for (name, reason), n in missing.items()
    ]
    lines += _cautions(signature)
    skipped = [
        f"Skipped: {call.path or call.name} ({call.kind}): {call.reason}."
        for call in coverage.skipped
    ]
    lines += [*skipped[:LISTED], *(["…"] if len(skipped) > LISTED else [])]
    if unused := coverage.never_called:
        lines.append(f"Never ran: {', '.join(unused[:LISTED])}{', …' * (len(unused) > LISTED)}.")
    return [*lines, *(f"Note: {note}." for note in coverage.notes)]


def _missing(site: Site, signature: Signature) -> list[tuple[str, str]]:
    """Return what a site lacks of what was measured, and why."""
    options = signature.options
    published = options.published and not math.isfinite(site.score)
    population = options.population and not math.isfinite(site.population)
    if population and (
        not options.published or (published and site.reason == site.population_reason)
    ):
        return [("score", site.population_reason)]
    name = "published score" if options.population else "score"
    return [(name, site.reason)] * published + [
        ("population score", site.population_reason)
    ] * population


def _cautions(signature: Signature) -> list[str]:
    """Return how far the scores can be trusted, where they cannot be taken as they are."""
    sites, lines = signature.sites, []
    settled = [site for site in sites if not site.moved]
    if biased := [site for site in settled if abs(site.bias) > max(half_width(site), SHOWN)]:
        worst = max(biased, key=lambda site: abs(site.bias))
        lines.append(
            "Note: the bias of the published score, which depends on the size of the batches, "
            f"exceeds the half-width at {_some(biased, sites, worst)}: {worst.bias:+.4f})."
        )
    if moved := [site for site in sites if site.moved]:
        worst = max(moved, key=lambda site: site.moved / max(site.tested, 1))
        lines.append(
            "Note: the population score couples each input with its own output, which is not "
            f"optimal at {_some(moved, sites, worst)}: {worst.moved} of {worst.tested} sampled "
            "rows move): a lower bound there."
        )
    return lines


def _some(found: list[Site], sites: Sequence[Site], worst: Site) -> str:
    """Return how many sites these are, and the beginning of what is said of the worst."""
    most = "most at " if len(found) > 1 else ""
    return f"{len(found)} of {_counted(len(sites), 'site')} ({most}{_shortened(worst.name)}"


def _number(value: float) -> str:
    return f"{value:.4f}" if math.isfinite(value) else "–"


def _shortened(text: str, longest: int = LONGEST_PATH) -> str:
    """Return a text with its middle cut out where it is too long."""
    if len(text) <= longest:
        return text
    front = (longest - 1) // 2
    return f"{text[:front]}…{text[-(longest - 1 - front) :]}"
