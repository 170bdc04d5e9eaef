"""Features at the site: sums of products for stitches that are computed, and a store of what a frozen front puts out."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from sigmascope.errors import InputError
from sigmascope.stitching.data import Feed, StitchData
from sigmascope.stitching.families import Moments
from sigmascope.stitching.layer import channel_axis
from sigmascope.stitching.seam import Values

__all__ = ["FrontCache", "moments_of"]

BATCH = 500


@torch.no_grad()
def moments_of(front: nn.Module, back: nn.Module, feed: Feed, style: str, *, limit: int | None = None) -> Moments:
    """Sum products of the features of two networks, both in evaluation mode, over samples and positions.

    Args:
        front: the first half of the front.
        back: the first half of the back.
        feed: the training data.
        style: where the channels are.
        limit: at most so many batches.
    """
    front.eval()
    back.eval()
    sums: list[Tensor] | None = None
    for number, (_, inputs, _) in enumerate(feed.batches(BATCH)):
        if limit is not None and number == limit:
            break
        x, y = (_rows(half(inputs)[0], style) for half in (front, back))
        found = [x.T @ x, x.T @ y, y.square().sum(dim=0)]
        sums = found if sums is None else [one.add_(two) for one, two in zip(sums, found, strict=True)]
    if sums is None:
        raise InputError("there are no training data.")
    return Moments(*sums)


def _rows(value: Tensor, style: str) -> Tensor:
    """Return features as (samples and positions, c), float64."""
    return value.double().movedim(channel_axis(tuple(value.shape), style), -1).flatten(0, -2)


class FrontCache:
    """What the front puts out for every training sample, in memory or in files that are mapped into it.

    That is right only if the front does the same for a sample each time: it must be in evaluation mode, and the samples must
    not be augmented.

    Args:
        front: the first half of the front, in evaluation mode.
        feed: all training samples.
        folder: for the files; None keeps everything in memory, on the device.
        advance: called after each batch.
    """

    def __init__(self, front: nn.Module, feed: Feed, folder: Path | None, advance: Callable[[], None]) -> None:
        self._kept: Values = ()
        self._files: list[Path] = []
        with torch.no_grad():
            for numbers, inputs, _ in feed.batches(BATCH):
                values = front(inputs)
                if not self._kept:
                    self._kept = tuple(self._place(value, len(feed), folder, k) for k, value in enumerate(values))
                for kept, value in zip(self._kept, values, strict=True):
                    kept[numbers.to(kept.device)] = value.to(kept.device)
                advance()

    def _place(self, value: Tensor, count: int, folder: Path | None, number: int) -> Tensor:
        shape = (count, *value.shape[1:])
        if folder is None:
            return torch.empty(shape, dtype=value.dtype, device=value.device)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"front-{number}.bin"
        self._files.append(path)
        return torch.from_file(str(path), shared=True, size=math.prod(shape), dtype=value.dtype).view(shape)

    def __call__(self, numbers: Tensor) -> Values:
        """Return the values of some samples, copied to where their numbers are."""
        return tuple(kept[numbers.to(kept.device)].to(numbers.device) for kept in self._kept)

    def close(self) -> None:
        """Forget the values and remove the files."""
        self._kept = ()
        for path in self._files:
            path.unlink(missing_ok=True)

    @staticmethod
    def check(front: nn.Module, data: StitchData, mode: str) -> None:
        """Raise unless a front always puts out the same for a sample.

        Raises:
            InputError: it does not; the message says what to change.
        """
        if data.augment != "none":
            raise InputError(f"cache_front needs data that do not change, and augment={data.augment!r}. Use augment='none'.")
        moody = [name for name, module in front.named_modules() if _depends_on_mode(module)]
        if mode == "train" and moody:
            raise InputError(
                f"cache_front needs a front that does not depend on the batch, and {moody[0]} does in training mode. "
                "Pass front_mode='eval', which freezes its batch norms; as published they are not frozen."
            )


def _depends_on_mode(module: nn.Module) -> bool:
    return isinstance(module, (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd, nn.RReLU))
