"""Stand-ins for packages, and a file that would run code."""

from __future__ import annotations

from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def stub(name: str, **contents: Any) -> ModuleType:
    """A module that is found as if it were installed."""
    module = ModuleType(name)
    module.__spec__ = ModuleSpec(name, None)
    vars(module).update(contents)
    return module


class Code:
    """Leaves a file named `ran` where it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (exec, ("import pathlib; pathlib.Path('ran').touch()",))
