"""A task that measures some batches of the data, and writes them or sends them back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from sigmascope.catalog.models import model
from sigmascope.errors import Interruption
from sigmascope.measure.batches import Forward
from sigmascope.measure.numbering import Place
from sigmascope.measure.options import Options
from sigmascope.measure.parts import Stored, check_divisible, measured, stored, write_part
from sigmascope.measure.signature import prepared
from sigmascope.runs.division import Span
from sigmascope.runs.network import checked_device, open_data
from sigmascope.runs.outcome import Failure, failure_of
from sigmascope.runs.request import Request
from sigmascope.store import claim
from sigmascope.store.files import check_no_link


@dataclass(frozen=True)
class NamedWork:
    """A network and data by their names, which each task opens for itself."""

    request: Request
    name: str
    device: str

    def opened(self, span: Span) -> tuple[nn.Module, Iterable[Any], dict[str, object]]:
        """Return the network, its batches of a span, and facts about it with the first of them."""
        weights = None if self.request.weights == "none" else self.request.weights
        entry = model(self.name, weights=weights, seed=self.request.options.seed)
        facts = entry.facts() if not span[0] else {}
        batches = open_data(self.request, entry.transform).between(*span)
        return entry.network.to(checked_device(self.device)), batches, facts


@dataclass(frozen=True)
class PartTask:
    """What one task measures.

    Attributes:
        name: of the network.
        span: the numbers of the first batch, and of the one after the last.
        place: where they are in the data.
        batches: the batches; None where the network comes with them, see `NamedWork`.
        options: how they are measured.
        changes: options that are functions, see `signature`.
        forward: runs the network.
        path: the file to write; None to send everything back.
        header: what says in the file which run it belongs to.
    """

    name: str
    span: Span
    place: Place
    batches: Iterable[Any] | None
    options: Options
    changes: Mapping[str, Any] = field(default_factory=dict)
    forward: Forward | None = None
    path: Path | None = None
    header: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class PartReport:
    """What became of a part: `content`, unless it is in a file or there is a `failure`."""

    span: Span
    content: Stored | None = None
    failure: Failure | None = None


def measure_part(task: PartTask, network: nn.Module | NamedWork) -> PartReport:
    """Measure a part and write it, or send it back; a failure is a value.

    A task that was taken for lost, and another that measures the same part again, do not do so at
    the same time: the second finds the file of the first.
    """
    try:
        with _reserved(task.path):
            if task.path is not None and task.path.exists():
                return PartReport(task.span)
            content = _measured(task, network)
            if task.path is None:
                return PartReport(task.span, content)
            task.path.parent.mkdir(parents=True, exist_ok=True)
            write_part(task.path, content, task.header)
            return PartReport(task.span)
    except (KeyboardInterrupt, Interruption):
        raise
    except BaseException as error:  # whatever the code of a network raises
        return PartReport(task.span, failure=failure_of(task.name, error))


def _measured(task: PartTask, network: nn.Module | NamedWork) -> Stored:
    facts: dict[str, object] = {}
    batches = task.batches
    if isinstance(network, NamedWork):
        network, batches, facts = network.opened(task.span)
    run = prepared(
        network, task.changes, name=task.name, forward=task.forward, options=task.options
    )
    check_divisible(run)
    run.order = task.place
    tensors, info = stored(measured(run, batches or (), shown=False))
    return tensors, {**info, "facts": facts}


@contextmanager
def _reserved(path: Path | None) -> Iterator[None]:
    if path is None:
        yield
        return
    check_no_link(path)
    with claim(path.with_suffix(".lock"), wait=True):
        yield
