"""Layers that are activations by their class, and computed none that could be seen.

A subclass of `nn.ReLU` may compute with NumPy, or by code of its own that calls no torch function.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch import nn

from sigmascope.capture.activations import kind_of_base, kind_of_layer
from sigmascope.capture.call_site import is_chosen
from sigmascope.capture.ending import ending
from sigmascope.capture.guard import plain_path
from sigmascope.capture.layers import remove_hook
from sigmascope.capture.recorder import Recorder
from sigmascope.capture.walk import modules_of


class UnseenLayers:
    """The layers of a pass whose classes derive from those of torch that are activations.

    Attributes:
        ran: path -> name of the class, of those to `compare` with what was seen.
    """

    def __init__(self, network: nn.Module, kinds: Collection[str], sites: Collection[str]) -> None:
        self._network, self._kinds, self._sites = network, kinds, tuple(sites)
        self.ran: dict[str, str] = {}
        self._unseen: list[str] = []

    @contextmanager
    def watching(self, recorder: Recorder) -> Iterator[None]:
        """Remember which of them run inside the context."""

        def before(path: str, module: nn.Module, _: Any) -> None:
            if threading.get_ident() == recorder.thread and not recorder.inside_activation:
                self.ran[path] = type(module).__name__

        with ending() as steps:
            for path, module in self._derived():
                hook = partial(before, path)
                steps.append(partial(remove_hook, module, hook))
                module.register_forward_pre_hook(hook)
            yield

    def _derived(self) -> Iterator[tuple[str, nn.Module]]:
        for path, module in modules_of(self._network):
            kind = kind_of_base(module) if kind_of_layer(module) is None else None
            path = plain_path(path)
            if kind in self._kinds and (
                not self._sites or is_chosen(path, kind or "", self._sites)
            ):
                yield path, module

    def compare(self, called: Collection[str]) -> None:
        """Take the paths of all activations that were seen, also of parts of formulas."""
        self._unseen = [
            f"{path or 'the network'} ({name})"
            for path, name in self.ran.items()
            if not any(_is_inside(one, path) for one in called)
        ]
        self.ran.clear()

    def notes(self) -> list[str]:
        """Return which layers ran without an activation that was seen."""
        if not self._unseen:
            return []
        more = f" and {len(self._unseen) - 1} more" * (len(self._unseen) > 1)
        return [
            f"{self._unseen[0]}{more} ran, and no activation was seen inside, although the class "
            "derives from one; sigmascope.register_activation makes it one itself"
        ]


def _is_inside(path: str, around: str) -> bool:
    return not around or path == around or path.startswith(f"{around}.")
