"""The names of all items; their modules are imported when they are run."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from sigmascope.checks import check_choice
from sigmascope_papers.item import Item
from sigmascope_papers.prose import Prose, prose_of

_NONLINEARITY = """
    fig2a fig2b fig2c fig3 fig4a fig4b fig5a fig5b fig5c fig6 fig7 fig8 fig9 fig10 fig11
    fig12 fig13 fig14 fig15 fig16 fig17 fig18 fig19 fig20 table1 table2 table3
    claim-accuracy beyond-axes beyond-covariance beyond-images
"""
_SYMMETRY = """
    sym-fig1 sym-fig2 sym-fig3 sym-fig4 sym-fig5 sym-fig6 sym-fig7 sym-fig8 sym-fig9
    sym-fig10 sym-fig11 sym-fig12 sym-fig13 sym-fig14 sym-fig15 sym-fig16 sym-fig17
    sym-fig18 sym-fig19 sym-table2 sym-table3 sym-table4 sym-orderings sym-capacity
"""
NONLINEARITY, SYMMETRY = tuple(_NONLINEARITY.split()), tuple(_SYMMETRY.split())
PAPERS: dict[str, tuple[str, ...]] = {"nonlinearity": NONLINEARITY, "symmetry": SYMMETRY}
"""Folder -> the names of its items."""
PREFIXES = {"symmetry": "sym-"}
"""Folder -> prefix of the names of its items; both papers have a Figure 2."""
SHARED: dict[str, str] = {
    "nonlinearity.functions": "fig2a fig2b fig2c fig3",
    "nonlinearity.redshift": "fig4a fig4b",
    "nonlinearity.leads": "fig5b fig5c",
    "nonlinearity.accuracy": "fig6 claim-accuracy",
    "nonlinearity.vgg16": "fig10 fig11",
    "nonlinearity.sizes": "fig13 fig14 fig15",
    "nonlinearity.grouping": "fig16 fig17",
    "nonlinearity.trainings": "fig19 fig20 table3",
    "nonlinearity.correlated": "table1 table2",
    "symmetry.similarity_items": """
    sym-fig2 sym-fig5 sym-fig9 sym-fig10 sym-fig11 sym-fig16 sym-table2 sym-table4
    """,
    "symmetry.stitching_items": "sym-fig1 sym-fig6 sym-fig7 sym-fig12",
    "symmetry.leaky": "sym-fig8 sym-table3",
    "symmetry.alphas": "sym-fig13 sym-fig14",
    "symmetry.sparse": "sym-fig15",
    "symmetry.units": "sym-fig3 sym-fig18 sym-fig19",
    "symmetry.rotations": "sym-fig4",
    "symmetry.arithmetic": "sym-fig17 sym-capacity",
}
"""Module -> the items in its table `ITEMS`; any other item is the `ITEM` of a module of its own."""
MODULES = {name: module for module, names in SHARED.items() for name in names.split()}

ITEMS: tuple[str, ...] = NONLINEARITY + SYMMETRY
"""The names of all items."""


def check_names(names: Sequence[str]) -> list[str]:
    """Return the names, each once.

    Raises:
        OptionError: there is no such item; the names are listed.
    """
    for name in names:
        check_choice("name", name, ITEMS)
    return list(dict.fromkeys(names))


def item(name: str) -> Item:
    """Return an item by name.

    Raises:
        OptionError: there is none; the names are listed.
    """
    check_names([name])
    module = importlib.import_module(f"sigmascope_papers.{module_of(name)}")
    found: Item = module.ITEMS[name] if name in MODULES else module.ITEM
    return found


def prose(name: str) -> Prose:
    """Return the description of an item, from its Markdown file."""
    return prose_of(file_of(name))


def module_of(name: str) -> str:
    """Return the module of an item inside this package, which may hold several."""
    return MODULES.get(name, file_of(name))


def file_of(name: str) -> str:
    """Return where the Markdown file of an item is: its name without prefix, with underscores.

    >>> file_of("fig7"), file_of("sym-fig2"), file_of("beyond-axes")
    ('nonlinearity.fig7', 'symmetry.fig2', 'nonlinearity.beyond_axes')
    """
    folder = next(folder for folder, rows in PAPERS.items() if name in rows)
    return f"{folder}.{name.removeprefix(PREFIXES.get(folder, '')).replace('-', '_')}"
