"""Write `docs/gallery.md`: every figure and table with its verdicts, and small pictures of them.

    python papers/gallery.py [DIR]

DIR is what `sigmascope reproduce all -o DIR` wrote; without it, everything is reproduced first.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

from sigmascope_papers.index import write_gallery
from sigmascope_papers.run import outcomes_in

DOCS = Path(__file__).resolve().parents[1] / "docs"
WIDTH, COLORS = 1400, 256


def main(folder: Path) -> None:
    """Write the page and the pictures, and remove pictures of items that no longer exist."""
    outcomes, pictures = outcomes_in(folder), DOCS / "gallery"
    wanted = {f"{name}.png" for one in outcomes for name in one.figures}
    pictures.mkdir(exist_ok=True)
    for old in pictures.glob("*.png"):
        if old.name not in wanted:
            old.unlink()
    for name in sorted(wanted):
        picture = Image.open(folder / name).convert("RGB")  # a page shows no more than this:
        picture.thumbnail((WIDTH, 10 * WIDTH), Image.Resampling.LANCZOS)
        picture.quantize(COLORS, dither=Image.Dither.NONE).save(pictures / name, optimize=True)
    print(f"Written: {write_gallery(outcomes, DOCS / 'gallery.md')}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        if len(sys.argv) == 1:
            command = [sys.executable, "-m", "sigmascope", "reproduce", "all", "-o", made]
            subprocess.run(command, check=True)
        main(Path(sys.argv[1] if len(sys.argv) > 1 else made))
