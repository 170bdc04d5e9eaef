"""Pages of the site that lie elsewhere in the repository, and links between all of them.

Benchmark results, the zoo, the changelog and the like are Markdown files outside `docs`. They are
copied into it before a build, into directories that git ignores. Links of Markdown files are those
of the repository, so that they work on a code host; here they become links between pages.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
RESULTS = ROOT / "benchmarks" / "results"
PROJECT = {
    "zoo": "zoo/README.md",
    "penalty": "zoo/penalty/summary.md",
    "linearize": "zoo/linearize/summary.md",
    "lines": "zoo/align/summary.md",
    "measures": "zoo/resi/summary.md",
    "changelog": "CHANGELOG.md",
    "contributing": "CONTRIBUTING.md",
    "security": "SECURITY.md",
    "papers": "papers/README.md",
}
TITLES = {"project/penalty": "Networks trained with a penalty"}  # of files that begin with a table
# No bracket in its words: a half-open interval, "[0, 1)", would reach to the next link or picture.
LINK = re.compile(r"(?<!!)\[([^\[\]]*)\]\(([^)#\s]*)(#[^)\s]*)?\)")
# Doctests in Markdown need an empty line before the end of their block, and readers do not.
PADDED = re.compile(r"(^```python\n.*?\S)\n\s*\n```$", re.DOTALL | re.MULTILINE)
DATED = re.compile(r"\b(20\d\d-\d\d-\d\d); ([^;]{1,80});")


def copies() -> dict[str, Path]:
    """Return the file behind every copied page, by the page's name."""
    found = {f"project/{name}": ROOT / path for name, path in PROJECT.items()}
    found |= {f"benchmarks/{path.stem}": path for path in sorted(RESULTS.glob("*.md"))}
    return {page: path for page, path in found.items() if path.is_file()}


def page_of(target: Path, copied: dict[str, Path]) -> str | None:
    """Return the name of the page that shows a file or directory of the repository."""
    pages = {path: page for page, path in copied.items()}
    pages |= {RESULTS: "benchmarks/index", ROOT / "examples": "examples/index"}
    pages |= {ROOT / "README.md": "index"}
    if target in pages:
        return pages[target]
    if target.parent == ROOT / "examples" and target.suffix == ".py":
        return f"examples/{target.stem}"
    if target.is_relative_to(DOCS) and target.suffix == ".md" and target.is_file():
        return str(target.relative_to(DOCS).with_suffix(""))
    return None


def linked(text: str, page: str, origin: Path, copied: dict[str, Path]) -> str:
    """Return the text of a page with its links to files as links to pages.

    A file of the repository that has no page is named, and not linked.
    """

    def replaced(match: re.Match[str]) -> str:
        words, target, anchor = match.group(1), match.group(2), match.group(3) or ""
        if not target or ":" in target:
            return match.group(0)
        path = Path(os.path.normpath(origin.parent / target))
        other = page_of(path, copied)
        if other is not None:
            suffix = "rst" if other.startswith("examples/") else "md"
            relative = os.path.relpath(f"{other}.{suffix}", Path(page).parent)
            return f"[{words}]({relative}{anchor})"
        if path.is_relative_to(ROOT) and path.exists():
            name = str(path.relative_to(ROOT))
            return words if name in words else f"{words} (`{name}`)"
        return match.group(0)  # which the build complains about

    return PADDED.sub(r"\1\n```", LINK.sub(replaced, text))


def titled(page: str, text: str) -> str:
    """Return the text of a page, with a title where it has none."""
    return text if text.startswith("# ") else f"# {TITLES[page]}\n\n{text}"


def table_of_results(copied: dict[str, Path]) -> str:
    """Return the page that lists the benchmarks, with their dates and machines."""
    intro = (Path(__file__).parent / "benchmarks.md").read_text(encoding="utf-8")
    rows, pages = ["| what was measured | date | machine |", "|---|---|---|"], []
    for page, path in copied.items():
        if not page.startswith("benchmarks/"):
            continue
        text = path.read_text(encoding="utf-8")
        title = text.partition("\n")[0].lstrip("# ")
        dates = sorted(set(DATED.findall(text)))
        when = ", ".join(sorted({date for date, _ in dates}))
        where = "; ".join(sorted({" ".join(machine.split()) for _, machine in dates}))
        name = page.removeprefix("benchmarks/")
        when = when.replace("-", "\N{NON-BREAKING HYPHEN}") or "in the text"
        rows.append(f"| [{title}]({name}.md) | {when} | {where} |")
        pages.append(name)
    toctree = "\n".join(["```{toctree}", ":hidden:", "", *pages, "```"])
    return "\n".join([intro, *rows, "", toctree, ""])


def project_page() -> str:
    """Return the page that leads to the files of the project."""
    names = [name for name in PROJECT if f"project/{name}" in copies()]
    return "\n".join(["# Project", "", "```{toctree}", *names, "```", ""])


def write_pages() -> None:
    """Write all copied pages below `docs`; a file that has not changed is left alone."""
    copied = copies()
    texts = {
        page: linked(titled(page, path.read_text(encoding="utf-8")), page, path, copied)
        for page, path in copied.items()
    }
    texts |= {"benchmarks/index": table_of_results(copied), "project/index": project_page()}
    for folder in ("benchmarks", "project"):
        for old in (DOCS / folder).glob("*.md"):
            if f"{folder}/{old.stem}" not in texts:
                old.unlink()
    for page, text in texts.items():
        path = DOCS / f"{page}.md"
        path.parent.mkdir(exist_ok=True)
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def link_pages(app: Sphinx, page: str, source: list[str]) -> None:
    """Rewrite the links of the Markdown pages that lie in `docs` themselves."""
    path = DOCS / f"{page}.md"
    if path.is_file() and page not in copies():
        source[0] = linked(source[0], page, path, copies())


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the pages, and have links rewritten."""
    write_pages()
    app.connect("source-read", link_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
