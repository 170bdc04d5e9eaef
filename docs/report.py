"""Take the picture of the report that the README shows; needs Chromium.

    python docs/report.py          # writes docs/report.png

The page is that of `sigmascope demo`: two embedded networks on 512 embedded images. The picture has
128 colors, so that it stays small.
"""

from __future__ import annotations

import shutil
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from playwright.sync_api import sync_playwright

from sigmascope import report
from sigmascope.demo import demo_signatures

HERE = Path(__file__).parent
NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
QUIET = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run")
SIZE = {"width": 1280, "height": 1430}
VIEW = "#site=0,10"  # with one site opened
LARGEST = 200_000  # bytes


def taken(page: Path) -> bytes:
    """Return the picture of a page in a browser."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(QUIET))
        tab = browser.new_page(viewport=SIZE, color_scheme="light", reduced_motion="reduce")
        tab.goto(page.as_uri() + VIEW)
        tab.locator("#detail svg.plot").first.wait_for()
        tab.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
        picture = tab.screenshot()
        browser.close()
    return picture


def main() -> None:
    """Write the picture."""
    with TemporaryDirectory() as folder:
        path = report(demo_signatures(progress=False), f"{folder}/report.html", data="CIFAR-10")
        picture = Image.open(BytesIO(taken(path))).convert("RGB").quantize(128)
    picture.save(HERE / "report.png", optimize=True)
    size = (HERE / "report.png").stat().st_size
    print(f"docs/report.png: {size:,} bytes")
    if size > LARGEST:
        raise SystemExit(f"More than {LARGEST:,} bytes.")


if __name__ == "__main__":
    main()
