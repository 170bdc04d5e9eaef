"""The settings and versions behind signatures: what all of them share, and what differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from sigmascope.measure.options import Options
from sigmascope.measure.signature import Signature

__all__ = ["settings_of"]

# A difference in one of these changes what a score means; the others say how it was found.
MEANING = ("covariance", "eps", "degenerate", "pool", "samples", "activations", "mode")


def settings_of(signatures: Sequence[Signature], data: str | None = None) -> dict[str, Any]:
    """Sort the settings into shared and different ones.

    Args:
        signatures: of the networks.
        data: what the data are, in words; the digests of the signatures stay beside it, since they
            tell whether it is so.

    Returns:
        `shared`: pairs of name and text. `columns` and `rows`: the different ones, with a row of
        texts for every network. `mixed`: names of settings that differ and change what a score
        means.
    """
    tables = [_settings(one, data) for one in signatures]
    names = list(dict.fromkeys(name for table in tables for name in table))
    texts = {name: [table.get(name, "–") for table in tables] for name in names}
    different = [name for name in names if len(set(texts[name])) > 1]
    return {
        "shared": [[name, texts[name][0]] for name in names if name not in different],
        "columns": different,
        "rows": [[texts[name][number] for name in different] for number in range(len(tables))],
        "mixed": [name for name in different if name in MEANING],
    }


def _settings(signature: Signature, data: str | None) -> dict[str, str]:
    options = {
        field.name: _text(getattr(signature.options, field.name)) for field in fields(Options)
    }
    named = (
        {"data": signature.data}
        if data is None
        else {"data": data, "digest of the data": signature.data}
    )
    run = (
        {"batches": str(signature.batches), "device": signature.device}
        | named
        | {"model": signature.model}
    )
    return (
        options
        | {f"version of {name}": version for name, version in signature.versions.items()}
        | run
    )


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key or '(network)'}: {item}" for key, item in value.items()) or "none"
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "no limit" if value is None else str(value)
