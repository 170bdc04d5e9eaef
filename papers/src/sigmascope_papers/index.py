"""The outcomes of all items on one page: HTML beside the pictures, and Markdown.

Outcomes may come from any file: every text is escaped, and a picture is a file beside the page.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from sigmascope.errors import InputError
from sigmascope.store.files import write_atomic
from sigmascope_papers.item import VERDICTS, Check, tally

if TYPE_CHECKING:
    from sigmascope_papers.run import Outcome

__all__ = ["write_gallery", "write_index"]

TITLE = "Figures and tables, reproduced"
INTRODUCTION = (
    "Each item was measured, judged by a rule fixed beforehand, and drawn. Beside it are counts of "
    "its claims by verdict, then the verdict on the whole: the worst one on a testable claim of the "
    "paper. Claims that begin with ours are not the paper's. A claim weakly holds if its sign is "
    "right, but not beyond what chance, or another seed, often gives. Rule says what was known when "
    "the rule was written."
)
HEADINGS = ("claim", "expected", "obtained", "verdict")
# Verdict -> class of its badge; a sign tells them apart without colors.
SIGNS = (("good", "✓"), ("fair", "≈"), ("bad", "✗"), ("open", "–"))
BADGES = dict(zip(VERDICTS, SIGNS, strict=True))
HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header><h1>{title}</h1>
<p>{introduction}</p>
<p>{counts}</p></header>"""
POLICY = "default-src 'none'; img-src 'self' file:; style-src 'sha256-{}'; "
POLICY += "base-uri 'none'; form-action 'none'"
FIGURE = """<figure><img src="{file}.png" alt="{alt}" loading="lazy"><figcaption>\
<a href="{file}.svg">{name} as SVG</a>, <a href="{file}.csv">its data as CSV</a>\
</figcaption></figure>"""


def write_index(outcomes: Sequence[Outcome], out: str | Path) -> Path:
    """Write `index.html` into the directory of the pictures, and return its path.

    The page has no script and loads nothing but the pictures beside it.

    Args:
        outcomes: to show, in this order.
        out: the directory that `reproduce` wrote their pictures into.

    Raises:
        InputError: no outcome; a picture is not in the directory.
    """
    folder = Path(out)
    _check(outcomes, folder)
    style = (files("sigmascope_papers") / "index.css").read_text(encoding="utf-8")
    hashed = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    told = {"title": TITLE, "introduction": INTRODUCTION, "counts": escape(_count(outcomes))}
    head = HEAD.format(policy=escape(POLICY.format(hashed)), style=style, **told)
    articles = [_article(number, outcome) for number, outcome in enumerate(outcomes)]
    end = "</main>\n</body>\n</html>\n"
    page = "\n".join([head, _contents(outcomes), "<main>", *articles, end])
    write_atomic(folder / "index.html", page.encode("utf-8", errors="replace"))
    return folder / "index.html"


def write_gallery(
    outcomes: Sequence[Outcome], path: str | Path, *, pictures: str | Path | None = None
) -> Path:
    """Write the outcomes as Markdown, with the pictures by relative links, and return the path.

    Args:
        outcomes: to show, in this order.
        path: the file, such as `docs/gallery.md`.
        pictures: the directory of the pictures; by default named as the file, `docs/gallery`.

    Raises:
        InputError: no outcome; a picture is not in the directory.
    """
    target = Path(path)
    folder = target.with_suffix("") if pictures is None else Path(pictures)
    _check(outcomes, folder)
    link = quote(Path(os.path.relpath(folder, target.parent)).as_posix())
    lines = [f"# {TITLE}", "", INTRODUCTION, "", _count(outcomes), ""]
    lines += ["| item | shows | claims |", "|---|---|---|"]
    lines += [f"| {_row(one.name, one.title, _told(one))} |" for one in outcomes]
    for one in outcomes:
        lines += ["", f"## {_plain(one.name)}: {_plain(one.title)}", ""]
        lines += [f"**{_plain(_told(one))}**", ""]
        for name in one.figures:
            alternative = _plain(f"{name}: {one.title}")
            lines.append(f"![{alternative}]({link}/{quote(name, safe='')}.png)\n")
        lines += [f"| {' | '.join(HEADINGS)} |", "|---|---|---|---|"]
        lines += [f"| {_row(*_cells(check))} |" for check in one.checks]
        lines += ["", *(f"- {name}: {_plain(text)}." for name, text in _facts(one).items())]
    write_atomic(target, ("\n".join(lines) + "\n").encode("utf-8", errors="replace"))
    return target


