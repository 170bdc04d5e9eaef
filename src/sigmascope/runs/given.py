"""Networks and batches that a program hands over, as a request that a directory can hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from sigmascope.errors import InputError, InputTypeError
from sigmascope.measure.digests import digest_of_batch, digest_of_weights
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
        batches: what can be iterated over many times, such as a loader or a list.
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
    asked = request_for(
        [*networks], Selection(f"{GIVEN}:{digest_of_batch(first)}"), options=options
    )
    files = {f"{GIVEN}:{name}": digest_of_weights(one) for name, one in networks.items()}
    return Request(asked.names, GIVEN, asked.data, asked.options, files), Given(networks, batches)
