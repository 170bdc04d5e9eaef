"""Feature maps that can be read repeatedly: from tensors, or from a network that runs again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sigmascope.capture.guard import preserve_state, unwrapped
from sigmascope.capture.pooling import Pooling, UnreadableError
from sigmascope.capture.record import Call, Finish, Recorder, recording
from sigmascope.checks import check_choice
from sigmascope.choices import Side
from sigmascope.errors import InputError, InputTypeError, NoActivationError
from sigmascope.measure.batches import (
    Forward,
    batches_of,
    fingerprint_of_batch,
    run_forward,
    tensors_in,
    to_model,
)

__all__ = ["Features", "as_features", "network_features"]

BATCH = 256


@dataclass(frozen=True, eq=False)
class Features:
    """Feature maps that can be read several times.

    Attributes:
        name: of the features.
        batches: returns a new iterator over tensors (n, c, h, w).
    """

    name: str
    batches: Callable[[], Iterator[Tensor]] = field(repr=False)

    def __iter__(self) -> Iterator[Tensor]:
        for batch in self.batches():
            yield _checked(batch)


def as_features(features: object) -> Features:
    """Return feature maps, from themselves, a tensor (n, c, h, w), or a list of such batches.

    Raises:
        InputTypeError: something that can be read only once, or that holds no tensors.
    """
    if isinstance(features, Features):
        return features
    if isinstance(features, (Tensor, np.ndarray)):
        whole = _checked(features)
        return Features("features", lambda: iter(torch.split(whole, BATCH)))
    if isinstance(features, nn.Module):
        raise InputTypeError(
            "features must be maps, got a network. Pass network_features(model, site, batches)."
        )
    if (
        isinstance(features, (str, bytes))
        or not isinstance(features, Iterable)
        or iter(features) is features
    ):
        raise InputTypeError(
            f"features are read twice, got a {type(features).__name__}. Pass a tensor "
            "(n, c, h, w), a list of batches, or network_features(model, site, batches)."
        )
    return Features("features", lambda: iter(features))


def network_features(
    model: nn.Module,
    site: str,
    batches: Any,
    *,
    side: str = "output",
    keep: float = 1e9,
    forward: Forward | None = None,
    max_batches: int | None = None,
) -> Features:
    """Return the features at one site of a network, which runs in evaluation mode.

    Args:
        model: any network; its state is preserved.
        site: an activation call as `sigmascope.signature` names it, or the path of a module, whose
            output is taken.
        batches: as for `sigmascope.signature`, in the same order each time.
        side: "output", or "input" of an activation.
        keep: bytes of features to keep in memory for the next reading; if there are more, the
            network runs again.
        forward: how to run the network on a batch; see `sigmascope.signature`.
        max_batches: the largest number of batches to read.

    Raises:
        NoActivationError: while reading, an unknown site; the message lists the choices.
        InputError: while reading again, data in another order.
        InputTypeError: data that can be read only once.

    >>> net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())
    >>> [tuple(maps.shape) for maps in network_features(net, "1", torch.zeros(5, 3, 8, 8))]
    [(5, 4, 6, 6)]
    """
    check_choice("side", side, Side)
    network = unwrapped(model)
    found = batches_of(batches)
    if iter(found) is found:
        raise InputTypeError(
            "batches can be read only once, but features are read twice. Pass a list or a "
            "DataLoader."
        )
    kept: list[Tensor] = []
    prints: list[str] = []

    def read() -> Iterator[Tensor]:
        if kept:
            yield from kept
            return
        room = keep
        held: list[Tensor] = []
        for number, item in enumerate(found):
            if number == max_batches:
                break
            mark = fingerprint_of_batch(item)
            if number == len(prints):
                prints.append(mark)
            elif prints[number] != mark:
                raise InputError(
                    f"batch {number} differs between readings. Pass data in a fixed order: "
                    "shuffle=False."
                )
            # entered for each batch, so that the state is restored while the caller has it
            with preserve_state(network, mode="eval"), _Watch(network, site, side) as watch:
                maps = watch.run(item, forward or run_forward)
            room -= maps.nbytes
            if room >= 0:
                held.append(maps)
            yield maps
        if room >= 0:
            kept.extend(held)

    return Features(site if side == "output" else f"{site} ({side})", read)


class _Watch:
    """Runs a network and captures the features of one site."""

    def __init__(self, network: nn.Module, site: str, side: str) -> None:
        self._network, self._site, self._side = network, site, side
        self._recorder: Recorder | None = None
        self._pooling: Pooling | None = None
        self._seen: list[str] = []
        self._found: dict[
            str, Tensor
        ] = {}  # of the activation call, and of the module of that name
        self._reason = ""

    def __enter__(self) -> _Watch:
        self._context = recording(self._network, self._observe)
        self._recorder = self._context.__enter__()
        self._recorder.stop()
        modules = dict(self._network.named_modules())
        named = modules.get(self._site) if self._side == "output" else None
        self._handle = None if named is None else named.register_forward_hook(self._caught)
        return self

    def __exit__(self, *problem: Any) -> None:
        if self._handle is not None:
            self._handle.remove()
        self._context.__exit__(*problem)

    def run(self, item: object, forward: Forward) -> Tensor:
        """Return the features (n, c, h, w) of a batch."""
        batch = to_model(item, self._network, batch_axis=0)
        if self._recorder is None or not batch.size:
            raise InputError(
                "the number of samples in a batch is unknown. Yield tensors, tuples or dicts of "
                "tensors."
            )
        self._found, self._seen, self._reason = {}, [], ""
        self._pooling = Pooling(
            "channels",
            "batch",
            {},
            0,
            size=batch.size,
            masks={},
            limit=2,
            generator=torch.Generator(),
        )
        with self._recorder.forward_pass(tensors_in(batch.content), batch_axis=0, size=batch.size):
            forward(self._network, batch.content)
        found = self._found.get("call", self._found.get("module"))
        if found is None:
            raise NoActivationError(self._missing())
        if len(found) != batch.size:
            raise InputError(
                f"{self._site} has {len(found)} rows for {batch.size} samples. Choose another site."
            )
        return _checked(found)

    def _observe(self, call: Call, x: Tensor) -> Finish | None:
        name = (call.path or "(network)") + (f"#{call.number}" if call.number else "")
        self._seen.append(name)
        if name != self._site or self._pooling is None:
            return None
        try:
            axes = self._pooling.axes(call, x)
        except UnreadableError as error:
            self._reason = str(error)
            return None

        def take(features: Tensor) -> None:
            ordered = axes.ordered(features.detach())  # (n, outer, inner, ..., c)
            if ordered.shape[1] * ordered.shape[2] > 1:
                self._reason = "a sample has several rows there"
            else:
                # cloned, since the network may overwrite its own
                self._found["call"] = ordered[:, 0, 0].movedim(-1, 1).clone()

        if self._side == "output":
            return take
        take(x)
        return None

    def _caught(self, _: nn.Module, __: Any, output: Any) -> None:
        if isinstance(output, Tensor) and output.is_floating_point():
            self._found["module"] = output.detach().clone()

    def _missing(self) -> str:
        if self._reason:
            return (
                f"the features of {self._site} cannot be read: {self._reason}. Choose another site."
            )
        seen = ", ".join(self._seen[:40]) or "none"
        return (
            f"site={self._site!r} has no {self._side} features in this network. Choose from its "
            f"activation calls: {seen}; or the path of a module."
        )


def _checked(batch: object) -> Tensor:
    if isinstance(batch, np.ndarray) and batch.dtype.kind == "f":
        batch = torch.from_numpy(np.ascontiguousarray(batch, dtype=batch.dtype.newbyteorder("=")))
    if not isinstance(batch, Tensor) or not batch.is_floating_point():
        raise InputTypeError(
            "features must be floating-point tensors or arrays (n, c, h, w), got "
            f"{getattr(batch, 'dtype', type(batch).__name__)}."
        )
    maps = batch.detach()[:, :, None, None] if batch.ndim == 2 else batch.detach()
    if maps.ndim != 4 or not maps.numel():
        raise InputError(
            f"features must be maps (n, c, h, w), got the shape {tuple(batch.shape)}. Reshape "
            "tokens into rows and columns."
        )
    return maps.float() if maps.dtype.itemsize < 4 else maps
