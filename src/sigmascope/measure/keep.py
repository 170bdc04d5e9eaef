"""The pooled inputs and outputs of a run, kept in a folder, and scored again without the network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sigmascope.errors import FileFormatError, InputError
from sigmascope.measure.assembly import assembled
from sigmascope.measure.batches import Batch
from sigmascope.measure.companions import check_metrics
from sigmascope.measure.options import Options
from sigmascope.measure.progress import progress_bar
from sigmascope.measure.readings import BatchReadings, Described, Observed, described, read
from sigmascope.measure.signature import Signature
from sigmascope.measure.subject import Subject
from sigmascope.store import check_identity, decode, encode, read_features, write_features

__all__ = ["check_folder", "keep_batch", "rescore"]

FILES = "batch-*.safetensors"


@dataclass(frozen=True)
class _Call(Described):
    """An observed call without its matrices; the tensors `<number of the call>.x` and `.y` of the
    file hold those.
    """

    density: tuple[float, ...]
    reason: str
    skipped: bool


@dataclass(frozen=True)
class _Kept:
    """What is kept of a batch beside the matrices."""

    subject: Subject
    options: Options
    batch: int
    size: int
    fingerprint: str
    calls: tuple[_Call, ...]


def check_folder(
    keep: str | Path,
    subject: Subject,
    options: Options,
    earlier: Sequence[BatchReadings] | None = None,
) -> Path:
    """Return the folder, made if need be.

    Args:
        keep: the folder.
        subject: what is measured.
        options: how.
        earlier: the batches that the run to be continued has scored; None for a new run.

    Raises:
        ResumeError: it belongs to another run; the message lists the differences.
        InputError: it is a file, holds too many batches, or lacks some that were scored.
    """
    folder = Path(keep)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"keep={str(keep)!r} is a file. Pass a folder.")
    paths, scored = sorted(folder.glob(FILES)), earlier or ()
    # One more than were scored may have been kept when the run was cut off.
    foreign = len(paths) > len(scored) + (earlier is not None)
    if paths and not foreign:
        kept, data = _read(paths[0])[0], [one.fingerprint for one in scored[:1]]
        check_identity(
            f"keep={str(keep)!r}",
            {
                "subject": kept.subject,
                "options": kept.options,
                "data": [kept.fingerprint][: len(data)],
            },
            {"subject": subject, "options": options, "data": data},
        )
    if foreign:
        raise InputError(f"keep={str(keep)!r} holds batches of another run. Pass an empty folder.")
    if len(paths) < len(scored):
        raise InputError(
            f"keep={str(keep)!r} lacks batches that the run to be continued has scored. Pass "
            "the folder of that run, or none."
        )
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def keep_batch(
    folder: Path,
    subject: Subject,
    options: Options,
    index: int,
    batch: Batch,
    observed: Sequence[Observed],
) -> None:
    """Write the matrices of a batch to a file of their own, at once or not at all."""
    tensors: dict[str, Tensor] = {}
    calls = []
    for number, one in enumerate(observed):
        if one.x is not None and one.y is not None:
            tensors |= {f"{number}.x": one.x.cpu(), f"{number}.y": one.y.cpu()}
        density = tuple(float(share) for share in one.density)
        calls.append(
            _Call(**described(one), density=density, reason=one.reason, skipped=one.skipped)
        )
    kept = encode(_Kept(subject, options, index, batch.size, batch.fingerprint, tuple(calls)))
    write_features(folder / f"batch-{index:06d}.safetensors", tensors, {"kept": kept})


def _read(path: Path) -> tuple[_Kept, dict[str, Tensor]]:
    tensors, info = read_features(path)
    return decode(_Kept, info.get("kept"), f"{path}: kept"), tensors


def rescore(
    folder: str | Path,
    *,
    covariance: str | None = None,
    metrics: str | Sequence[str] | None = None,
    compat: bool | None = None,
    eps: float | None = None,
    degenerate: str | None = None,
    progress: bool = True,
) -> Signature:
    """Score again what `signature(..., keep=folder)` kept, without the network; what is not given
    stays as it was.

    Args:
        folder: with the kept batches.
        covariance: the estimator, see `affinity`.
        metrics: companion metrics, see `signature`. "sparsity" is that of the whole feature maps
            where the first run measured it, otherwise that of the pooled matrices.
        compat: see `signature`.
        eps: see `affinity`.
        degenerate: see `affinity`.
        progress: whether to show a progress bar, on a terminal.

    Raises:
        InputError: no kept batches there, or those of several runs, or with one missing.
        FileFormatError: a file that is truncated, foreign or newer than this version.
        OptionError: an unknown option.
    """
    paths = sorted(Path(folder).glob(FILES))
    if not paths:
        raise InputError(
            f"{str(folder)!r} holds no kept batches ({FILES}). Run signature(..., "
            f"keep={str(folder)!r}) first."
        )
    first = _read(paths[0])[0]
    given = {
        "covariance": covariance,
        "metrics": metrics,
        "compat": compat,
        "eps": eps,
        "degenerate": degenerate,
    }
    options = _changed(
        first.options, **{key: value for key, value in given.items() if value is not None}
    )
    scored = []
    with progress_bar(first.subject.name, len(paths), shown=progress) as advance:
        for number, (kept, observed) in enumerate(_batches(paths)):
            if (
                kept.subject != first.subject
                or kept.options != first.options
                or kept.batch != number
            ):
                raise InputError(
                    f"{str(folder)!r} does not hold the batches of one run from the first "
                    f"on: see {paths[number].name}."
                )
            scored.append(
                BatchReadings(kept.batch, kept.size, kept.fingerprint, read(observed, options))
            )
            advance()
    return assembled(first.subject, options, scored, ["scored again from kept features"])


def _changed(options: Options, **changes: Any) -> Options:
    """Change options; only what concerns the score is checked, since functions of the user are
    known by name only.
    """
    changed = replace(options, **changes)
    return replace(
        changed,
        eps=changed.scoring().eps,
        metrics=check_metrics(changed.metrics),
        compat=bool(changed.compat),
    )


def _batches(paths: list[Path]) -> Iterator[tuple[_Kept, list[Observed]]]:
    for path in paths:
        kept, tensors = _read(path)
        observed = []
        for number, call in enumerate(kept.calls):
            x, y = tensors.get(f"{number}.x"), tensors.get(f"{number}.y")
            if (x is None or y is None or x.ndim != 2 or y.ndim != 2) and not call.reason:
                raise FileFormatError(
                    f"{path}: call {number} has no two matrices. Run the network again."
                )
            density = [torch.tensor(share, dtype=torch.float64) for share in call.density]
            observed.append(Observed(**{**vars(call), "density": density}, x=x, y=y))
        yield kept, observed
