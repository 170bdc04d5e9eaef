"""Write `docs/gallery.md`: every figure and table with its verdict, and small pictures of them.

    python docs/gallery.py [FOLDER]

FOLDER is what `sigmascope reproduce all -o FOLDER` wrote; without one, everything is reproduced
first.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

from sigmascope_papers.index import write_gallery
from sigmascope_papers.run import outcomes_in

DOCS = Path(__file__).parent
WIDTH, COLORS = 1400, 256


def shrink(source: Path, target: Path) -> None:
    """Copy a picture with fewer pixels and colors: a page shows no more."""
    picture = Image.open(source).convert("RGB")
    picture.thumbnail((WIDTH, 10 * WIDTH), Image.Resampling.LANCZOS)
    picture.quantize(COLORS, dither=Image.Dither.NONE).save(target, optimize=True)


def main(folder: Path) -> None:
    """Write the page and the pictures; those of items that are gone go."""
    outcomes = outcomes_in(folder)
    wanted = {f"{name}.png" for one in outcomes for name in one.figures}
    pictures = DOCS / "gallery"
    pictures.mkdir(exist_ok=True)
    for old in pictures.glob("*.png"):
        if old.name not in wanted:
            old.unlink()
    for name in sorted(wanted):
        shrink(folder / name, pictures / name)
    print(f"Written: {write_gallery(outcomes, DOCS / 'gallery.md')}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as made:
            subprocess.run(
                [sys.executable, "-m", "sigmascope", "reproduce", "all", "-o", made], check=True
            )
            main(Path(made))
