"""One function call of a forward pass, as the rules see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from sigmascope.capture.activations import function_name
from sigmascope.symmetry.wiring.network import UnmovableError, Wiring
from sigmascope.symmetry.wiring.ties import Channels


@dataclass(frozen=True)
class Call:
    """One function call: the wiring so far, the function, where it is called, and its values."""

    wiring: Wiring
    function: Any
    site: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    output: Any = field(repr=False)

    @property
    def name(self) -> str:
        """The name of the function, the same in place or not."""
        return function_name(self.function)

    def argument(self, position: int, name: str, default: Any = None) -> Any:
        """Return an argument, however it was passed."""
        return self.args[position] if len(self.args) > position else self.kwargs.get(name, default)

    @property
    def source(self) -> Any:
        """The tensor that the function is about: its first argument."""
        return self.argument(0, "input")

    @property
    def channels(self) -> Channels:
        """The channels of the source; refused if another argument moves instead."""
        channels = self.wiring.of(self.source)
        if channels is None:
            raise self.refused("its first argument does not move but another one does")
        return channels

    def refused(self, reason: str) -> UnmovableError:
        """Return the error that this call cannot be moved, and why."""
        return UnmovableError(f"{self.site}: {self.name} cannot be moved: {reason}.")

    def because(self, reason: str) -> str:
        """Return a reason together with where it holds."""
        return f"{reason} ({self.site})"

    def restrict(self, channels: Channels, reason: str, *freedoms: int) -> None:
        """Take freedoms away from scales."""
        self.wiring.ties.restrict(channels, self.because(reason), *freedoms)

    def pin(self, channels: Channels, reason: str) -> None:
        """Keep channels as they are."""
        self.wiring.ties.pin(channels, self.because(reason))

    def tie(self, first: Channels, second: Channels, reason: str) -> None:
        """Make two lists of channels move together; refused if their numbers differ."""
        if len(first) != len(second):
            raise self.refused(f"{len(first)} channels meet {len(second)}")
        self.wiring.ties.tie(first, second, self.because(reason))

    def fresh(self, count: int, axis: int) -> Channels:
        """Return new channels, which begin here."""
        channels = self.wiring.ties.fresh(count, axis)
        self.wiring.origins.append((self.site, channels))
        return channels

    def rescaled(self, channels: Channels) -> Channels:
        """Return the same channels with new scales, which begin here."""
        again = self.wiring.ties.rescaled(channels)
        self.wiring.origins.append((self.site, again))
        return again


Rule: TypeAlias = Callable[[Call], "Channels | list[Channels | None] | None"]
"""Returns the channels of the output, of each of several outputs, or None if it is still."""


def if_moving(rule: Rule) -> Rule:
    """Return a rule that skips calls whose first argument is still."""
    return lambda call: None if call.wiring.of(call.source) is None else rule(call)
