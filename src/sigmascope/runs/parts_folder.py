"""The parts of one measurement: which are there, which are missing, and what all of them give."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from torch import nn

from sigmascope.errors import FileFormatError, InputTypeError, PartError
from sigmascope.measure.batches import Forward
from sigmascope.measure.digests import digest_of_batch
from sigmascope.measure.options import Options
from sigmascope.measure.parts import About, Part, Stored, merged, read_part, restored
from sigmascope.measure.progress import progress_bar
from sigmascope.measure.result import Signature
from sigmascope.runs.division import Source, Span, divided
from sigmascope.runs.executors import Executor, Finished, finished_calls, open_executor
from sigmascope.runs.outcome import failure_of
from sigmascope.runs.part_tasks import NamedWork, PartTask, measure_part
from sigmascope.store import check_identity, decode
from sigmascope.store.tensors import read_info

FILE = re.compile(r"batches-(\d{6,})-(\d{6,})\.safetensors")


@dataclass(frozen=True)
class Division:
    """A network and data that are measured in parts.

    Attributes:
        network: the network, or what each task opens it from.
        name: of the network.
        source: the data.
        options: how it is measured.
        header: which run the files of parts belong to.
        functions: options that are functions.
        forward: runs the network.
        folder: where parts are kept; None to keep them in memory.
    """

    network: nn.Module | NamedWork
    name: str
    source: Source
    options: Options
    header: dict[str, object]
    functions: Mapping[str, Any] = field(default_factory=dict)
    forward: Forward | None = None
    folder: Path | None = None

    def measured(
        self, parts: int, executor: Executor | None, *, progress: bool, pending: int = 64
    ) -> tuple[Signature, dict[str, object]]:
        """Measure what is missing; return the signature, and facts where tasks open the network.

        Raises:
            PartError: some parts failed.
            ResumeError: the directory has parts of another run.
        """
        known: dict[Span, Path | Stored] = {**self._kept()}
        missing = divided(self.source.total, parts, sorted(known))
        there = executor or _Here()
        share = getattr(there, "share", None)
        network = self.network if share is None else share(self.network)
        tasks = ((measure_part, self._task(span), network) for span in missing)
        failed: dict[Span, str] = {}
        count = len(known) + len(missing)
        with progress_bar(self.name, count, shown=progress) as advance:
            for _ in known:
                advance()
            for call in finished_calls(there, tasks, pending=pending):
                self._take(missing[call.number], call, known, failed)
                advance()
        if failed:
            raise PartError(self._told(failed, count))
        return merged(self._parts(known)), self._facts(known)

    def _task(self, span: Span) -> PartTask:
        named = isinstance(self.network, NamedWork)
        return PartTask(
            self.name,
            span,
            self.source.place(span),
            None if named else self.source.between(*span),
            self.options,
            self.functions,
            self.forward,
            self._path(span),
            self.header,
        )

    def _path(self, span: Span) -> Path | None:
        first, end = span
        name = f"batches-{first:06d}-{end:06d}.safetensors"
        return None if self.folder is None else self.folder.resolve() / name

    def _take(
        self, span: Span, call: Finished, known: dict[Span, Path | Stored], failed: dict[Span, str]
    ) -> None:
        """Note what became of a part."""
        if call.error is not None:
            failed[span] = failure_of(self.name, call.error).message
        elif call.value.failure is not None:
            failed[span] = call.value.failure.message
        else:
            known[span] = cast(Path, self._path(span)) if self.folder else call.value.content

    def _told(self, failed: dict[Span, str], count: int) -> str:
        (first, end), message = next(iter(sorted(failed.items())))
        numbers = f"batch {first}" if end == first + 1 else f"batches {first} to {end - 1}"
        more = f", and {len(failed) - 1} more" if len(failed) > 1 else ""
        kept = "; nothing is kept without a directory: pass one to keep the others"
        if self.folder is not None:
            kept = "; the others are kept: the same call measures only what is missing"
        if len(failed) == count:  # there are no others
            kept = ""
        reason = message.rstrip(".")
        return f"{len(failed)} of {count} parts failed: {numbers} ({reason}){more}{kept}."

    def _kept(self) -> dict[Span, Path]:
        """Return the parts that the directory has, after checking what they belong to."""
        return {} if self.folder is None else spans_in(self.folder, self._is_ours)

    def _is_ours(self, span: Span, path: Path) -> bool:
        """Return whether a part can be used; one that is damaged is removed."""
        try:
            info = read_info(path)
            about = decode(About, info.get("about"), f"{path}: about")
        except FileFormatError:
            path.unlink(missing_ok=True)
            return False
        check_identity(path, info.get("header"), self.header)
        if not isinstance(self.network, NamedWork):
            first = next(iter(self.source.between(span[0], span[0] + 1)))
            data = f"batch {span[0]}"
            check_identity(path, {data: about.data}, {data: digest_of_batch(first)})
        return True

    def _parts(self, known: Mapping[Span, Path | Stored]) -> Iterator[Part]:
        for span in sorted(known):
            content = known[span]
            if not isinstance(content, Path):
                yield restored(content, f"the part from batch {span[0]} on")
                continue
            try:
                yield read_part(content, self.header)
            except FileFormatError as error:
                content.unlink(missing_ok=True)
                raise PartError(
                    f"{error} It was removed: the same call measures it again."
                ) from error

    def _facts(self, known: Mapping[Span, Path | Stored]) -> dict[str, object]:
        first = known[min(known)]
        info = read_info(first) if isinstance(first, Path) else first[1]
        return cast(dict[str, object], info.get("facts", {}))


def spans_in(
    folder: Path, usable: Callable[[Span, Path], bool] = lambda *_: True
) -> dict[Span, Path]:
    """Return the parts that a directory has, without those of which others have every batch."""
    spans = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        found = FILE.fullmatch(path.name)
        if found:
            spans[int(found[1]), int(found[2])] = path
    kept: dict[Span, Path] = {}
    reached = 0
    for span in sorted(spans, key=lambda span: (span[0], -span[1])):
        if span[0] < reached:  # of another division, and covered
            continue
        if usable(span, spans[span]):
            kept[span] = spans[span]
            reached = span[1]
    return kept


def parts_beside(journal: Path) -> Path:
    """Return the directory with the parts of a network, beside what a single process resumes."""
    return journal.with_name(f"{journal.name.removesuffix('.journal')}.parts")


def opened(executor: Executor | str | None) -> AbstractContextManager[Executor]:
    """Return an executor, one that a text names, or else this process, as a context.

    Raises:
        InputTypeError: it has no `submit`.
    """
    if isinstance(executor, str):
        return open_executor(executor)
    if executor is not None and not callable(getattr(executor, "submit", None)):
        raise InputTypeError(
            f"executor must have submit(function, ...), got {type(executor).__name__}. Pass one of "
            "concurrent.futures, submitit or dask.distributed, or a text such as 'local:4'."
        )
    return nullcontext(executor or _Here())


class _Here:
    """An executor that calls in this process, one call after the other."""

    most = 1

    def submit(self, function: Any, /, *arguments: Any) -> Future[Any]:
        """Return the future of a call that has ended."""
        future: Future[Any] = Future()
        future.set_result(function(*arguments))
        return future
