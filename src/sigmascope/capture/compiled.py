"""Parts of a network that `torch.compile` compiled; they run eagerly while they are watched."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from torch import nn

from sigmascope.capture.guard import COMPILED, plain_path
from sigmascope.capture.walk import modules_of

NAMED = 3  # how many parts a note names
NOTE = "compiled by torch.compile, but run eagerly while they are watched: {}"


def compiled_notes(network: nn.Module) -> list[str]:
    """Return a note on the modules and functions that are compiled, as far as they can be found.

    >>> compiled_notes(nn.Sequential(nn.ReLU()))
    []
    """
    if "torch._dynamo" not in sys.modules:  # nothing is compiled without it
        return []
    found: dict[str, None] = {}
    for path, module in modules_of(network):
        name = plain_path(path) or type(module).__name__
        if COMPILED in module._modules or module._compiled_call_impl is not None:
            found[name] = None
            continue
        found |= {f"{name}.{function}": None for function in _functions(module)}
    names = [*found][:NAMED] + ["…"] * (len(found) > NAMED)
    return [NOTE.format(", ".join(names))] if found else []


def _functions(module: nn.Module) -> Iterator[str]:
    """Yield the names of compiled functions that a module has, or that its forward refers to."""
    for scope in (vars(module), *(vars(base) for base in type(module).__mro__)):
        yield from (name for name, value in scope.items() if _is_compiled(value))
    forward = getattr(type(module).forward, "_torchdynamo_orig_callable", type(module).forward)
    code, names = getattr(forward, "__code__", None), getattr(forward, "__globals__", {})
    if code is not None:
        yield from (name for name in code.co_names if _is_compiled(names.get(name)))


def _is_compiled(value: object) -> bool:
    return not isinstance(value, nn.Module) and "_torchdynamo_orig_callable" in getattr(
        value, "__dict__", ()
    )
