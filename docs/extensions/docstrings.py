"""Docstrings in Google style with Markdown inside, as reStructuredText for Sphinx."""

from __future__ import annotations

import re
from collections.abc import Iterator

MARKED = re.compile(r"(:\w+:`[^`]*`|``[^`]*``|`[^`]*`_)|\$([^$]+)\$|`([^`]+)`")
DISPLAYED = re.compile(r"(\s*)\$\$(.+)\$\$\s*$", re.DOTALL)
KEPT = re.compile(r"(:\w+:`[^`]*`|``[^`]*``)")
EMPHASIS = re.compile(r"(?<![\w*])\*(\w[^*]*\w|\w)\*(?![\w*])")
STARS = re.compile(r"(?<!\\)\*")
KEYWORDS = re.compile(r"^(\s+)\*\*\w+: ")  # such as **options, whose description lists the keywords
KEYWORD = re.compile(r"^((?:[a-z_]\w*)(?:, [a-z_]\w*)*): ")


def rst(text: str) -> str:
    """Return one paragraph of Markdown as reStructuredText: formulas, code and emphasis."""
    displayed = DISPLAYED.match(text)
    if displayed:
        indent, formula = displayed.group(1), " ".join(displayed.group(2).split())
        return f"{indent}.. math::\n\n{indent}   {formula}"
    text = MARKED.sub(_role, text)
    parts = KEPT.split(text)
    for place in range(0, len(parts), 2):
        parts[place] = _prose(parts[place])
    return "".join(parts)


def _role(found: re.Match[str]) -> str:
    """Return a formula or code as a role or literal; what is already one stays."""
    role, formula, code = found.groups()
    if formula is not None:
        return f":math:`{' '.join(formula.split())}`"
    return f"``{code}``" if code is not None else role


def _prose(text: str) -> str:
    """Return text with what is special in reStructuredText escaped, but for emphasis."""
    parts = EMPHASIS.split(text)
    for place in range(0, len(parts), 2):
        parts[place] = STARS.sub(r"\\*", parts[place]).replace("|", r"\|")
        parts[place] = re.sub(r"(?<=\w)_(?=\W|$)", r"\\_", parts[place])
    return "".join(f"*{part}*" if place % 2 else part for place, part in enumerate(parts))


def converted(lines: list[str]) -> list[str]:
    """Return the lines of a docstring; doctests stay as they are."""
    found: list[str] = []
    paragraph: list[str] = []
    doctest = False
    for line in [*_keywords_listed(lines), ""]:
        if line.lstrip().startswith(">>>"):
            doctest = True
        elif not line.strip():
            found += rst("\n".join(paragraph)).split("\n") if paragraph else []
            found.append(line)
            paragraph, doctest = [], False
            continue
        if doctest:
            found += [*paragraph, line]
            paragraph = []
        else:
            paragraph.append(line)
    return found[:-1]


def _keywords_listed(lines: list[str]) -> Iterator[str]:
    """Yield the lines, with the keywords that `**options` stands for as a list.

    Their descriptions are indented below it, each with the name of a keyword in front.
    """
    inside = ""
    for line in lines:
        indent = line[: len(line) - len(line.lstrip())]
        found = KEYWORDS.match(line)
        if found:
            inside = found.group(1) + "    "
            head, rest = line[: found.end()], line[found.end() :]
            if KEYWORD.match(rest):
                yield head + "these:"
                yield ""
                yield inside + _item(rest)
                continue
            yield line
            continue
        if inside and line.strip() and len(indent) < len(inside):
            inside = ""
        if inside and indent == inside and KEYWORD.match(line.lstrip()):
            yield ""
            yield inside + _item(line.lstrip())
        elif inside and line.strip() and len(indent) >= len(inside):
            yield inside + "  " + line.lstrip()
        else:
            yield line


def _item(text: str) -> str:
    """Return a line that begins with the names of keywords as an item of a list."""
    return KEYWORD.sub(lambda found: f"- `{found.group(1)}`: ", text)
