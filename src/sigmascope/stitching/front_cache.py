"""Features at the site: sums of products for stitches that are computed, and a store of what a
frozen front puts out.
"""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from sigmascope.capture.guard import preserve_state
from sigmascope.errors import InputError
from sigmascope.stitching.data import Feed, StitchData
from sigmascope.stitching.families import Moments
from sigmascope.stitching.layer import channel_axis
from sigmascope.stitching.seam import Values, buffers_of, put_buffers

__all__ = ["FrontCache", "moments_of"]

BATCH = 500
# far above rounding, which the size of a batch changes, and below what a random layer does
TOLERANCE = 1e-2


@torch.no_grad()
def moments_of(front: nn.Module, back: nn.Module, feed: Feed, style: str) -> Moments:
    """Sum products of the features of two networks, both in evaluation mode, over all samples and
    positions.

    Args:
        front: the first half of the front.
        back: the first half of the back.
        feed: the training data.
        style: where the channels are.
    """
    front.eval()
    back.eval()
    sums: list[Tensor] | None = None
    for _, inputs, _ in feed.batches(BATCH):
        x, y = (_rows(half(inputs)[0], style) for half in (front, back))
        found = [x.T @ x, x.T @ y, y.square().sum(dim=0)]
        sums = (
            found if sums is None else [one.add_(two) for one, two in zip(sums, found, strict=True)]
        )
    if sums is None:
        raise InputError("there are no training data.")
    return Moments(*sums)


def _rows(value: Tensor, style: str) -> Tensor:
    """Return features as (samples and positions, c), float64."""
    return value.double().movedim(channel_axis(tuple(value.shape), style), -1).flatten(0, -2)


class FrontCache:
    """What the front puts out for every training sample, in memory or in files that are mapped into it.

    That is right only if the front does the same for a sample each time: it must be in evaluation
    mode, and the samples must not be augmented.

    It is filled when it is first needed, or by `fill`.

    A file loses its name as soon as it is mapped: its space is given back when the mapping ends,
    also that of a process that is killed. Where a mapped file cannot be removed, as on Windows,
    that is done at the end.

    Args:
        front: the first half of the front.
        feed: all training samples.
        folder: for the files; None keeps everything in memory, on the device.
        advance: called after each batch.
    """

    def __init__(
        self,
        front: nn.Module,
        feed: Feed,
        folder: Path | None,
        advance: Callable[[], None] = lambda: None,
    ) -> None:
        self.advance = advance
        self._front, self._feed, self._parent = front, feed, folder
        self._folder: Path | None = None
        self._kept: Values = ()

    @property
    def steps(self) -> int:
        """How many batches fill it."""
        return math.ceil(len(self._feed) / BATCH)

    def fill(self) -> None:
        """Run the front on all samples, in evaluation mode, unless that is done."""
        if self._kept:
            return
        if self._parent is not None:
            self._parent.mkdir(parents=True, exist_ok=True)
            # two runs may share the folder
            self._folder = Path(tempfile.mkdtemp(prefix="front-", dir=self._parent))
        try:
            with preserve_state(self._front, mode="eval"):
                self._run()
        except BaseException:
            self.close()
            raise

    def _run(self) -> None:
        for numbers, inputs, _ in self._feed.batches(BATCH):
            values = self._front(inputs)
            if not self._kept:
                self._kept = tuple(
                    self._place(value, len(self._feed), k) for k, value in enumerate(values)
                )
                self._remove_files()
            for kept, value in zip(self._kept, values, strict=True):
                kept[numbers.to(kept.device)] = value.to(kept.device)
            self.advance()

    def _place(self, value: Tensor, count: int, number: int) -> Tensor:
        shape = (count, *value.shape[1:])
        if self._folder is None:
            return torch.empty(shape, dtype=value.dtype, device=value.device)
        path = self._folder / f"{number}.bin"
        return torch.from_file(
            str(path), shared=True, size=math.prod(shape), dtype=value.dtype
        ).view(shape)

    def __call__(self, numbers: Tensor) -> Values:
        """Return the values of some samples, copied to where their numbers are."""
        self.fill()
        return tuple(kept[numbers.to(kept.device)].to(numbers.device) for kept in self._kept)

    def close(self) -> None:
        """Forget the values."""
        self._kept = ()
        self._remove_files()

    def _remove_files(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    @staticmethod
    def check(front: nn.Module, feed: Feed, data: StitchData, mode: str) -> None:
        """Raise unless a front always puts out the same for a sample.

        Args:
            front: the first half of the front.
            feed: all training samples.
            data: how they are augmented.
            mode: in which the front is to be, "train" or "eval".

        Raises:
            InputError: it does not; the message says what to change.
        """
        if data.augment != "none":
            raise InputError(
                f"cache_front needs data that do not change, and augment={data.augment!r}. "
                "Use augment='none'."
            )
        if any(not isinstance(value, Tensor) for value in _few(front, feed)):
            raise InputError(
                "cache_front keeps tensors, and something else, such as a size or a tuple, "
                "goes past the site. Leave "
                "cache_front out."
            )
        moody = [
            name
            for name, module in front.named_modules()
            if mode == "train" and _depends_on_mode(module)
        ]
        if not moody and _repeats(front, feed, mode):
            return
        if mode == "train" and (moody or _repeats(front, feed, "eval")):
            raise InputError(
                "cache_front needs a front that does not depend on the batch, and "
                f"{moody[0] if moody else 'it'} does in "
                "training mode. Pass front_mode='eval', which freezes its batch norms; as "
                "published they are not frozen."
            )
        raise InputError(
            "cache_front needs a front that does the same for a sample each time, and this "
            "one does not, even in evaluation "
            "mode: it draws at random or depends on the batch. Leave cache_front out."
        )


def _few(front: nn.Module, feed: Feed) -> Values:
    """Return what a front puts out for two samples."""
    with preserve_state(front, mode="eval"):
        values: Values = front(next(feed.batches(2))[1])
    return values


def _depends_on_mode(module: nn.Module) -> bool:
    """Tell of a module whether it does something else in training mode; two passes may miss a rare
    event, as with dropout.
    """
    if isinstance(module, nn.MultiheadAttention):
        return bool(module.dropout > 0)
    if isinstance(module, nn.modules.dropout._DropoutNd):
        return module.p > 0
    return isinstance(module, (nn.modules.batchnorm._BatchNorm, nn.RReLU))


def _repeats(front: nn.Module, feed: Feed, mode: str) -> bool:
    """Tell whether a front in some mode does the same for the first half of a batch as in
    evaluation mode for all of it.
    """
    _, inputs, _ = next(iter(feed.batches(BATCH)))
    some = inputs[: max(2, len(inputs) // 2)]
    buffers = buffers_of(front)
    with preserve_state(front, mode="eval"):
        expected = front(inputs)
        for module in front.modules():
            module.training = mode == "train"
        found = front(some)
    put_buffers(front, buffers)
    return all(_near(one, two[: len(some)]) for one, two in zip(found, expected, strict=True))


def _near(one: Tensor, two: Tensor) -> bool:
    if not one.is_floating_point():
        return torch.equal(one, two)
    return torch.allclose(one, two, rtol=0, atol=TOLERANCE * float(two.abs().max()), equal_nan=True)
