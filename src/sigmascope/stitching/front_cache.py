"""Outputs of a frozen front, kept in memory or on disk, so that it runs only once."""

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
from sigmascope.stitching.trainer import Values, buffers_of, set_buffers
from sigmascope.training import evaluation
from sigmascope.training.feed import Feed

# far above rounding, which depends on the batch size, and below what a random layer changes
TOLERANCE = 1e-2


class FrontCache:
    """The outputs of the first half of a front for every training sample.

    They are kept in memory, on the device, or in memory-mapped files in a folder. They are right
    only if the front always returns the same for a sample, see `check_cacheable`. The cache is
    filled when it is first used, or by `fill`, with a call of `advance` after each batch.

    A file is unlinked as soon as it is mapped, so that its space is freed when the mapping ends,
    even if the process is killed. Where a mapped file cannot be removed, as on Windows, `close`
    does it.
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
        """Number of batches that fill the cache."""
        return math.ceil(len(self._feed) / evaluation.BATCH)

    def fill(self) -> None:
        """Run the front on all samples, in evaluation mode, unless that is done."""
        if self._kept:
            return
        if self._parent is not None:
            self._parent.mkdir(parents=True, exist_ok=True)
            self._folder = Path(tempfile.mkdtemp(prefix="front-", dir=self._parent))
        try:
            with preserve_state(self._front, mode="eval"):
                self._run()
        except BaseException:
            self.close()
            raise

    def _run(self) -> None:
        for places, inputs, _ in self._feed.batches(evaluation.BATCH):
            values = self._front(inputs)
            if not self._kept:
                count = len(self._feed)
                self._kept = tuple(self._room(value, count, k) for k, value in enumerate(values))
                self._remove_files()
            for kept, value in zip(self._kept, values, strict=True):
                kept[places.to(kept.device)] = value.to(kept.device)
            self.advance()

    def _room(self, value: Tensor, count: int, number: int) -> Tensor:
        shape = (count, *value.shape[1:])
        if self._folder is None:
            return torch.empty(shape, dtype=value.dtype, device=value.device)
        path, size = self._folder / f"{number}.bin", math.prod(shape)
        return torch.from_file(str(path), shared=True, size=size, dtype=value.dtype).view(shape)

    def __call__(self, places: Tensor) -> Values:
        """Return the outputs for some samples, on the device of their places."""
        self.fill()
        return tuple(kept[places.to(kept.device)].to(places.device) for kept in self._kept)

    def close(self) -> None:
        """Free the outputs."""
        self._kept = ()
        self._remove_files()

    def _remove_files(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def check_cacheable(front: nn.Module, feed: Feed, *, augment: str, mode: str) -> None:
    """Raise an InputError unless a front in this mode always returns the same for a sample."""
    if augment != "none":
        raise InputError(
            f"cache_front needs inputs that never change, got augment={augment!r}. Use 'none'."
        )
    with preserve_state(front, mode="eval"):
        values = front(next(feed.batches(2)).inputs)
    if not all(isinstance(value, Tensor) for value in values):
        raise InputError(
            "cache_front keeps tensors, but something else, such as a size or a tuple, bypasses "
            "the site. Leave cache_front out."
        )
    named = front.named_modules() if mode == "train" else ()
    variable = [name for name, module in named if _depends_on_mode(module)]
    if not variable and _repeats(front, feed, mode):
        return
    if mode == "train" and (variable or _repeats(front, feed, "eval")):
        raise InputError(
            "cache_front needs a front that does not depend on the batch, but "
            f"{variable[0] if variable else 'it'} does in training mode. Pass front_mode='eval', "
            "which freezes its batch norms; the published protocol does not freeze them."
        )
    raise InputError(
        "cache_front needs a front that always returns the same for a sample, but this one draws "
        "random numbers or depends on the batch, even in evaluation mode. Leave cache_front out."
    )


def _depends_on_mode(module: nn.Module) -> bool:
    """Return whether a module differs in training mode; two passes could miss rare dropout."""
    if isinstance(module, nn.MultiheadAttention):
        return bool(module.dropout > 0)
    if isinstance(module, nn.modules.dropout._DropoutNd):
        return module.p > 0
    return isinstance(module, (nn.modules.batchnorm._BatchNorm, nn.RReLU))


def _repeats(front: nn.Module, feed: Feed, mode: str) -> bool:
    """Return whether half a batch in some mode gives what the whole gives in evaluation mode."""
    inputs = next(feed.batches(evaluation.BATCH)).inputs
    half = inputs[: max(2, len(inputs) // 2)]
    buffers = buffers_of(front)
    with preserve_state(front, mode="eval"):
        expected = front(inputs)
        for module in front.modules():
            module.training = mode == "train"
        values = front(half)
    set_buffers(front, buffers)
    return all(_near(one, two[: len(half)]) for one, two in zip(values, expected, strict=True))


def _near(one: Tensor, two: Tensor) -> bool:
    if not one.is_floating_point():
        return torch.equal(one, two)
    return torch.allclose(one, two, rtol=0, atol=TOLERANCE * float(two.abs().max()), equal_nan=True)
