"""What Sphinx and the theme write in a way that axe objects to, mended in the finished pages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

SIGNATURE = re.compile(r'<dt class="sig .*?</dt>', re.DOTALL)
EMPTY_HEAD = re.compile(r'<th class="head[^"]*">\s*(?:<p>\s*</p>)?\s*</th>')
LISTS = (("<dl>", '<div class="sig-parameters">'), ("</dl>", "</div>"))
ITEMS = (("<dd>", "<div>"), ("</dd>", "</div>"))


def mended(body: str) -> str:
    """Return the body of a page with what axe objects to replaced.

    Parameters of a signature are in a list of definitions without terms, and empty cells at the
    head of a table are headings of nothing.
    """

    def without_list(found: re.Match[str]) -> str:
        text = found.group()
        for old, new in (*LISTS, *ITEMS):
            text = text.replace(old, new)
        return text

    return EMPTY_HEAD.sub("<td></td>", SIGNATURE.sub(without_list, body))


def mend(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Mend the body of a page before it is written."""
    if "body" in context:
        context["body"] = mended(context["body"])


def setup(app: Sphinx) -> dict[str, Any]:
    """Mend each page."""
    app.connect("html-page-context", mend)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
