"""The options of a measurement, checked once and kept with its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from sigmascope.capture.activations import chosen_kinds
from sigmascope.capture.pooling import check_pooling
from sigmascope.checks import check_choice
from sigmascope.errors import InputError
from sigmascope.measure.affinity import Settings
from sigmascope.measure.companions import check_metrics

__all__ = ["MODES", "Options", "checked_options"]

MODES = ("eval", "as-is")


@dataclass(frozen=True)
class Options:
    """What was asked for; see `sigmascope.signature`. A function given as `pool` is kept by its name."""

    covariance: str
    eps: float
    degenerate: str
    pool: str
    samples: str
    metrics: tuple[str, ...]
    compat: bool
    activations: tuple[str, ...]
    channel_axis: dict[str, int]
    batch_axis: int
    max_batches: int | None
    max_tokens: int
    mode: str
    seed: int

    def scoring(self) -> Settings:
        """Return what concerns the score alone."""
        return Settings(self.covariance, self.eps, self.degenerate, "optimal")


def checked_options(given: Mapping[str, Any]) -> Options:
    """Check what the user asked for: a value for every field of `Options`, `pool` a name or a function.

    Raises:
        OptionError, InputError, InputTypeError: naming the option and what it may be.
    """
    pool, activations = given["pool"], given["activations"]
    Settings(given["covariance"], given["eps"], given["degenerate"], "optimal")
    check_pooling(pool, given["samples"], given["channel_axis"], given["max_tokens"])
    check_choice("mode", given["mode"], MODES)
    chosen_kinds(activations)
    _check_count("batch_axis", given["batch_axis"], 0, 8)
    _check_count("seed", given["seed"], 0, 2**63)
    if given["max_batches"] is not None:
        _check_count("max_batches", given["max_batches"], 1, 2**63)
    converted: dict[str, Any] = {
        "eps": float(given["eps"]),
        "pool": pool
        if isinstance(pool, str)
        else f"function {getattr(pool, '__qualname__', type(pool).__name__)}",
        "metrics": check_metrics(given["metrics"]),
        "compat": bool(given["compat"]),
        "activations": (activations,)
        if isinstance(activations, str)
        else tuple(sorted({*activations})),
        "channel_axis": dict(given["channel_axis"]),
    }
    return Options(
        **{field.name: converted.get(field.name, given[field.name]) for field in fields(Options)}
    )


def _check_count(name: str, value: object, low: int, limit: int) -> None:
    if type(value) is not int or not low <= value < limit:
        raise InputError(f"{name}={value!r} is not a whole number of at least {low}.")
