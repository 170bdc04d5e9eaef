"""The settings and versions behind signatures: those that all share, and those that differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from sigmascope.maths.covariance import RELATIVE_EPS
from sigmascope.measure.options import Options
from sigmascope.measure.result import Signature

# A difference in one of these changes what a score means; the others say how it was computed.
MEANING = ("covariance", "eps", "degenerate", "pool", "samples", "activations", "mode")


def settings_of(signatures: Sequence[Signature], data: str | None = None) -> dict[str, Any]:
    """Return the settings in two groups, shared and different.

    Args:
        signatures: one per network.
        data: name of the data; the digests of the signatures are kept beside it, since they tell
            whether the data really are the same.

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
    settings = {one.name: _text(getattr(signature.options, one.name)) for one in fields(Options)}
    if signature.options.eps is None:
        settings["eps"] = f"{RELATIVE_EPS:g} of the mean variance"
    settings |= {f"version of {name}": text for name, text in signature.versions.items()}
    settings |= {"batches": str(signature.batches), "device": signature.device}
    settings["data"] = signature.data if data is None else data
    if data is not None:
        settings["digest of the data"] = signature.data
    return settings | {"model": signature.model}


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key or '(network)'}: {item}" for key, item in value.items()) or "none"
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "no limit" if value is None else str(value)
