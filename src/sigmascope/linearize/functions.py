"""What tells the functions of a run from others, so that it is not continued with other ones."""

from __future__ import annotations

import hashlib
from types import CodeType


def functions_of(**given: object) -> dict[str, str]:
    """Return name -> what tells a function from others, without None and names of our own.

    That is its name and a digest of its code, without the values around it. Of other objects that
    can be called, it is the class.

    >>> list(functions_of(loss=lambda outputs, labels: outputs.mean(), forward=None, by="r2"))
    ['loss']
    """
    return {
        name: _told(one)
        for name, one in given.items()
        if one is not None and not isinstance(one, str)
    }


def _told(function: object) -> str:
    named = function if hasattr(function, "__qualname__") else type(function)
    name = f"{getattr(named, '__module__', '')}.{getattr(named, '__qualname__', '')}"
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return name
    return f"{name} {hashlib.sha256(_content(code).encode()).hexdigest()[:16]}"


def _content(value: object) -> str:
    """Return a constant or code as text, the same in every process."""
    if isinstance(value, CodeType):
        parts = [value.co_code.hex(), *value.co_names, *map(_content, value.co_consts)]
        return f"code({', '.join(parts)})"
    if isinstance(value, frozenset):
        return f"set({', '.join(sorted(map(_content, value)))})"
    if isinstance(value, tuple):
        return f"({', '.join(map(_content, value))})"
    return repr(value)
