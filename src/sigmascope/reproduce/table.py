"""The names of all items, with what they show; their files are imported when they are run."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from sigmascope.errors import check_option
from sigmascope.reproduce.item import Item

__all__ = ["ITEMS", "check_names", "item"]

ITEMS: dict[str, str] = {
    "fig2a": "one ReLU, by the range of its inputs",
    "fig2b": "ReLU, Tanh and Sigmoid on inputs of one law",
    "fig2c": "polynomials, by their degree",
    "fig3": "the two parts of the score of ReLU, in closed form",
    "fig4a": "random networks as images, by the scale of their weights",
    "fig4b": "the same with slightly shifted weights",
    "fig7": "networks with and without residual connections",
    "fig8": "nine activation functions, by the range of their inputs",
    "fig9": "the score by pooling, and by the number of channels with and without shrinkage",
}
"""Name, which is that of the file, -> what it shows."""


def check_names(names: Sequence[str]) -> list[str]:
    """Return the names, each once.

    Raises:
        OptionError: there is no such item; the names are listed.
    """
    for name in names:
        check_option("name", name, ITEMS)
    return list(dict.fromkeys(names))


def item(name: str) -> Item:
    """Return an item by name.

    Raises:
        OptionError: there is none; the names are listed.
    """
    check_names([name])
    found: Item = importlib.import_module(f"sigmascope.reproduce.{name.replace('-', '_')}").ITEM
    return found
