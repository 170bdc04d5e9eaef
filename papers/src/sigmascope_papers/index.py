"""What became of all items on one page: HTML beside the pictures, and Markdown for the
documentation.

Outcomes may come from files that anybody wrote: every text is escaped, and a picture is a file
beside the page or nothing.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Sequence
from html import escape
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
    "Each item was measured, judged by the rule in its file, and drawn. Its verdict is that "
    "of the worst of the "
    "paper's claims that could be tried; those that begin with ours are not the paper's. "
    "Beside it stands how many claims "
    "have which verdict. A claim holds in direction where its sign is "
    "right, but not beyond what chance, or another seed, often gives. Under Rule stands what "
    "was known when it was written."
)
HEADINGS = ("claim", "expected", "obtained", "verdict")
# Verdict -> class of its badge; a sign tells them apart without colors.
BADGES = dict(
    zip(VERDICTS, (("good", "✓"), ("fair", "≈"), ("bad", "✗"), ("open", "–")), strict=True)
)
STYLE = """
:root { color-scheme: light dark; --page: #fff; --ink: #1b1f24; --muted: #59636e; --rule: #d5dae0; --link: #0b5c9e;
  --good: #0b6b3a; --fair: #7a5200; --bad: #a3222a; --open: #59636e; }
@media (prefers-color-scheme: dark) { :root { --page: #14181d; --ink: #e7ebef; --muted: #a3adb8; --rule: #343c45;
  --link: #7dbcf5; --good: #63d297; --fair: #f0b266; --bad: #ff8f88; --open: #a3adb8; } }
body { margin: 0 auto; max-width: 62rem; padding: 1rem; background: var(--page); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
a { color: var(--link); }
h1 { font-size: 1.6rem; } h2 { font-size: 1.15rem; margin-bottom: 0.3rem; }
article { border-top: 1px solid var(--rule); padding: 0.6rem 0 1rem; }
figure { margin: 0.6rem 0; } figcaption, dl, .note { color: var(--muted); font-size: 0.9rem; }
img { max-width: 100%; height: auto; background: #fff; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.9rem; width: 100%; }
caption { text-align: left; color: var(--muted); }
th, td { text-align: left; vertical-align: top; padding: 0.25rem 0.8rem 0.25rem 0; border-bottom: 1px solid var(--rule); }
th[scope="row"] { font-weight: normal; }
dt { font-weight: 600; float: left; margin-right: 0.4rem; } dt::after { content: ":"; } dd { margin: 0; }
.badge { border: 1px solid currentcolor; border-radius: 1rem; padding: 0 0.6rem; font-size: 0.85rem; font-weight: 600;
  white-space: nowrap; }
.good { color: var(--good); } .fair { color: var(--fair); } .bad { color: var(--bad); } .open { color: var(--open); }
"""


def write_index(outcomes: Sequence[Outcome], out: str | Path) -> Path:
    """Write `index.html` into the folder of the pictures: verdicts at the top, then each item with
    its claims and figures.

    The page has no script and loads nothing but the pictures beside it.

    Args:
        outcomes: to show, in this order.
        out: the folder that `reproduce` wrote their pictures into.

    Returns:
        The path of the page.

    Raises:
        InputError: no outcome; a picture is not in the folder.
    """
    folder = Path(out)
    _check(outcomes, folder)
    hashed = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; img-src 'self' file:; style-src 'sha256-{hashed}'; base-uri "
        "'none'; form-action 'none'"
    )
    page = "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{TITLE}</title>\n<style>{STYLE}</style>\n</head>\n<body>",
            f"<header><h1>{TITLE}</h1>\n<p>{INTRODUCTION}</p>\n<p>{escape(_count(outcomes))}</p></header>",
            _contents(outcomes),
            "<main>",
            *(_article(number, outcome) for number, outcome in enumerate(outcomes)),
            "</main>\n</body>\n</html>\n",
        ]
    )
    target = folder / "index.html"
    write_atomic(target, page.encode("utf-8", errors="replace"))
    return target


def write_gallery(
    outcomes: Sequence[Outcome], path: str | Path, *, pictures: str | Path | None = None
) -> Path:
    """Write the outcomes as Markdown, with the pictures by relative links.

    Args:
        outcomes: to show, in this order.
        path: the file, such as `docs/gallery.md`.
        pictures: the folder with the pictures; by default the one of the file's name,
            `docs/gallery`.

    Returns:
        The path of the file.

    Raises:
        InputError: no outcome; a picture is not in the folder.
    """
    target = Path(path)
    folder = target.with_suffix("") if pictures is None else Path(pictures)
    _check(outcomes, folder)
    link = quote(Path(os.path.relpath(folder, target.parent)).as_posix())
    lines = [
        f"# {TITLE}",
        "",
        INTRODUCTION,
        "",
        _count(outcomes),
        "",
        "| item | shows | verdict |",
        "|---|---|---|",
    ]
    lines += [
        f"| {_plain(one.name)} | {_plain(one.title)} | {_plain(_told(one))} |" for one in outcomes
    ]
    for one in outcomes:
        lines += [
            "",
            f"## {_plain(one.name)}: {_plain(one.title)}",
            "",
            f"**{_plain(_told(one))}**",
            "",
        ]
        lines += [
            f"![{_plain(_alternative(one, name))}]({link}/{quote(name, safe='')}.png)\n"
            for name in one.figures
        ]
        lines += [f"| {' | '.join(HEADINGS)} |", "|---|---|---|---|"]
        lines += [f"| {' | '.join(map(_plain, _cells(check)))} |" for check in one.checks]
        lines += ["", *(f"- {name}: {_plain(text)}." for name, text in _facts(one).items())]
    write_atomic(target, ("\n".join(lines) + "\n").encode("utf-8", errors="replace"))
    return target


def _check(outcomes: Sequence[Outcome], folder: Path) -> None:
    if not outcomes:
        raise InputError("There is no outcome to show. Reproduce at least one item first.")
    for one in outcomes:
        for name in one.figures:
            if Path(name).name != name or not (folder / f"{name}.png").is_file():
                raise InputError(
                    f"{folder} has no picture {name}.png of {one.name}. Reproduce {one.name} "
                    "into that folder."
                )


def _count(outcomes: Sequence[Outcome]) -> str:
    claims = [check.verdict for one in outcomes for check in one.checks]
    items = [one.verdict for one in outcomes]
    return f"{len(claims)} claims: {tally(claims)}. {len(items)} items: {tally(items)}."


def _marked(verdict: str) -> str:
    return f"{BADGES.get(verdict, ('open', '?'))[1]} {verdict}"


def _told(outcome: Outcome) -> str:
    return f"{_marked(outcome.verdict)} ({outcome.tally})"


def _badge(verdict: str) -> str:
    kind, _ = BADGES.get(verdict, ("open", "?"))
    return f'<span class="badge {kind}">{escape(_marked(verdict))}</span>'


def _counted(outcome: Outcome) -> str:
    return f'<span class="note">{escape(outcome.tally)}</span>'


def _cells(check: Check) -> tuple[str, str, str, str]:
    return check.claim, check.expected, check.obtained, _marked(check.verdict)


def _facts(outcome: Outcome) -> dict[str, str]:
    return {**outcome.facts, "Time": f"{outcome.seconds:g} s"}


def _alternative(outcome: Outcome, figure: str) -> str:
    return f"{figure}: {outcome.title}"


def _contents(outcomes: Sequence[Outcome]) -> str:
    rows = [
        f'<li><a href="#item-{number}">{escape(one.name)}</a> {escape(one.title)} '
        f"{_badge(one.verdict)} {_counted(one)}</li>"
        for number, one in enumerate(outcomes)
    ]
    return "\n".join(['<nav aria-label="Items">\n<ul>', *rows, "</ul>\n</nav>"])


def _article(number: int, outcome: Outcome) -> str:
    head = f'<h2 id="item-{number}">{escape(outcome.name)}: {escape(outcome.title)}</h2>\n'
    head += f"<p>{_badge(outcome.verdict)} {_counted(outcome)}</p>"
    facts = "".join(
        f"<dt>{name}</dt><dd>{escape(text)}</dd>" for name, text in _facts(outcome).items()
    )
    figures = [_figure(outcome, name) for name in outcome.figures]
    parts = [head, *figures, _table(outcome), f"<dl>{facts}</dl>"]
    return "\n".join([f'<article aria-labelledby="item-{number}">', *parts, "</article>"])


def _figure(outcome: Outcome, name: str) -> str:
    file = escape(quote(name, safe=""))
    links = (
        f'<a href="{file}.svg">{escape(name)} as SVG</a>, <a href="{file}.csv">its data as CSV</a>'
    )
    return (
        f'<figure><img src="{file}.png" alt="{escape(_alternative(outcome, name))}" loading="lazy">'
        f"<figcaption>{links}</figcaption></figure>"
    )


def _table(outcome: Outcome) -> str:
    head = "".join(f'<th scope="col">{name}</th>' for name in HEADINGS)
    rows = [
        "<tr><th "
        f'scope="row">{escape(check.claim)}</th><td>{escape(check.expected)}</td><td>{escape(check.obtained)}</td>'
        f"<td>{_badge(check.verdict)}</td></tr>"
        for check in outcome.checks
    ]
    caption = f"<caption>Claims of {escape(outcome.name)}</caption>"
    label = f'role="region" aria-label="Claims of {escape(outcome.name)}" tabindex="0"'
    return "\n".join(
        [
            f'<div class="scroll" {label}><table>{caption}<thead><tr>{head}</tr></thead><tbody>',
            *rows,
            "</tbody></table></div>",
        ]
    )


def _plain(text: str) -> str:
    r"""Write a text so that Markdown shows it as it is, on one line.

    >>> print(_plain("a|b <i> *c*"))
    a\|b &lt;i&gt; \*c\*
    """
    line = escape(" ".join(text.split()), quote=False)
    return re.sub(r"([\\`*_\[\]|#~$!])", r"\\\1", line)
