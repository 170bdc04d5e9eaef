"""Whether the rows of a site are the samples: one sample is replaced, and only its rows change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from sigmascope.auditing.result import Finding
from sigmascope.auditing.state import leaves, same_bits
from sigmascope.capture.pooled import PooledCall
from sigmascope.capture.unforeseen import FROM_NESTED

CHANGED = 0  # the sample that is replaced, by the last one
OF_SPREAD, OF_SIZE = 1e-3, 1e-5  # differences that count as rounding


def count_samples(batch: Any) -> int:
    """Return the number of samples in a batch, or 0 where it does not tell."""
    if isinstance(batch, Tensor):
        return batch.size(0) if batch.ndim else 0  # a nested tensor has no shape
    if isinstance(batch, Mapping):
        counts = map(count_samples, batch.values())
        return next((count for count in counts if count), 0)
    if isinstance(batch, (tuple, list)) and batch:
        return len(batch[0]) if _is_list_of_tensors(batch[0]) else count_samples(batch[0])
    return 0


def _is_list_of_tensors(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(one, Tensor) for one in value)


def with_sample_replaced(batch: Any, count: int) -> Any:
    """Return a batch whose first sample is its last one too."""
    if isinstance(batch, Tensor):
        if batch.is_nested:
            rows = batch.unbind()
            return torch.nested.as_nested_tensor([rows[-1], *rows[1:]], layout=batch.layout)
        if batch.ndim == 0 or batch.shape[0] != count:
            return batch
        batch = batch.clone()
        batch[CHANGED] = batch[-1]
        return batch
    if isinstance(batch, Mapping):
        return {key: with_sample_replaced(value, count) for key, value in batch.items()}
    if isinstance(batch, (tuple, list)) and not hasattr(batch, "_fields"):
        return type(batch)(
            # a list of samples, each a tensor of its own, among the entries of a batch
            type(value)([value[-1], *value[1:]])
            if _is_list_of_tensors(value) and len(value) == count
            else with_sample_replaced(value, count)
            for value in batch
        )
    return batch


def mixes_samples(before: Any, after: Any, count: int) -> bool:
    """Return whether the outputs of other samples change with the one that was replaced."""
    for first, second in zip(leaves(before), leaves(after), strict=False):
        if first.ndim == 0 or first.shape[0] != count or first.shape != second.shape:
            continue
        if _differ(first, second)[CHANGED + 1 :].any():
            return True
    return False


def exchanges_samples(before: Any, after: Any, count: int) -> bool:
    """Return whether the outputs of the sample become those of the one it is replaced by.

    Not so where they depend on its place in the batch, as random numbers do.
    """
    for first, second in zip(leaves(before), leaves(after), strict=False):
        if first.ndim and first.shape[0] == count and first.shape == second.shape:
            expected = first.clone()
            expected[CHANGED] = first[-1]
            if _differ(expected, second)[CHANGED]:
                return False
    return True


def _differ(first: Tensor, second: Tensor) -> Tensor:
    """Return (n,), which rows of two matrices differ by more than rounding.

    Kernels may add in another order for other values nearby. A signal that hardly depends on the
    samples, as in a network without training, is compared by how much it does.
    """
    rows = [one.detach().cpu().double().reshape(len(first), -1) for one in (first, second)]
    pair = [torch.nan_to_num(one) for one in rows]
    if not pair[0].numel():
        return torch.zeros(len(first), dtype=torch.bool)
    spread = (pair[0] - pair[0].mean(dim=0)).abs().max()
    allowed = torch.maximum(OF_SPREAD * spread, OF_SIZE * pair[0].abs().max())
    return (pair[0] - pair[1]).abs().amax(dim=1) > allowed


def sample_findings(
    before: Sequence[PooledCall],
    after: Sequence[PooledCall],
    count: int,
    *,
    mixes: bool,
    exchanges: bool = True,
) -> tuple[list[Finding], int]:
    """Return the sites whose rows are not the samples, and how many could be checked."""
    findings, checked = [], 0
    later = {one.call.name: one for one in after}
    for first in before:
        second = later.get(first.call.name)
        if first.x is None or second is None or second.x is None:
            continue
        if first.x.shape != second.x.shape or _other_index(first.index, second.index):
            continue  # rows that depend on the values, as tokens routed to an expert do
        checked += 1
        reason = "" if mixes else _wrong_rows(first, second.x, count, exchanges=exchanges)
        if reason:
            findings.append(Finding("wrong axis", first.call.name, reason))
    return findings, checked


def untrue_reasons(
    calls: Sequence[PooledCall], before: Mapping[str, Tensor], after: Mapping[str, Tensor]
) -> list[Finding]:
    """Return the sites without a score for a lack of samples that have the samples first.

    Args:
        calls: the calls of a batch.
        before: site -> (n,), the sums of its samples.
        after: the same with one sample replaced.
    """
    findings = []
    for call in calls:
        first, second = before.get(call.call.name), after.get(call.call.name)
        if call.x is not None or "sample" not in call.reason or first is None or second is None:
            continue
        if call.reason == FROM_NESTED:  # which says that nobody has looked
            continue
        if _differ(first[:, None], second[:, None]).nonzero().flatten().tolist() == [CHANGED]:
            detail = f"axis 0 holds the samples, but it has no score: {call.reason}"
            findings.append(Finding("wrong axis", call.call.name, detail))
    return findings


def _other_index(first: Tensor | None, second: Tensor | None) -> bool:
    if first is None or second is None:
        return first is not second
    return not torch.equal(first, second)


def _wrong_rows(call: PooledCall, after: Tensor, count: int, *, exchanges: bool) -> str:
    """Return what is wrong with the rows; those of the sample must become those of the last."""
    before = call.x
    if before is None or (call.index is None and len(before) != count):
        return f"{0 if before is None else len(before)} rows for {count} samples"
    sample = torch.arange(count) if call.index is None else call.index.cpu()
    changed = _differ(before, after)
    others = sorted({*sample[changed].tolist()} - {CHANGED})
    if others:
        return f"replacing sample {CHANGED} changes the rows of samples {others[:8]} too"
    own, last = sample == CHANGED, sample == count - 1
    if exchanges and int(own.sum()) == int(last.sum()):
        expected = before.clone()
        expected[own.to(before.device)] = before[last.to(before.device)]
        if _differ(expected, after).any():
            return f"the rows of sample {CHANGED} do not become those of the one it is replaced by"
    return ""


def is_same_batch(first: Any, second: Any) -> bool:
    """Return whether replacing the sample has changed nothing."""
    return same_bits(first, second)
