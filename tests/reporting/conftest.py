"""A real browser for the tests of the page, and a page that must keep quiet in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sigmascope.measure.result import Signature
from sigmascope.reporting.page import report

REQUIRED = "SIGMASCOPE_REQUIRE_BROWSER"
NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
AXE = Path(__file__).parent / "vendor" / "axe.min.js"
WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.violations.push(event.violatedDirective);
});
"""


def missing(reason: str) -> Any:
    """Skip, or fail where the browser is asked for."""
    if os.environ.get(REQUIRED):
        pytest.fail(f"{REQUIRED} is set, and {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        missing(f"there is no Chromium: none of {', '.join(NAMES)} is on the path")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=program, args=list(QUIET))
        yield launched
        launched.close()


@dataclass
class Opened:
    """A page in the browser, and all that it said or asked for."""

    page: Any
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def complaints(self) -> list[str]:
        return [*self.messages, *self.requests, *self.page.evaluate("window.violations")]


Open = Callable[..., Any]


@pytest.fixture
def open_file(browser: Any) -> Iterator[Callable[..., Opened]]:
    """Give a function that opens a file in a fresh profile and reports what it said."""
    contexts = []

    def opened(
        path: Path, *, width: int = 1280, height: int = 900, clock: bool = False, **options: Any
    ) -> Opened:
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        if clock:
            context.clock.install()  # so that a test can let time pass
        context.set_default_timeout(120_000)  # against a page that hangs
        context.add_init_script(WATCH)
        found = Opened(context.new_page())
        found.page.on(
            "console", lambda message: found.messages.append(f"{message.type}: {message.text}")
        )
        found.page.on("pageerror", lambda error: found.messages.append(f"error: {error}"))

        def watch(route: Any) -> None:
            if route.request.url.startswith(path.as_uri()):
                route.continue_()
                return
            found.requests.append(route.request.url)
            route.abort()

        found.page.route("**/*", watch)
        found.page.goto(path.as_uri())
        found.page.wait_for_load_state()
        return found

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture
def open_report(open_file: Callable[..., Opened], tmp_path: Path) -> Iterator[Open]:
    """Give a function that writes the report of signatures and opens it; in the end, no page may
    have complained.
    """
    pages = []

    def opened(
        signatures: list[Signature], *, told: dict[str, Any] | None = None, **options: Any
    ) -> Any:
        found = open_file(report(signatures, tmp_path / "report.html", **(told or {})), **options)
        pages.append(found)
        return found.page

    yield opened
    for one in pages:
        assert one.complaints() == []


@pytest.fixture
def axe() -> Callable[[Any], list[str]]:
    """Give a function that asks axe what keeps people from using a page."""
    source = AXE.read_text(encoding="utf-8")

    def asked(page: Any) -> list[str]:
        page.evaluate(source)
        found = page.evaluate(
            "async () => (await axe.run({resultTypes: ['violations']})).violations"
        )
        return [
            f"{one['id']}: {one['nodes'][0]['html'][:200]} {one['nodes'][0]['failureSummary']}"
            for one in found
        ]

    return asked
