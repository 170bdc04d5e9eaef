"""Data files beside this module: what the paper prints, and how our experiments are set up."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any


def data_of(name: str) -> Any:
    """Return the content of a data file, such as `plans`."""
    file = files("sigmascope_papers") / "symmetry" / f"{name}.json"
    return json.loads(file.read_text(encoding="utf-8"))


PRINTED: dict[str, Any] = data_of("paper")
"""Kind of number -> the paper's, most of them read off its figures; unknown ones are left out."""
