"""Networks and batches that a program hands over, as a request that a directory can hold."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor, nn

from sigmascope.errors import InputError, InputTypeError
from sigmascope.measure.batches import batches_of
from sigmascope.measure.digests import digest_of_batch, digest_of_weights
from sigmascope.measure.subject import digest_of_layers
from sigmascope.runs.request import GIVEN, Request, Selection, request_for


@dataclass(frozen=True)
class Given:
    """Networks by name, and their batches."""

    networks: Mapping[str, nn.Module]
    batches: Any


def given_request(
    networks: Mapping[str, nn.Module], batches: Any, options: Mapping[str, Any] | None
) -> tuple[Request, Given]:
    """Return the request of networks that are handed over, identified by their values.

    Args:
        networks: name -> network.
        batches: what can be iterated over many times, such as a loader or a list. All values of a
            list are part of the request; of a loader, which would have to be read for that, only
            those of the first batch and, where it tells them, its numbers of batches and samples.
        options: those of `sigmascope.signature`.

    Raises:
        InputTypeError, InputError: naming what is wrong.
    """
    for name, network in networks.items():
        if not isinstance(network, nn.Module):
            raise InputTypeError(
                f"{name} must be a torch.nn.Module, got {type(network).__name__}. Pass a dict of "
                "networks, or a list of names of the catalog."
            )
    if isinstance(batches, (str, Selection)) or not hasattr(batches, "__iter__"):
        raise InputTypeError(
            "data must be a loader or a list of batches for networks that are handed over, got "
            f"{type(batches).__name__}."
        )
    if isinstance(batches, Iterator):
        raise InputError(
            "data can be iterated over once only, and every network needs it. Pass a loader or a "
            "list."
        )
    first = next(iter(batches), None)
    if first is None:
        raise InputError("data has no batch. Pass at least one.")
    asked = request_for([*networks], Selection(f"{GIVEN}:{_told(batches, first)}"), options=options)
    files = {f"{GIVEN}:{name}": _identity(one) for name, one in networks.items()}
    return Request(asked.names, GIVEN, asked.data, asked.options, files), Given(networks, batches)


def _told(batches: Any, first: object) -> str:
    """Return what tells batches from others."""
    found = batches_of(batches)
    if isinstance(found, (list, tuple)):
        return digest_of_batch(found)
    sizes = [_length(batches), _length(getattr(batches, "dataset", None))]
    return ":".join([digest_of_batch(first), *(str(size) for size in sizes if size is not None)])


def _length(value: Any) -> int | None:
    try:
        return len(value)
    except (TypeError, NotImplementedError):  # what is endless, or not known in advance
        return None


def _identity(network: nn.Module) -> str:
    """Return what tells a network from others: its layers and the values of its weights."""
    return f"{digest_of_layers(network)[:32]}-{digest_of_weights(network)}"


def told_function(function: Any) -> str:
    """Return what tells a function from others: its name, and a digest of its code and values.

    Its values are its defaults, what it has taken from the function around it, and the globals that
    it names, as far as they are numbers, texts, tensors, tuples of these, or functions. Of other
    objects, such as lists, which may change while it is used, only the type is part of it.

    >>> told_function(lambda x: x + 1) == told_function(lambda x: x + 2)
    False
    >>> def scaled(by):
    ...     return lambda x: x * by
    >>> told_function(scaled(2)) == told_function(scaled(3))
    False
    """
    return _told_function(function, DEEPEST)


DEEPEST = 4  # functions and tuples within each other


def _told_function(function: Any, depth: int) -> str:
    if isinstance(function, functools.partial):
        bound = _told_value((function.args, *sorted(function.keywords.items())), depth)
        return f"partial {_told_function(function.func, depth)} {bound}"
    code = getattr(function, "__code__", None)
    if code is None:  # an object that can be called, or a function written in C
        return str(getattr(function, "__qualname__", type(function).__qualname__))
    plain = [one for one in code.co_consts if isinstance(one, (int, float, str, bytes))]
    known = [one for one in code.co_names if one in function.__globals__]
    values: list[object] = [
        function.__defaults__,
        *sorted((function.__kwdefaults__ or {}).items()),
        *(_content(cell) for cell in function.__closure__ or ()),
        *(function.__globals__[name] for name in known),
    ]
    told = repr((code.co_names, plain, [_told_value(one, depth) for one in values]))
    return (
        f"{function.__qualname__} {hashlib.sha256(code.co_code + told.encode()).hexdigest()[:32]}"
    )


def _told_value(value: object, depth: int) -> str:
    """Return a text that differs where values do; of other objects their type."""
    if value is None or isinstance(value, (int, float, complex, str, bytes)):
        return repr(value)
    if isinstance(value, (Tensor, np.ndarray)):
        return digest_of_batch(value)
    if depth and isinstance(value, tuple):
        return f"[{', '.join(_told_value(one, depth - 1) for one in value)}]"
    if depth and hasattr(value, "__code__"):
        return _told_function(value, depth - 1)
    return type(value).__qualname__


def _content(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None
