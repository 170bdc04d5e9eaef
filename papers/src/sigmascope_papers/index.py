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
from sigmascope_papers.item import VERDICTS, tally

if TYPE_CHECKING:
    from sigmascope_papers.run import Outcome

# Verdict -> class of its badge, and a sign that tells them apart without colors.
SIGNS = (("good", "✓"), ("fair", "≈"), ("bad", "✗"), ("open", "–"))
BADGES = dict(zip(VERDICTS, SIGNS, strict=True))
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
    environment.globals |= {"marked": _marked, "kind": lambda verdict: _badge(verdict)[0]}
    title, _, introduction = _page("introduction.txt").strip().partition("\n")
    told |= {"title": title, "introduction": introduction, "counts": _count(outcomes)}
    text = environment.from_string(_page(page)).render(outcomes=outcomes, **told)
    write_atomic(target, text.encode("utf-8", errors="replace"))
    return target


def _count(outcomes: Sequence[Outcome]) -> str:
    claims = [check.verdict for one in outcomes for check in one.checks]
    items = [one.verdict for one in outcomes]
    return f"{len(claims)} claims: {tally(claims)}. {len(items)} items: {tally(items)}."


def _badge(verdict: str) -> tuple[str, str]:
    return BADGES.get(verdict, ("open", "?"))


def _marked(verdict: str) -> str:
    return f"{_badge(verdict)[1]} {verdict}"


def _plain(text: str) -> str:
    r"""Escape a text so that Markdown shows it as it is, on one line.

    >>> print(_plain("a|b <i> *c*"))
    a\|b &lt;i&gt; \*c\*
    """
    line = escape(" ".join(text.split()), quote=False)
    return re.sub(r"([\\`*_\[\]|#~$!])", r"\\\1", line)
