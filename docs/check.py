"""Check a built site: its links and anchors, its hosts, its API, and its pages in a browser.

    python docs/check.py build/docs [--all] [--pictures DIR]

In the browser some pages of each kind, or all, are opened at two widths and in both themes. axe
must find nothing, the console must be silent, nothing may be wider than the window, and no page
may ask another host for anything. Without a Chromium these are skipped, unless
SIGMASCOPE_REQUIRE_BROWSER is set.
"""

from __future__ import annotations

import os
import shutil
import sys
import urllib.parse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
AXE = DOCS.parent / "tests" / "reporting" / "vendor" / "axe.min.js"
BROWSERS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
QUIET = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync")
# One or more pages of each kind.
LOOKED_AT = (
    "index", "start", "guides/index", "guides/signature", "guides/symmetry", "how/score",
    "how/transport", "how/groups", "gallery", "examples/index", "examples/align_two_networks",
    "benchmarks/index", "benchmarks/coverage", "compatibility", "reliability", "api/index",
    "api/scores", "api/symmetry", "api/errors", "project/changelog", "search", "genindex",
)  # fmt: skip
WIDTHS = (1280, 390)
THEMES = ("light", "dark")
LOADED = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src"}


@dataclass
class Page:
    """What a page offers and what it points to."""

    anchors: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)


class Reader(HTMLParser):
    """Collects the anchors and targets of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.page = Page()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what one tag offers or points to."""
        given = {name: value for name, value in attrs if value is not None}
        self.page.anchors += [given["id"]] if "id" in given else []
        self.page.anchors += [given["name"]] if tag == "a" and "name" in given else []
        if tag == "a" and "href" in given:
            self.page.links.append(given["href"])
        if tag in LOADED and LOADED[tag] in given and given.get("rel") not in ("canonical",):
            self.page.loaded.append(given[LOADED[tag]])


def read_pages(site: Path) -> dict[Path, Page]:
    """Return every page of a site."""
    found = {}
    for path in sorted(site.rglob("*.html")):
        if "_static" in path.relative_to(site).parts:
            continue
        reader = Reader()
        reader.feed(path.read_text(encoding="utf-8"))
        found[path] = reader.page
    return found


def elsewhere(target: str) -> bool:
    """Return whether a target is on another host."""
    return bool(urllib.parse.urlsplit(target).netloc)


def broken(pages: dict[Path, Page]) -> Iterator[str]:
    """Yield links to files or anchors that do not exist, and what is loaded from other hosts."""
    for path, page in pages.items():
        for target in page.loaded:
            if elsewhere(target):
                yield f"{path}: loads {target} from another host"
        for target in [*page.links, *page.loaded]:
            parts = urllib.parse.urlsplit(target)
            if parts.scheme or parts.netloc or not (parts.path or parts.fragment):
                continue
            file = path.parent / urllib.parse.unquote(parts.path) if parts.path else path
            file = Path(os.path.normpath(file / "index.html" if file.is_dir() else file))
            anchor = urllib.parse.unquote(parts.fragment)
            if not file.exists():
                yield f"{path}: {target} does not exist"
            elif anchor and file in pages and anchor not in pages[file].anchors:
                yield f"{path}: {target} has no such anchor"


def style_sheets(site: Path) -> Iterator[str]:
    """Yield style sheets that load something from another host."""
    for path in sorted(site.rglob("*.css")):
        text = path.read_text(encoding="utf-8").replace('"', "").replace("'", "")
        if "url(http" in text or "url(//" in text or "@import http" in text:
            yield f"{path}: loads something from another host"


def undescribed(pages: dict[Path, Page]) -> Iterator[str]:
    """Yield public names that are not described exactly once."""
    sys.path.insert(0, str(DOCS / "extensions"))
    from api_pages import entries

    anchors = [anchor for page in pages.values() for anchor in page.anchors]
    for entry in entries():
        count = anchors.count(entry.name)
        if count != 1:
            yield f"{entry.name} is described {count} times in the API"


