"""The names of all items; their modules are imported when they are run."""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from importlib.resources import files

from sigmascope.checks import check_choice
from sigmascope_papers.item import Item
from sigmascope_papers.prose import Prose, prose_of

# Folder -> name of an item -> its module: one of its own, with an `ITEM`, or one of several `ITEMS`
_ROWS = json.loads((files("sigmascope_papers") / "items.json").read_text(encoding="utf-8"))
PAPERS: dict[str, tuple[str, ...]] = {folder: tuple(rows) for folder, rows in _ROWS.items()}
"""Folder -> the names of its items."""
MODULES = {name: f"{folder}.{rows[name]}" for folder, rows in _ROWS.items() for name in rows}
ITEMS: tuple[str, ...] = tuple(MODULES)
"""The names of all items."""
EXPERIMENTS: tuple[str, ...] = tuple(name for name in ITEMS if name.startswith("sym-"))
"""The items that `--smoke` runs in a tiny size."""


def check_names(names: Sequence[str]) -> list[str]:
    """Return the names, each once; an unknown one is an `OptionError` that lists them."""
    for name in names:
        check_choice("name", name, ITEMS)
    return list(dict.fromkeys(names))


def item(name: str) -> Item:
    """Return an item by name; an unknown one is an `OptionError` that lists the names."""
    check_names([name])
    module = importlib.import_module(f"sigmascope_papers.{module_of(name)}")
    found: Item = module.ITEM if module_of(name) == file_of(name) else module.ITEMS[name]
    return found


def prose(name: str) -> Prose:
    """Return the description of an item, from its Markdown file."""
    return prose_of(file_of(name))


def module_of(name: str) -> str:
    """Return the module of an item inside this package, which may hold several."""
    return MODULES[name]


def file_of(name: str) -> str:
    """Return where the Markdown file of an item is: its name without `sym-`, with underscores.

    >>> file_of("fig7"), file_of("sym-fig2"), file_of("beyond-align")
    ('nonlinearity.fig7', 'symmetry.fig2', 'symmetry.beyond_align')
    """
    folder = MODULES[name].partition(".")[0]
    return f"{folder}.{name.removeprefix('sym-').replace('-', '_')}"
