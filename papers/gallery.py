"""Write `docs/gallery.md`: every figure and table with its verdicts, and small pictures of them.

    python papers/gallery.py [DIR]

DIR is what `sigmascope reproduce … -o DIR` wrote. Items that are not in it stay as the page has
them, with today's descriptions. Without DIR, everything is reproduced first.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

from sigmascope_papers.index import write_gallery
from sigmascope_papers.page import merged, read_gallery
from sigmascope_papers.run import outcomes_in

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE, PICTURES = DOCS / "gallery.md", DOCS / "gallery"
WIDTH, COLORS = 1400, 256
README = DOCS.parent / "README.md"
TALLY = re.compile(r"^\d+ claims: [^.]+\.\s\d+ main claims: [^.]+\.$", re.MULTILINE)


def with_tally(readme: str, gallery: str) -> str:
    """Return the README with the tally of claims of the gallery, a sentence on each line."""
    [told] = TALLY.findall(gallery)
    found, count = TALLY.subn(told.replace(". ", ".\n"), readme)
    if count != 1:
        raise ValueError("the README has no tally, or several")
    return found


def small(picture: Image.Image) -> Image.Image:
    """Return a picture as wide as a page shows it, with few colors, of which none is far off.

    The usual way chooses frequent colors, and gives a rare marker that of another.
    """
    shown = picture.convert("RGB")
    shown.thumbnail((WIDTH, 10 * WIDTH), Image.Resampling.LANCZOS)
    return shown.quantize(COLORS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)


def main(folder: Path) -> None:
    """Write the page and the new pictures, and remove pictures that no item has any more."""
    fresh = outcomes_in(folder)
    outcomes = merged(fresh, read_gallery(PAGE) if PAGE.is_file() else [])
    PICTURES.mkdir(exist_ok=True)
    wanted = {f"{name}.png" for one in outcomes for name in one.figures}
    for old in PICTURES.glob("*.png"):
        if old.name not in wanted:
            old.unlink()
    for name in sorted(f"{name}.png" for one in fresh for name in one.figures):
        small(Image.open(folder / name)).save(PICTURES / name, optimize=True)
    print(f"Written: {write_gallery(outcomes, PAGE)}, with {len(fresh)} items drawn again")
    tallied = with_tally(README.read_text(encoding="utf-8"), PAGE.read_text(encoding="utf-8"))
    README.write_text(tallied, encoding="utf-8")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        if len(sys.argv) == 1:
            command = [sys.executable, "-m", "sigmascope", "reproduce", "all", "-o", made]
            subprocess.run(command, check=True)
        main(Path(sys.argv[1] if len(sys.argv) > 1 else made))