def gallery(site: Path, examples: Path) -> Iterator[str]:
    """Yield examples without a page, without a picture, or whose thumbnail is a placeholder."""
    for path in sorted(examples.glob("*.py")):
        page = site / "examples" / f"{path.stem}.html"
        if not page.is_file():
            yield f"examples/{path.name} has no page"
        elif f"sphx_glr_{path.stem}_0" not in page.read_text(encoding="utf-8"):
            yield f"examples/{path.name} shows no picture"
        elif not list((site / "_images").glob(f"sphx_glr_{path.stem}_thumb.*")):
            yield f"examples/{path.name} has no thumbnail"


def complaints_of(page: Any, said: list[str], axe: str) -> Iterator[str]:
    """Yield what is wrong with an open page."""
    yield from said
    said.clear()
    page.evaluate(axe)
    script = "async () => (await axe.run({preload: false, resultTypes: ['violations']})).violations"
    for one in page.evaluate(script):
        node = one["nodes"][0]
        count, where, why = len(one["nodes"]), node["html"][:160], node["failureSummary"]
        yield f"axe {one['id']} ({count}): {where} {why}"
    over = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    if over > 0:
        yield f"{over} pixels wider than the window"
    undrawn = page.evaluate(
        "[...document.querySelectorAll('.math')]"
        ".filter(one => !one.querySelector('mjx-container')).length"
    )
    if undrawn:
        yield f"{undrawn} formulas are not drawn"


def in_browser(site: Path, names: Sequence[str], pictures: Path | None) -> Iterator[str]:
    """Yield what is wrong with these pages, at each width and in each theme."""
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        if os.environ.get("SIGMASCOPE_REQUIRE_BROWSER"):
            yield f"there is no Chromium: none of {', '.join(BROWSERS)} is on the path"
        else:
            print("No Chromium: the pages are not opened. Try: apt install chromium")
        return
    axe = AXE.read_text(encoding="utf-8")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(QUIET))
        for theme in THEMES:
            for width in WIDTHS:
                context = browser.new_context(
                    viewport={"width": width, "height": 900}, color_scheme=theme
                )
                context.set_default_timeout(120_000)
                for name in names:
                    yield from _opened(context, site, name, f"{theme}, {width}", axe, pictures)
                context.close()
        browser.close()


def _complained(message: Any, said: list[str]) -> None:
    """Keep what the console says, but for what the theme notes for its own developers."""
    if message.type != "log":
        said.append(f"{message.type}: {message.text}")


def _opened(
    context: Any, site: Path, name: str, setting: str, axe: str, pictures: Path | None
) -> Iterator[str]:
    """Yield what is wrong with one page, in a tab of its own."""
    page, said = context.new_page(), []
    page.on("console", lambda message: _complained(message, said))
    page.on("pageerror", lambda error: said.append(f"error: {error}"))

    def watch(route: Any) -> None:
        if route.request.url.startswith((site.as_uri(), "data:")):
            route.continue_()
            return
        said.append(f"asks for {route.request.url}")
        route.abort()

    page.route("**/*", watch)
    page.goto((site / f"{name}.html").as_uri())
    page.wait_for_load_state()
    page.wait_for_function("!window.MathJax || !!MathJax.startup && !!MathJax.startup.promise")
    page.evaluate("window.MathJax ? MathJax.startup.promise.then(() => true) : true")
    for complaint in complaints_of(page, said, axe):
        yield f"{name} ({setting}): {complaint}"
    if pictures is not None:
        pictures.mkdir(parents=True, exist_ok=True)
        kind = setting.replace(", ", "-")
        page.screenshot(path=str(pictures / f"{name.replace('/', '-')}-{kind}.png"))
    page.close()


def main(site: Path, pictures: Path | None, every: bool) -> int:
    """Print what is wrong, and return the exit code."""
    pages = read_pages(site)
    names = [str(path.relative_to(site).with_suffix("")) for path in pages]
    found = [
        *broken(pages),
        *style_sheets(site),
        *undescribed(pages),
        *gallery(site, DOCS.parent / "examples"),
        *in_browser(site, names if every else LOOKED_AT, pictures),
    ]
    for one in found:
        print(one.replace(f"{site}/", ""))
    links = sum(len(page.links) for page in pages.values())
    print(f"{len(pages)} pages, {links} links, {len(found)} complaints")
    return min(len(found), 1)


if __name__ == "__main__":
    given = sys.argv[1:]
    folder = Path(given[given.index("--pictures") + 1]) if "--pictures" in given else None
    sys.exit(main(Path(given[0]).resolve(), folder, "--all" in given))
