"""Classes that derive from those of an optional package, made when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def derived(own: type, name: str, bases: tuple[type, ...]) -> type:
    """Return a class of a name with the methods of `own`, which also derives from `bases`.

    It is stored in the module of `own`, where pickle looks for it.
    """
    content = {"__module__": own.__module__, "__qualname__": name, "__doc__": own.__doc__}
    return type(name, (own, *bases), content)


def lazy_class(
    scope: dict[str, Any], own: type, name: str, bases: Callable[[], tuple[type, ...]]
) -> Callable[[str], Any]:
    """Return a `__getattr__` for a module, which makes one class when it is asked for.

    Args:
        scope: the globals of the module.
        own: the class with the methods.
        name: of the class to make.
        bases: imports the package, and returns the classes that it has to derive from.
    """

    def attribute(wanted: str) -> Any:
        if wanted != name:
            raise AttributeError(f"module {scope['__name__']!r} has no attribute {wanted!r}")
        scope[name] = derived(own, name, bases())
        return scope[name]

    return attribute
