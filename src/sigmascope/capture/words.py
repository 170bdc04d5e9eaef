"""Tables of names, written as text."""

from __future__ import annotations


def words(text: str) -> tuple[str, ...]:
    """Return the words of a text, in order.

    >>> words("relu gelu")
    ('relu', 'gelu')
    """
    return tuple(text.split())
