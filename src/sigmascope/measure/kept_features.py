"""The pooled inputs and outputs of a run, kept in a directory to be scored again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Unpack

import torch
from torch import Tensor

from sigmascope.capture.call_site import CallInput
from sigmascope.capture.pooled import PooledCall
from sigmascope.checks import check_choice, check_path, check_whole, options_from
from sigmascope.errors import FileFormatError, InputError
from sigmascope.measure.accumulating import PopulationSums
from sigmascope.measure.batch_scores import BatchReadings, call_of, read
from sigmascope.measure.batches import Batch
from sigmascope.measure.merging import assembled
from sigmascope.measure.options import Options, RescoreOptions
from sigmascope.measure.progress import progress_bar
from sigmascope.measure.result import Signature
from sigmascope.measure.subject import Subject
from sigmascope.store import check_identity, decode, encode, read_features, write_features

FILES = "batch-*.safetensors"


@dataclass(frozen=True)
class _KeptCall(CallInput):
    """A `PooledCall` without its matrices, the tensors `<number>.x`, `.y`, `.index` of the file."""

    density: tuple[float, ...]
    reason: str
    skipped: bool


@dataclass(frozen=True)
class _KeptBatch:
    """A batch without its matrices."""

    subject: Subject
    options: Options
    batch: int
    size: int
    fingerprint: str
    calls: tuple[_KeptCall, ...]
    complete: bool = field(default=True, metadata={"later": True})
    unseen: tuple[str, ...] = field(default=(), metadata={"later": True})
    digest: str = field(default="", metadata={"later": True})  # of all of its data
    weights: str = field(default="", metadata={"later": True})  # a digest of all of them


class KeptFeatures:
    """A directory that keeps the matrices of a run, one file per batch."""

    def __init__(
        self, keep: str | Path, subject: Subject, options: Options, weights: str = ""
    ) -> None:
        self._directory = Path(keep)
        self._weights = weights
        self._subject = subject
        self._options = options
        self.unseen: tuple[str, ...] = ()  # what to note on activations that were not seen
        if self._directory.exists() and not self._directory.is_dir():
            raise InputError(f"keep={str(keep)!r} is a file. Pass a directory.")

    def check(self, earlier: Sequence[BatchReadings] | None) -> None:
        """Check that the directory fits the network and the batches scored `earlier`; create it.

        Raises:
            ResumeError: it belongs to another run; the message lists the differences.
            InputError: it holds too many batches, or lacks some that were scored.
        """
        keep, scored = str(self._directory), earlier or ()
        paths = sorted(self._directory.glob(FILES))
        # One more than were scored may have been kept when the run was interrupted.
        other = len(paths) > len(scored) + (earlier is not None)
        if paths and not other:
            kept = _read(paths[0])[0]
            data = [(batch.fingerprint, batch.digest) for batch in scored[:1]]
            same = [(kept.fingerprint, kept.digest)][: len(data)]
            there = {"subject": kept.subject, "options": kept.options, "data": same}
            here = {"subject": self._subject, "options": self._options, "data": data}
            there["weights"], here["weights"] = kept.weights, self._weights
            check_identity(f"keep={keep!r}", there, here)
        if other:
            raise InputError(
                f"keep={keep!r} holds batches of another run. Pass an empty directory."
            )
        if len(paths) < len(scored):
            raise InputError(
                f"keep={keep!r} lacks batches that the run to resume has scored. Pass the "
                "directory of that run, or none."
            )
        self._directory.mkdir(parents=True, exist_ok=True)

    def add(
        self, index: int, batch: Batch, calls: Sequence[PooledCall], *, complete: bool = True
    ) -> None:
        """Write the matrices of a batch to a file of their own, atomically."""
        tensors: dict[str, Tensor] = {}
        kept = []
        for number, call in enumerate(calls):
            if call.x is not None and call.y is not None:
                tensors |= {f"{number}.x": call.x.cpu(), f"{number}.y": call.y.cpu()}
            if call.index is not None:
                tensors[f"{number}.index"] = call.index
            density = tuple(float(share) for share in call.density)
            kept.append(
                _KeptCall(
                    **call.call.fields(), density=density, reason=call.reason, skipped=call.skipped
                )
            )
        content = _KeptBatch(
            self._subject,
            self._options,
            index,
            batch.size,
            batch.sketch.digest(),
            tuple(kept),
            complete,
            self.unseen,
            batch.digest,
            self._weights,
        )
        path = self._directory / f"batch-{index:06d}.safetensors"
        write_features(path, tensors, {"kept": encode(content)})


def _read(path: Path) -> tuple[_KeptBatch, dict[str, Tensor]]:
    tensors, info = read_features(path)
    return decode(_KeptBatch, info.get("kept"), f"{path}: kept"), tensors


def kept_calls(folder: str | Path) -> list[list[PooledCall]]:
    """Return the activation calls of each batch that `signature(..., keep=folder)` kept."""
    return [calls for _, calls in _batches(sorted(Path(folder).glob(FILES)))]


def rescore(
    folder: str | Path,
    *,
    together: int = 1,
    progress: bool = True,
    **changes: Unpack[RescoreOptions],
) -> Signature:
    """Return a signature of the features that `signature(..., keep=folder)` kept, scored again.

    The network is not needed. Options that are not given stay as they were.

    Args:
        folder: the directory with the kept batches.
        together: how many kept batches are one batch of the published score, which depends on the
            size of batches. So a network runs in batches that fit into memory, and is scored in
            those of a paper. A last batch that is smaller does not count, see `signature`.
        progress: whether to show a progress bar, on a terminal.
        **changes: see `RescoreOptions`. The metric "sparsity" is that of the whole feature maps
            where the first run measured it, otherwise that of the pooled matrices.

    Raises:
        InputError: no kept batches there, or those of several runs, or with one missing.
        FileFormatError: a file that is truncated, corrupt, or newer than this version.
        OptionError: an unknown option, or a value that is not a valid choice.

    >>> import tempfile
    >>> import torch
    >>> from sigmascope.measure.signature import signature
    >>> _ = torch.manual_seed(0)
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first = signature(network, torch.randn(256, 4), keep=folder)
    ...     again = rescore(folder, covariance="unbiased")
    >>> first.sites[0].population == again.sites[0].population, again.options.covariance
    (True, 'unbiased')
    """
    check_path("folder", folder)
    paths = sorted(Path(folder).glob(FILES))
    if not paths:
        raise InputError(
            f"{str(folder)!r} holds no kept batches ({FILES}). Run signature(..., "
            f"keep={str(folder)!r}) first."
        )
    for name in changes:
        check_choice("option", name, RescoreOptions.__annotations__)
    first = _read(paths[0])[0]
    # None says "as it was" of every option but eps, of which it is a value
    given = {name: value for name, value in changes.items() if value is not None or name == "eps"}
    options = options_from(Options, given, base=first.options)
    together = check_whole("together", together, 1)
    full = together * first.size
    scored: list[BatchReadings] = []
    sums, samples = PopulationSums(options), 0
    with progress_bar(first.subject.name, -(-len(paths) // together), shown=progress) as advance:
        for start in range(0, len(paths), together):
            kept, calls = _joined(list(_of_one_run(paths, start, together, first)))
            complete = not options.published or _is_complete(kept, first, len(paths))
            complete &= together == 1 or kept.size == full or not scored
            readings = read(calls, options, complete=complete)
            if complete or options.population:
                about = start // together, kept.size, kept.fingerprint
                scored.append(BatchReadings(*about, readings, complete))
            if options.population:
                sums.add(calls, samples, kept.fingerprint)
            samples += kept.size
            advance()
    notes = [*first.unseen, "scored again from kept features"]
    return assembled(first.subject, options, scored, sums.scores(), notes)


def _of_one_run(
    paths: list[Path], start: int, count: int, first: _KeptBatch
) -> Iterator[tuple[_KeptBatch, list[PooledCall]]]:
    """Yield some batches, and raise if one does not belong to the run of the first."""
    some = paths[start : start + count]
    for number, (path, (kept, calls)) in enumerate(zip(some, _batches(some), strict=True), start):
        same = (kept.subject, kept.options) == (first.subject, first.options)
        if not same or kept.batch != number:
            raise InputError(
                f"{str(path.parent)!r} does not hold the batches of one run from the first on: see "
                f"{path.name}."
            )
        yield kept, calls


def _joined(
    batches: list[tuple[_KeptBatch, list[PooledCall]]],
) -> tuple[_KeptBatch, list[PooledCall]]:
    """Return batches as one.

    Raises:
        InputError: the network made other calls in one of them.
    """
    (kept, calls), *more = batches
    if not more:
        return kept, calls
    sites = [[call_of(call.call) for call in some] for _, some in batches]
    if any(one != sites[0] for one in sites):
        raise InputError(
            f"batches {kept.batch} to {kept.batch + len(more)} differ in their activation calls "
            "and cannot be scored together. Pass together=1."
        )
    sizes = [one.size for one, _ in batches]
    whole = replace(
        batches[-1][0],
        size=sum(sizes),
        fingerprint=" ".join(one.fingerprint for one, _ in batches),
        complete=all(one.complete for one, _ in batches),
    )
    return whole, [_joined_call(some, sizes) for some in zip(*(c for _, c in batches), strict=True)]


def _joined_call(calls: Sequence[PooledCall], sizes: Sequence[int]) -> PooledCall:
    """Return one call on several batches, of so many samples each, as one."""
    if any(call.x is None or call.y is None for call in calls):
        return next(call for call in calls if call.x is None or call.y is None)
    first, axes = calls[0], [call.call.shape for call in calls]
    x, y = (torch.cat([getattr(call, name) for call in calls]) for name in ("x", "y"))
    weights = torch.tensor(sizes, dtype=torch.float64) / sum(sizes)
    shares = zip(*(call.density for call in calls), strict=True)
    density = [(weights * torch.stack(share)).sum() for share in shares]
    starts = [sum(sizes[:number]) for number in range(len(sizes))]
    index = first.index
    if index is not None:
        known = zip(calls, starts, strict=True)
        index = torch.cat([call.index + start for call, start in known if call.index is not None])
    shape = (sum(one[0] for one in axes), *axes[0][1:])
    return PooledCall(replace(first.call, shape=shape), x, y, density, "", first.skipped, index)


def _is_complete(kept: _KeptBatch, first: _KeptBatch, count: int) -> bool:
    """Return whether a batch counts for the published score, if the run did not measure it too."""
    smaller_last = kept.batch == count - 1 and kept.size < first.size
    return kept.complete and (first.options.published or not smaller_last)


def _batches(paths: list[Path]) -> Iterator[tuple[_KeptBatch, list[PooledCall]]]:
    for path in paths:
        kept, tensors = _read(path)
        calls = []
        for number, call in enumerate(kept.calls):
            x, y = tensors.get(f"{number}.x"), tensors.get(f"{number}.y")
            if (x is None or y is None or x.ndim != 2 or y.ndim != 2) and not call.reason:
                raise FileFormatError(
                    f"{path}: call {number} has no two matrices. Run the network again."
                )
            density = [torch.tensor(share, dtype=torch.float64) for share in call.density]
            index = tensors.get(f"{number}.index")
            calls.append(PooledCall(call, x, y, density, call.reason, call.skipped, index))
        yield kept, calls
