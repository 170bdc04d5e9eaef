"""Feature maps that can be read repeatedly: from tensors, or from a network that runs again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sigmascope.capture.guard import preserve_state, unwrapped
from sigmascope.capture.observer import Call, Finish
from sigmascope.capture.pooling import Pooling
from sigmascope.capture.pools import UnreadableError
from sigmascope.capture.recording import recording
from sigmascope.checks import check_choice
from sigmascope.choices import Side
from sigmascope.errors import InputError, InputTypeError, NoActivationError
from sigmascope.measure.batches import (
    Forward,
    batches_of,
    fingerprint_of_batch,
    inputs_of,
    run_forward,
    to_model,
)

BATCH = 256


@dataclass(frozen=True, eq=False)
class Features:
    """Feature maps that can be read several times.

    Attributes:
        name: of the features.
        batches: returns a new iterator over tensors (n, c, h, w).

    >>> import torch
    >>> maps = torch.rand(6, 4, 8, 8)
    >>> features = Features("mine", lambda: iter(maps.split(2)))
    >>> [len(batch) for batch in features.batches()], [len(batch) for batch in features.batches()]
    ([2, 2, 2], [2, 2, 2])
    """

    name: str
    batches: Callable[[], Iterator[Tensor]] = field(repr=False)

    def __iter__(self) -> Iterator[Tensor]:
        return map(_as_maps, self.batches())


def as_features(features: object) -> Features:
    """Return feature maps, from themselves, a tensor (n, c, h, w), or a list of such batches."""
    if isinstance(features, Features):
        return features
    if isinstance(features, (Tensor, np.ndarray)):
        whole = _as_maps(features)
        return Features("features", lambda: iter(torch.split(whole, BATCH)))
    is_text = isinstance(features, (str, bytes))
    if is_text or not isinstance(features, Iterable) or iter(features) is features:
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
    network, source = unwrapped(model), batches_of(batches)
    if iter(source) is source:
        raise InputTypeError(
            "batches can be read only once, but features are read twice. Pass a list or DataLoader."
        )
    kept: list[Tensor] = []
    prints: list[str] = []

    def read() -> Iterator[Tensor]:
        if kept:
            yield from kept
            return
        room, held = keep, list[Tensor]()
        for number, item in enumerate(source):
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
            maps = _Capture(network, site, side).run(item, forward or run_forward)
            room -= maps.nbytes
            if room >= 0:
                held.append(maps)
            yield maps
        if room >= 0:
            kept.extend(held)

    return Features(site if side == "output" else f"{site} ({side})", read)


class _Capture:
    """Runs a network on one batch and captures the features of one site."""

    def __init__(self, network: nn.Module, site: str, side: str) -> None:
        self._network, self._site, self._side = network, site, side
        self._calls: list[str] = []
        self._of_call: Tensor | None = None
        self._of_module: Tensor | None = None
        self._reason = ""

    def run(self, item: object, forward: Forward) -> Tensor:
        """Return the features (n, c, h, w) of a batch."""
        batch = to_model(item, self._network, batch_axis=0)
        size = batch.size
        if not size:
            raise InputError(
                "the batch size is unknown. Yield tensors, tuples or dicts of tensors."
            )
        self._pooling = Pooling("channels", "batch", {}, 0, size=size, masks={})
        named = dict(self._network.named_modules()).get(self._site)
        watched = nn.Module() if named is None or self._side == "input" else named
        with (
            preserve_state(self._network, mode="eval"),
            recording(self._network, self._observe) as recorder,
            watched.register_forward_hook(self._take_output),
        ):
            recorder.stop()
            with recorder.forward_pass(inputs_of(batch.content), batch_axis=0, size=size):
                forward(self._network, batch.content)
        features = self._of_module if self._of_call is None else self._of_call
        if features is None:
            raise NoActivationError(self._missing())
        if len(features) != size:
            raise InputError(
                f"{self._site} has {len(features)} rows for {size} samples. Choose another site."
            )
        return _as_maps(features)

    def _observe(self, call: Call, x: Tensor) -> Finish | None:
        self._calls.append(call.name)
        if self._site not in (call.name, call.former_name):
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
                self._of_call = ordered[:, 0, 0].movedim(-1, 1).clone()

        if self._side == "output":
            return take
        take(x)
        return None

    def _take_output(self, _: nn.Module, __: Any, output: Any) -> None:
        if isinstance(output, Tensor) and output.is_floating_point():
            self._of_module = output.detach().clone()

    def _missing(self) -> str:
        if self._reason:
            return f"features of {self._site} cannot be read: {self._reason}. Choose another site."
        calls = ", ".join(self._calls[:40]) or "none"
        return (
            f"site={self._site!r} has no {self._side} features in this network. Choose from its "
            f"activation calls: {calls}; or the path of a module."
        )


def _as_maps(batch: object) -> Tensor:
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
