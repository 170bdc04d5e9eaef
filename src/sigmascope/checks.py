"""Checks of arguments: one function for a choice, a whole number, a share, a seed, a type.

Every message says what was expected, what was given, and what to pass instead.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import takewhile, zip_longest
from numbers import Real
from types import MappingProxyType
from typing import Any, TypeVar

from sigmascope.choices import OLD_VALUES, values_of
from sigmascope.errors import InputError, InputTypeError, OptionError

OLD_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "at": "site",
        "normalise": "normalize",
        "normaliser": "normalizer",
        "regulariser": "regularizer",
    }
)
"""Options of earlier versions and of stored files -> what they are called now."""

LARGEST_SEED = 2**63 - 1  # of torch
LARGEST_NUMPY_SEED = 2**32 - 1
LONGEST_PATH, LONGEST_PART = 4095, 255  # bytes, on all usual file systems

Options = TypeVar("Options")
Function = TypeVar("Function", bound=Callable[..., Any])


def check_choice(name: str, value: object, choices: Any) -> str:
    """Return a value that is one of the choices; an old name for a value becomes its new one.

    Args:
        name: the option, for the message.
        value: what was given.
        choices: a `Literal` type, or an iterable of names.

    >>> check_choice("coupling", "optimal", ["optimal", "paired"])
    'optimal'
    """
    allowed = list(values_of(choices) or choices)
    if isinstance(value, str):
        if value in allowed:
            return value
        if OLD_VALUES.get(value) in allowed:
            return OLD_VALUES[value]
    guess = suggestion(value, allowed) if isinstance(value, str) else ""
    listing = ", ".join(repr(choice) for choice in allowed)
    raise OptionError(f"{name}={value!r:.80} is not a valid choice.{guess} Choose from {listing}.")


def suggestion(value: str, known: Iterable[str], *, most: int = 1, before: str = "") -> str:
    """Return a question with the nearest known names, or an empty text.

    Args:
        value: what was given.
        known: the names to choose from.
        most: how many to suggest at most.
        before: put before each suggested name.

    >>> suggestion("resnet21", ["resnet18", "resnet20", "resnet32"], most=2)
    " Did you mean 'resnet20' or 'resnet18'?"
    """
    near = [repr(before + name) for name in nearest(value, known, most=most)]
    return f" Did you mean {' or '.join(near)}?" * bool(near)


def nearest(value: str, known: Iterable[str], *, most: int) -> list[str]:
    """Return the known names that are most like a value, the nearest first."""
    names = list(dict.fromkeys(known))
    near = difflib.get_close_matches(value, names, n=len(names) or 1)
    return sorted(near, key=lambda name: _remoteness(name, value))[:most]


def _remoteness(name: str, value: str) -> tuple[float, int, int]:
    """Return what sorts names: unlike letters, a short common beginning, numbers far apart."""
    ratio = difflib.SequenceMatcher(None, name, value).ratio()
    numbers = zip_longest(*(map(int, re.findall(r"[0-9]+", text)) for text in (name, value)))
    apart = sum(abs((one or 0) - (other or 0)) for one, other in numbers)
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(name, value, strict=False))
    return -ratio, -len(list(alike)), apart


def check_whole(name: str, value: object, minimum: int = 0, maximum: int | None = None) -> int:
    """Return a whole number within its bounds.

    >>> check_whole("epochs", 3, 1)
    3
    """
    whole = hasattr(value, "__index__") and not isinstance(value, bool)
    number = int(value) if whole else 0  # type: ignore[call-overload]
    if whole and number >= minimum and (maximum is None or number <= maximum):
        return number
    bounds = f">= {minimum}" if maximum is None else f"from {minimum} to {maximum}"
    raise OptionError(f"{name} must be a whole number {bounds}, got {value!r:.80}.")


def check_number(
    name: str, value: object, minimum: float = 0.0, *, below: float = math.inf, strict: bool = False
) -> float:
    """Return a finite number with `minimum <= value < below`, or `minimum < value` if strict.

    >>> check_number("rate", 0.1)
    0.1
    """
    if not isinstance(value, bool) and isinstance(value, Real):
        number = float(value)
        if (number > minimum if strict else number >= minimum) and number < below:
            return number
    lower = f" {'>' if strict else '>='} {minimum:g}" if minimum > -math.inf else " that is finite"
    upper = "" if below == math.inf else f" and < {below:g}"
    raise OptionError(f"{name} must be a number{lower}{upper}, got {value!r:.80}.")


def check_share(name: str, value: object) -> float:
    """Return a number between 0 and 1, both excluded.

    >>> check_share("validation", 0.1)
    0.1
    """
    if isinstance(value, float) and 0 < value < 1:
        return value
    raise OptionError(f"{name} must be a number between 0 and 1, got {value!r:.80}.")


def check_path(name: str, value: object) -> None:
    """Raise an InputError if no file can have this name, whether or not it exists.

    Args:
        name: what to call it in messages.
        value: the path, or a name of the catalog with a path in it.

    >>> check_path("name", "hf/folder")
    """
    try:
        path = os.fsencode(str(value))
    except UnicodeEncodeError:
        raise InputError(f"{name}={str(value)!r:.80} has half a letter. Rename the file.") from None
    if b"\0" in path:
        raise InputError(f"{name}={str(value)!r:.80} has a zero byte, which no file name has.")
    if len(path) > LONGEST_PATH or max(map(len, path.split(b"/"))) > LONGEST_PART:
        raise InputError(
            f"{name}={str(value)!r:.80} is too long: the limit is {LONGEST_PART} bytes for each "
            f"part and {LONGEST_PATH} for all. Use a shorter name."
        )


def check_seed(value: object, largest: int = LARGEST_SEED) -> int:
    """Return a whole number from 0 to 2⁶³ - 1, or to `largest` where NumPy is seeded too."""
    return check_whole("seed", value, 0, largest)


def with_old_names(**new_names: str) -> Callable[[Function], Function]:
    """Return a decorator that accepts keywords of earlier versions: old name -> new name."""

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def call(*values: Any, **given: Any) -> Any:
            renamed = {new: given.pop(old) for old, new in new_names.items() if old in given}
            return function(*values, **given, **renamed)

        return call  # type: ignore[return-value]

    return decorate


def check_kind(name: str, value: object, kind: type, source: str) -> None:
    """Raise unless an argument is of a type.

    Args:
        name: the argument, for the message.
        value: what was given.
        kind: what it must be.
        source: the call that returns one.

    >>> check_kind("x", 3, list, "f()")
    Traceback (most recent call last):
    sigmascope.errors.InputTypeError: x must be of type list, got int. Pass the result of f().
    """
    if not isinstance(value, kind):
        raise InputTypeError(
            f"{name} must be of type {kind.__name__}, got {type(value).__name__}. "
            f"Pass the result of {source}."
        )


def check_mapping(name: str, value: object, example: str) -> None:
    """Raise unless an argument is a mapping."""
    if not isinstance(value, Mapping):
        raise InputTypeError(
            f"{name} must be a mapping such as {example}, got {type(value).__name__}."
        )


def renamed(given: Mapping[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """Return options by their present names.

    Args:
        given: name -> value.
        known: the present names; an old name becomes one of them, unless that is given too.

    >>> renamed({"normalise": 1, "at": 2}, ["normalize"])
    {'normalize': 1, 'at': 2}
    >>> renamed({"at": 1, "site": 2}, ["site"])
    {'at': 1, 'site': 2}
    """
    present = {*known}
    free = present - given.keys()
    names = {old: new for old, new in OLD_NAMES.items() if new in free and old not in present}
    return {names.get(name, name): value for name, value in given.items()}


def options_from(
    kind: type[Options], given: Mapping[str, Any], base: Options | None = None
) -> Options:
    """Return the options object of a call: keywords on top of `base`, or of the defaults.

    Args:
        kind: a frozen dataclass that checks its values.
        given: keywords; old names are accepted.
        base: an options object passed on as a whole.
    """
    names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    options = renamed(given, names)
    for name in options:
        new = OLD_NAMES.get(name)
        if name not in names and new in names and new in options:
            raise OptionError(f"{name} and {new} are two names of one option. Pass {new} only.")
        check_choice("option", name, names)
    if base is None:
        return kind(**options)
    if not isinstance(base, kind):
        raise OptionError(f"options must be a {kind.__name__}, got a {type(base).__name__}.")
    return dataclasses.replace(base, **options)  # type: ignore[type-var]
