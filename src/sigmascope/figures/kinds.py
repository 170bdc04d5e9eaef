"""What figures are drawn of, checked before anything is drawn."""

from __future__ import annotations

from collections.abc import Mapping

from sigmascope.errors import InputTypeError

__all__ = ["check_kind", "check_mapping"]


def check_kind(name: str, value: object, kind: type, source: str) -> None:
    """Raise unless an argument is of a kind.

    Args:
        name: of the argument.
        value: its value.
        kind: what it must be.
        source: what gives one.

    Raises:
        InputTypeError: naming the argument, its type and the remedy.

    >>> check_kind("groups", 3, list, "list(groups)")
    Traceback (most recent call last):
    sigmascope.errors.InputTypeError: groups is of type int, not list. Pass the result of list(groups).
    """
    if not isinstance(value, kind):
        raise InputTypeError(
            f"{name} is of type {type(value).__name__}, not {kind.__name__}. Pass the result "
            f"of {source}."
        )


def check_mapping(name: str, value: object, example: str) -> None:
    """Raise unless an argument is a mapping.

    Raises:
        InputTypeError: naming the argument, its type and an example.
    """
    if not isinstance(value, Mapping):
        raise InputTypeError(
            f"{name} is of type {type(value).__name__}, not a mapping. Pass one such as {example}."
        )
