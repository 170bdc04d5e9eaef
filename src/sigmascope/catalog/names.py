"""Names are matched exactly; of an unknown one the nearest are named."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from sigmascope.errors import OptionError

__all__ = ["check_known", "guess"]


def guess(name: str, known: Iterable[str], *, before: str = "", most: int = 3) -> str:
    """Return a question with the names that are near, written with what stands before them, or nothing.

    >>> guess("resnt50", ["resnet50", "vgg16"])
    " Did you mean 'resnet50'?"
    """
    near = difflib.get_close_matches(name, list(known), n=most)
    return f" Did you mean {' or '.join(repr(before + one) for one in near)}?" if near else ""


def check_known(name: str, known: Iterable[str], source: str) -> None:
    """Raise unless a library knows a network.

    Raises:
        OptionError: naming the nearest.
    """
    names = list(known)
    if name not in names:
        near = guess(name, names, before=f"{source}/")
        raise OptionError(
            f"{source} has no network {name!r}.{near} `sigmascope list models` prints all names."
        )
