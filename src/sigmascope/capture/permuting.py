"""Samples in another order: sorted and put back, and packed sequences.

Whether an index puts all samples into another order, and which one puts them back, only its values
tell. They are looked at on the first batch; where it is so there, it is so in all batches.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from sigmascope.capture.axis_moves import Applied
from sigmascope.capture.marks import Descent

LOST, CONSTANT, PACKED = (Descent(state) for state in ("lost", "constant", "packed"))
PACK, UNPACK = "_pack_padded_sequence", "_pad_packed_sequence"
RECURRENT = ("gru", "lstm", "rnn_relu", "rnn_tanh")


def order_of(index: object) -> int:
    """Return a positive number that stands for the order an index gives; 0 if it leaves some out.

    >>> order_of(torch.tensor([1, 0])) == order_of(torch.tensor([1, 0])) > 0
    True
    >>> order_of(torch.tensor([0, 0]))
    0
    """
    if not isinstance(index, Tensor) or index.ndim != 1 or len(index) < 2 or index.is_meta:
        return 0
    if index.dtype not in (torch.int32, torch.int64):
        return 0
    numbers = index.detach().cpu().long()
    if not torch.equal(numbers.sort().values, torch.arange(len(numbers))):
        return 0
    return zlib.crc32(numbers.numpy().tobytes()) + 1


def reordered(call: Applied, source: Tensor, place: Descent) -> Descent:
    """Return the place of samples after an index along their axis: in another order, or back.

    The order of samples is positive, that of their single rows negative.
    """
    first, at = call.args[0], 1 if call.name == "__getitem__" else 2
    if call.name not in ("__getitem__", "index_select") or source is not first:
        return LOST
    index = call.value(at, "index")
    dim = 0 if at == 1 else call.value(1, "dim") % source.ndim
    if dim != place.axis or not isinstance(index, Tensor) or index.ndim != 1:
        return LOST
    order = order_of(index)
    if not order or len(index) != source.shape[place.axis]:
        return LOST
    if not place.order:
        return replace(place, order=order if place.outer * place.inner == 1 else -order)
    back = order_of(index.detach().cpu().argsort()) == abs(place.order)
    return replace(place, order=0) if back else LOST


def put_back(index: object, place: Descent) -> Descent:
    """Return the place of samples that are written where they were taken from."""
    back = place.axis == 0 and place.order and order_of(index) == abs(place.order)
    return replace(place, order=0) if back else LOST


def packing(
    call: Applied, sources: Sequence[tuple[Tensor, Descent]], outputs: Sequence[Tensor]
) -> list[Descent] | None:
    """Return where the samples are in the results of a function of packed sequences, or None."""
    place = sources[0][1] if sources else LOST
    if call.name == PACK:
        axis = 0 if call.value(2, "batch_first") else 1
        whole = place.state == "known" and place.axis == axis and place.outer * place.inner == 1
        return [replace(PACKED, order=place.order) if whole else LOST, CONSTANT]
    if place.state != "packed":
        return None
    known = Descent("known", order=place.order)
    if call.name == UNPACK:
        return [replace(known, axis=0 if call.value(2, "batch_first") else 1), known]
    if call.name in RECURRENT:
        return [place, *[replace(known, axis=1)] * (len(outputs) - 1)]
    return None
