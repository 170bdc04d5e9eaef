"""Read the outcomes back from a gallery that `index.write_gallery` wrote.

So that items can be drawn again one by one: the page keeps the claims of all others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from html import unescape
from pathlib import Path
from urllib.parse import unquote

from sigmascope.errors import FileFormatError
from sigmascope_papers.item import VERDICTS, Check, overall
from sigmascope_papers.run import FULL_ONLY, Outcome
from sigmascope_papers.table import ITEMS, prose

_HEADING = re.compile(r"^## ([a-z0-9-]+): (.*)$", re.MULTILINE)
_PICTURE = re.compile(r"^!\[.*\]\([^)]*?([^/)]+)\.png\)$", re.MULTILINE)
_CELLS = re.compile(r"(?<!\\)\|")
_FACT = re.compile(r"^- (\w+): (.*)\.$", re.MULTILINE)
_TIME = re.compile(r"^- Time: ([\d.e+-]+) s\.$", re.MULTILINE)
_FIELDS = {"Why": "reason"}  # every other heading is the name of its field


def read_gallery(path: str | Path) -> list[Outcome]:
    """Return the outcomes on a page, in its order; writing them again gives the same page.

    Raises:
        FileFormatError: the page has no item, or one without claims or time.
    """
    text = Path(path).read_text(encoding="utf-8")
    found = list(_HEADING.finditer(text))
    if not found:
        raise FileFormatError(f"{path} has no items. Write it anew: python papers/gallery.py")
    ends = [*(one.start() for one in found[1:]), len(text)]
    return [
        _outcome(_raw(one[1]), _raw(one[2]), text[one.end() : end], str(path))
        for one, end in zip(found, ends, strict=True)
    ]


def merged(fresh: Sequence[Outcome], kept: Sequence[Outcome]) -> list[Outcome]:
    """Return the outcomes of all items in their order: fresh ones, and kept ones for the others.

    Kept ones get today's descriptions, since these may have changed without their claims.
    """
    by_name = {one.name: _described(one) for one in kept} | {one.name: one for one in fresh}
    return [by_name[name] for name in ITEMS if name in by_name]


def _described(one: Outcome) -> Outcome:
    if one.name not in ITEMS or one.run:
        return one
    told = prose(one.name)
    fields = ("title", "rule", "reason", *FULL_ONLY)
    return replace(one, **{field: getattr(told, field) for field in fields})


def _outcome(name: str, title: str, body: str, path: str) -> Outcome:
    checks, seconds = tuple(_checks(body)), _TIME.search(body)
    if not checks or seconds is None:
        raise FileFormatError(f"{path} has no claims or no time of {name}. Reproduce {name} again.")
    facts = {head: _raw(told) for head, told in _FACT.findall(body) if head != "Time"}
    fields = {_FIELDS.get(head, head.lower()): told for head, told in facts.items()}
    return Outcome(
        name=name,
        title=title,
        checks=checks,
        verdict=overall(checks),
        figures=tuple(map(unquote, _PICTURE.findall(body))),
        seconds=float(seconds[1]),
        **{**dict.fromkeys(("budget", "exact", "uncertainty"), ""), **fields},
    )


def _checks(body: str) -> Iterator[Check]:
    for line in body.splitlines():
        cells = [_raw(cell.strip()) for cell in _CELLS.split(line)[1:-1]]
        verdict = cells[-1].partition(" (in doubt: ")[0][2:] if len(cells) == 4 else ""
        if verdict in VERDICTS:
            yield Check(cells[0], cells[1], cells[2], verdict)


def _raw(text: str) -> str:
    r"""Return a text as it was before it was escaped for Markdown.

    >>> print(_raw(r"a\|b &lt;i&gt; \*c\*"))
    a|b <i> *c*
    """
    return unescape(re.sub(r"\\(.)", r"\1", text))
