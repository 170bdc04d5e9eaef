"""Where an item takes its signatures from: the folder of stored ones, or a measurement."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sigmascope.measure.affinity as _affinity
from sigmascope.checks import check_choice
from sigmascope.choices import OLD_VALUES
from sigmascope.errors import FileFormatError, InputError, OptionError
from sigmascope.measure.signature import Signature, load
from sigmascope.runs import Facts, Request, Run, Selection, measure_runs, read_runs, request_for
from sigmascope.runs.folder import files_of, finished
from sigmascope_papers.cast import PAPER, ZOO, Cast

__all__ = ["BATCH", "DATA", "IMAGES", "TINY", "WEIGHTS", "Setting", "facts_of", "signatures_of"]

# The value of an option under which the published code's way is measured; older files say released.
PUBLISHED = getattr(_affinity, "DEGENERATE", ("nan", "published"))[1]
RESULTS = Path(__file__).parent / "results"
WEIGHTS = ("zoo", "default", "none")
# How the stored signatures were measured; measurements from scratch are made like this too.
DATA, IMAGES, BATCH = "cifar10", 2560, 512
OPTIONS: Mapping[str, Any] = {"metrics": "all"}
_SHOWN = {"default": "published", "none": "random"}
TINY = "a tiny size, which shows that everything runs and says nothing about the paper"
NOWHERE = Path(os.devnull)  # nothing lies in it


@dataclass(frozen=True)
class Setting:
    """How items are to be run.

    Attributes:
        results: the directory with the stored results; signatures are in `signatures/`.
        from_scratch: whether to measure instead of reading what is stored.
        weights: "zoo" for our networks; "default", or "none" for random ones, for the paper's own
            networks of torchvision.
        data: on which the paper's own networks run; ours run on CIFAR-10, and None means that.
        data_root: the folder with the data sets, for measurements.
        limit: how many images the paper's own networks see; by default all.
        networks: the names of those to take from the cast; by default all.
        keep: a folder for what is measured, in folders like those of the zoo, from which it is also
            read again; None keeps nothing.
        smoke: try the machinery, in a tiny size on the images that the package carries; nothing is
            stored, read or judged.
        progress: whether to show progress bars, on a terminal.
    """

    results: Path = RESULTS
    from_scratch: bool = False
    weights: str = "zoo"
    data: str | None = None
    data_root: str | None = None
    limit: int | None = None
    networks: tuple[str, ...] = ()
    keep: Path | None = None
    progress: bool = True
    smoke: bool = False

    def __post_init__(self) -> None:
        if self.smoke:
            object.__setattr__(self, "from_scratch", True)
            object.__setattr__(self, "keep", None)
        check_choice("weights", self.weights, WEIGHTS)
        if self.ours and (self.data or self.limit):
            raise OptionError(
                "data and limit are for the paper's own networks. Pass --weights default "
                "too, or leave them out."
            )
        if not self.ours and self.data is None:
            raise OptionError(
                "the paper's own networks have no data here. Pass --data imagefolder:DIR, "
                "images of ImageNet."
            )

    @property
    def ours(self) -> bool:
        """Whether the networks are those of the zoo."""
        return self.weights == "zoo"

    @property
    def cast(self) -> Cast:
        """The networks that stand in the figures."""
        full = ZOO if self.ours else PAPER
        return full.only(self.networks) if self.networks else full

    @property
    def told(self) -> str:
        """What differs from our networks and the data that budgets and reasons are about; empty
        where nothing does.
        """
        parts = (
            []
            if self.ours
            else [
                f"the paper's networks with {_SHOWN[self.weights]} weights on {self.data}, not ours"
            ]
        )
        parts += [] if self.limit is None else [f"{self.limit} images"]
        parts += [TINY] if self.smoke else []
        return "; ".join(
            parts + ([f"only {', '.join(self.networks)} of the cast"] if self.networks else [])
        )

    @property
    def _measures(self) -> bool:
        return self.from_scratch or not self.ours

    def runs(
        self,
        names: Sequence[str],
        *,
        data: str | None = None,
        images: int = IMAGES,
        batch: int = BATCH,
        **options: Any,
    ) -> list[Run]:
        """Return the signatures of networks, with facts, in this order.

        Args:
            names: as the catalog has them; those of the zoo also without `sigmascope/`:
                `resnet20:0`, `vit:0-init`.
            data: the name of a data set; by default that of the setting.
            images: how many our networks see.
            batch: how many images make a batch.
            options: of `sigmascope.signature`, where they differ from all metrics and the defaults.

        Raises:
            InputError: they are not stored, or cannot be measured; the message says what to do.
        """
        wanted = [name if "/" in name else f"sigmascope/{name}" for name in names]
        self._check_cast(wanted)
        limit = images if self.ours else self.limit
        chosen = Selection(data or self.data or DATA, self.data_root, limit=limit, batch_size=batch)
        folder = self._folder(chosen, options)
        if not self._measures:
            self._check_stored(folder, wanted)
        return [self._run(self._request(name, chosen, options), folder) for name in wanted]

    def signature(self, name: str, kind: str, measure: Callable[[], Signature]) -> Signature:
        """Return a signature that an item measures by a procedure of its own, or that is stored.

        Args:
            name: of the network, for the file.
            kind: what is peculiar about it, for the folder.
            measure: does the work, where it is to be done.
        """
        folder = self._home / _folder_name([kind])
        files = files_of(folder, name)
        if not self._measures:
            self._check_stored(folder, [name])
        if files.finished.exists():
            kept = load(files.finished)
            if kept.name != name:
                raise FileFormatError(
                    f"{files.finished} is a signature of {kept.name}. Remove it, or choose "
                    "another folder."
                )
            return kept
        found = measure()
        if self.keep is not None:
            folder.mkdir(parents=True, exist_ok=True)
            found.save(files.finished)
        return found

    @property
    def _home(self) -> Path:
        """The folder of the signatures: those stored in the zoo, or those measured."""
        if not self._measures:
            return self.results / "signatures"
        return self.keep / "signatures" if self.keep else NOWHERE

    def _folder(self, chosen: Selection, options: Mapping[str, Any]) -> Path:
        """Return the folder of signatures of one kind; what differs from the usual stands in its name."""
        images = IMAGES if self.ours else None
        unusual: dict[str, Any] = {"images": chosen.limit} if chosen.limit != images else {}
        unusual |= {"batch": chosen.batch_size} if chosen.batch_size != BATCH else {}
        unusual |= {} if self.ours else {"weights": self.weights}
        words = [chosen.name, *(f"{key}-{OLD_VALUES.get(str(value), value)}" for key, value in {**unusual, **options}.items())]
        return self._home / _folder_name(words)

    def _request(self, name: str, chosen: Selection, options: Mapping[str, Any]) -> Request:
        weights = "none" if self.weights == "none" else "default"
        return request_for([name], chosen, weights=weights, options={**OPTIONS, **options})

    def _run(self, request: Request, folder: Path) -> Run:
        """Read a signature, or measure it."""
        (name,) = request.names
        files = files_of(folder, name)
        if finished(files, request, name) is None:
            (outcome,) = measure_runs(
                request, files.finished if self.keep else None, progress=self.progress
            )
            if outcome.signature is None:
                reason = outcome.failure.message if outcome.failure else outcome.state
                raise InputError(f"{name} could not be measured: {reason}")
            return Run(outcome.signature, Path(name), outcome.facts)
        (found,) = read_runs([files.finished]).runs
        return found

    def _check_cast(self, names: Sequence[str]) -> None:
        if not self.ours and any(name.startswith("sigmascope/") for name in names):
            raise InputError(
                "this item is about networks of the zoo only. Leave out --weights and --data."
            )

    def _check_stored(self, folder: Path, names: Sequence[str]) -> None:
        missing = [name for name in names if not files_of(folder, name).finished.is_file()]
        if missing:
            raise InputError(
                f"{folder} has no signature of {', '.join(missing)}. Measure it again with "
                "--from-scratch."
            )


def _folder_name(words: Sequence[str]) -> str:
    """Return a name that any file system takes; where a path is among the words, a digest tells it
    from others.

    >>> _folder_name(["cifar10", "batch-128"]), _folder_name(["imagefolder:/data/val"])
    ('cifar10-batch-128', 'imagefolder-data-val-992559cb')
    """
    text = "-".join(words)
    name = re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-.")
    return (
        f"{name[-60:].strip('-.')}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
        if ":" in text
        else name
    )


def signatures_of(runs: Sequence[Run]) -> dict[str, Signature]:
    """Return the signatures by the names of their networks, those of the zoo without `sigmascope/`."""
    return {run.signature.name.removeprefix("sigmascope/"): run.signature for run in runs}


def facts_of(runs: Sequence[Run]) -> dict[str, Facts]:
    """Return the facts by the names of the signatures."""
    return {run.signature.name: run.facts for run in runs if run.facts is not None}
