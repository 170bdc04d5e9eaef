"""What the experiment on lines reads, in one small directory: for a machine without the rest."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from align_jobs import FEATURES, files


def gather(data: Path, to: Path, only: Sequence[str], images: int) -> int:
    """Copy weights, and the first images of both splits; return the size in bytes.

    The directory serves as `--data`, and as SIGMASCOPE_ZOO. Networks cannot be trained from it.
    """
    (to / "weights").mkdir(parents=True, exist_ok=True)
    zoo = Path(__file__).resolve().parent
    index = json.loads((zoo / "index.json").read_text())
    chosen = [Path(one) for one in files(only)]
    for path in chosen:
        shutil.copyfile(zoo / "weights" / path.name, to / "weights" / path.name)
    names = {path.stem for path in chosen}
    kept = {name: entry for name, entry in index.items() if name in names}
    (to / "index.json").write_text(json.dumps(kept, indent=1) + "\n")
    for split, count in (("train", FEATURES), ("test", images)):
        for kind in ("images", "labels"):
            whole = np.load(data / f"{split}_{kind}.npy", mmap_mode="r")
            np.save(to / f"{split}_{kind}.npy", np.array(whole[:count]))
    return sum(path.stat().st_size for path in to.rglob("*") if path.is_file())