def _check(outcomes: Sequence[Outcome], folder: Path) -> None:
    if not outcomes:
        raise InputError("There is no outcome to show. Reproduce at least one item first.")
    for one in outcomes:
        for name in one.figures:
            if Path(name).name != name or not (folder / f"{name}.png").is_file():
                missing = f"{folder} has no picture {name}.png of {one.name}."
                raise InputError(f"{missing} Reproduce {one.name} into that directory.")


def _count(outcomes: Sequence[Outcome]) -> str:
    claims = [check.verdict for one in outcomes for check in one.checks]
    items = [one.verdict for one in outcomes]
    return f"{len(claims)} claims: {tally(claims)}. {len(items)} items: {tally(items)}."


def _marked(verdict: str) -> str:
    return f"{BADGES.get(verdict, ('open', '?'))[1]} {verdict}"


def _told(outcome: Outcome) -> str:
    return f"{outcome.tally}; on the whole {_marked(outcome.verdict)}"


def _badge(verdict: str) -> str:
    kind, _ = BADGES.get(verdict, ("open", "?"))
    return f'<span class="badge {kind}">{escape(_marked(verdict))}</span>'


def _counted(outcome: Outcome) -> str:
    return f'<span class="note">{escape(outcome.tally)}</span> {_badge(outcome.verdict)}'


def _cells(check: Check) -> tuple[str, str, str, str]:
    return check.claim, check.expected, check.obtained, _marked(check.verdict)


def _facts(outcome: Outcome) -> dict[str, str]:
    return {**outcome.facts, "Time": f"{outcome.seconds:g} s"}


def _contents(outcomes: Sequence[Outcome]) -> str:
    rows = [
        f'<li><a href="#item-{number}">{escape(one.name)}</a> {escape(one.title)} '
        f"{_counted(one)}</li>"
        for number, one in enumerate(outcomes)
    ]
    return "\n".join(['<nav aria-label="Items">\n<ul>', *rows, "</ul>\n</nav>"])


def _article(number: int, outcome: Outcome) -> str:
    name, title = escape(outcome.name), escape(outcome.title)
    parts = [f'<h2 id="item-{number}">{name}: {title}</h2>\n<p>{_counted(outcome)}</p>']
    for figure in outcome.figures:
        told = {"name": escape(figure), "alt": escape(f"{figure}: {outcome.title}")}
        parts.append(FIGURE.format(file=escape(quote(figure, safe="")), **told))
    facts = [f"<dt>{key}</dt><dd>{escape(text)}</dd>" for key, text in _facts(outcome).items()]
    parts += [_table(outcome), f"<dl>{''.join(facts)}</dl>"]
    return "\n".join([f'<article aria-labelledby="item-{number}">', *parts, "</article>"])


def _table(outcome: Outcome) -> str:
    head = "".join(f'<th scope="col">{name}</th>' for name in HEADINGS)
    rows = []
    for check in outcome.checks:
        claim, *cells, _ = map(escape, _cells(check))
        plain = "".join(f"<td>{cell}</td>" for cell in cells)
        rows.append(f'<tr><th scope="row">{claim}</th>{plain}<td>{_badge(check.verdict)}</td></tr>')
    name = f"Claims of {escape(outcome.name)}"
    region = f'<div class="scroll" role="region" aria-label="{name}" tabindex="0">'
    table = f"<table><caption>{name}</caption><thead><tr>{head}</tr></thead><tbody>"
    return "\n".join([region + table, *rows, "</tbody></table></div>"])


def _row(*texts: str) -> str:
    return " | ".join(map(_plain, texts))


def _plain(text: str) -> str:
    r"""Escape a text so that Markdown shows it as it is, on one line.

    >>> print(_plain("a|b <i> *c*"))
    a\|b &lt;i&gt; \*c\*
    """
    line = escape(" ".join(text.split()), quote=False)
    return re.sub(r"([\\`*_\[\]|#~$!])", r"\\\1", line)
