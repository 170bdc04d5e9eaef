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
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from jinja2 import Environment

from sigmascope.errors import InputError
from sigmascope.store.files import write_atomic
from sigmascope_papers.item import UNTESTED, VERDICTS, Check, tally
from sigmascope_papers.reading import Evidence, headlines

if TYPE_CHECKING:
    from sigmascope_papers.run import Outcome

# Verdict -> class of its badge, and a sign that tells them apart without colors.
SIGNS = (("good", "✓"), ("fair", "≈"), ("bad", "✗"), ("open", "–"))
BADGES = dict(zip(VERDICTS, SIGNS, strict=True))
_CODE = re.compile(r"(`[\w ./:=\"-]+`)")  # nothing in it that Markdown or HTML could read
POLICY = "default-src 'none'; img-src 'self' file:; style-src 'sha256-{}'; "
POLICY += "base-uri 'none'; form-action 'none'"


def write_index(outcomes: Sequence[Outcome], out: str | Path) -> Path:
    """Write `index.html` into the directory of the pictures, and return its path.

    The page has no script and loads nothing but the pictures beside it.
    """
    style = _page("index.css")
    hashed = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    told = {"style": style, "policy": POLICY.format(hashed)}
    return _write(outcomes, "index.html", Path(out) / "index.html", Path(out), **told)


def write_gallery(
    outcomes: Sequence[Outcome], path: str | Path, *, pictures: str | Path | None = None
) -> Path:
    """Write the outcomes as Markdown, with the pictures by relative links, and return the path.

    By default the directory of the pictures is named as the file: `docs/gallery`.
    """
    target = Path(path)
    folder = target.with_suffix("") if pictures is None else Path(pictures)
    link = quote(Path(os.path.relpath(folder, target.parent)).as_posix())
    return _write(outcomes, "gallery.md", target, folder, link=link)


def _page(name: str) -> str:
    return (files("sigmascope_papers") / "pages" / name).read_text(encoding="utf-8")


def _write(
    outcomes: Sequence[Outcome], page: str, target: Path, pictures: Path, **told: Any
) -> Path:
    if not outcomes:
        raise InputError("There is no outcome to show. Reproduce at least one item first.")
    for one in outcomes:
        for name in one.figures:
            if Path(name).name != name or not (pictures / f"{name}.png").is_file():
                missing = f"{pictures} has no picture {name}.png of {one.name}."
                raise InputError(f"{missing} Reproduce {one.name} into that directory.")
    layout = {"trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True}
    environment = Environment(autoescape=page.endswith(".html"), **layout)  # type: ignore[arg-type]
    environment.filters |= {"plain": _plain, "file": lambda name: quote(name, safe="")}
    environment.globals |= {"judged": _judged, "cited": _cited}
    environment.globals |= {
        "marked": _marked,
        "counted": _counted,
        "doubted": _doubted,
        "anchor": _anchor,
        "kind": lambda verdict: _badge(verdict)[0],
    }
    title, opening, introduction = _page("introduction.txt").strip().splitlines()
    told |= {"title": title, "opening": opening, "introduction": introduction}
    told |= {"counts": _count(outcomes)}
    told |= {"papers": headlines(outcomes)}
    told |= {"places": {one.name: number for number, one in enumerate(outcomes, 1)}}
    text = environment.from_string(_page(page)).render(outcomes=outcomes, **told)
    write_atomic(target, text.encode("utf-8", errors="replace"))
    return target


def _count(outcomes: Sequence[Outcome]) -> str:
    claims = [check.verdict for one in outcomes for check in one.checks]
    mains = [UNTESTED if one.main is None else one.main.verdict for one in outcomes]
    return f"{len(claims)} claims: {tally(claims)}. {len(mains)} main claims: {tally(mains)}."


def _counted(one: Outcome) -> str:
    """Return what is said of an item, with the sign of the verdict on its main claim."""
    verdict = UNTESTED if one.main is None else one.main.verdict
    doubt = "" if one.main is None else one.doubt(one.main)
    return one.counted.replace(verdict, _doubted(verdict, doubt), 1)


def _judged(one: Outcome, check: Check) -> str:
    """Return the verdict on a claim and, where it does not hold, what is in doubt."""
    return f"{_badge(check.verdict)[1]} {one.judged(check)}"


def _doubted(verdict: str, doubt: str) -> str:
    return _marked(verdict) + (f" (in doubt: {doubt})" if doubt else "")


def _cited(evidence: Sequence[Evidence]) -> str:
    """Return what came out, in Markdown, a line for each claim with a link to its item."""
    rows = [
        f"{_badge(one.check.verdict)[1]} [{_plain(one.item)}](#{_anchor(one.outcome)}): "
        f"{_plain(one.says)}"
        for one in evidence
    ]
    return "<br>".join(rows)


def _anchor(one: Outcome) -> str:
    """Return the anchor that Markdown pages give to the heading of an item."""
    heading = f"{one.name}: {one.title}".lower()
    return re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")


def _badge(verdict: str) -> tuple[str, str]:
    return BADGES.get(verdict, ("open", "?"))


def _marked(verdict: str) -> str:
    return f"{_badge(verdict)[1]} {verdict}"


def _plain(text: str) -> str:
    r"""Escape a text so that Markdown shows it as it is, on one line; only code stays code.

    >>> print(_plain("a|b <i> *c* `python my_file.py`"))
    a\|b &lt;i&gt; \*c\* `python my_file.py`
    """
    line = escape(" ".join(text.split()), quote=False)
    parts = _CODE.split(line)  # what is between code, and code, in turns
    parts[::2] = [re.sub(r"([\\`*_\[\]|#~$!])", r"\\\1", part) for part in parts[::2]]
    return "".join(parts)
