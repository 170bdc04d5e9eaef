"""Where an item takes its signatures from: those stored in the package, or a measurement."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sigmascope.checks import check_choice
from sigmascope.choices import OLD_VALUES
from sigmascope.errors import InputError, OptionError
from sigmascope.measure.result import Signature, load
from sigmascope.runs import Facts, Request, Run, Selection, measure_runs, read_runs, request_for
from sigmascope.runs.folder import files_of, finished
from sigmascope.store import check_identity, claim_beside
from sigmascope_papers.cast import PAPER, ZOO, Cast

PUBLISHED: Final = "published"  # the option value for what the published code does
RESULTS = Path(__file__).parent / "results"
WEIGHTS = ("zoo", "default", "none")
# How the stored signatures were measured; measurements from scratch are made like this too.
DATA, IMAGES, BATCH = "cifar10", 2560, 512
EPS = 1e-6  # as published
OPTIONS: Mapping[str, Any] = {
    "eps": EPS,
    "metrics": "all",
    "estimator": "published",
    "fuse": False,  # none of these networks writes an activation as a formula
}
TINY = "a tiny size, which shows that everything runs and says nothing about the paper"
NOWHERE = Path(os.devnull)  # a directory without files


@dataclass(frozen=True)
class Setting:
    """How items are run."""

    results: Path = RESULTS  # the stored results; signatures are in `signatures/`
    from_scratch: bool = False  # measure instead of reading what is stored
    weights: str = "zoo"  # ours; "default", or "none" for random ones: the paper's, of torchvision
    data: str | None = None  # for the paper's own networks; ours run on CIFAR-10
    data_root: str | None = None  # the directory with the data sets, for measurements
    limit: int | None = None  # how many images the paper's own networks see; by default all
    networks: tuple[str, ...] = ()  # those to take from the cast; by default all
    keep: Path | None = None  # for what is measured, to be read again; laid out as `results`
    progress: bool = True  # show progress bars, on a terminal
    smoke: bool = False  # a tiny size, on images of the package; nothing stored, read or judged

    def __post_init__(self) -> None:
        if self.smoke:
            object.__setattr__(self, "from_scratch", True)
            object.__setattr__(self, "keep", None)
        check_choice("weights", self.weights, WEIGHTS)
        if self.ours and (self.data or self.limit):
            told = "data and limit are for the paper's own networks."
            raise OptionError(f"{told} Pass --weights default too, or leave them out.")
        if not self.ours and self.data is None:
            told = "the paper's own networks need data."
            raise OptionError(f"{told} Pass --data imagefolder:DIR with images of ImageNet.")
        full = ZOO if self.ours else PAPER
        for name in self.networks:  # also for items that take no networks from the cast
            check_choice("network", name, full.names())

    @property
    def ours(self) -> bool:
        """Whether the networks are those of the zoo."""
        return self.weights == "zoo"

    @property
    def cast(self) -> Cast:
        """The networks in the figures."""
        full = ZOO if self.ours else PAPER
        return full.only(self.networks) if self.networks else full

    @property
    def told(self) -> str:
        """What differs from our networks, data and size; empty if nothing does."""
        parts = []
        if not self.ours:
            weights = "random" if self.weights == "none" else "published"
            parts.append(f"the paper's networks with {weights} weights on {self.data}, not ours")
        parts += [] if self.limit is None else [f"{self.limit} images"]
        parts += [TINY] if self.smoke else []
        parts += [f"only {', '.join(self.networks)} of the cast"] if self.networks else []
        return "; ".join(parts)

    def refuse_others(self, items: str) -> None:
        """Refuse what items with networks and data of their own do not take.

        Raises:
            InputError: the setting asks for other networks or data.
        """
        if not self.ours or self.networks:
            told = f"Items {items} have networks and data of their own."
            raise InputError(f"{told} Leave out --weights, --data and --network.")

    def stored(self, file: str, *, written_by: str) -> Path:
        """Return the stored result of an experiment that no item measures itself.

        Args:
            file: its name among the results.
            written_by: what measures it, for the message to those who want it measured again.

        Raises:
            InputError: the setting asks for other networks or for a measurement, or the file is
                missing.
        """
        if not self.ours:
            told = "this item is about networks of one experiment only."
            raise InputError(f"{told} Leave out --weights and --data.")
        if self.from_scratch:
            raise InputError(f"this item only reads results. {written_by}")
        place = self.results / file
        if not place.is_file():
            raise InputError(f"{place} is missing. Restore the file from the repository.")
        return place

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

        Names of the zoo may leave out `sigmascope/`: `vit:0-init`. `data` and `images` are by
        default those of the setting, and the options of `sigmascope.signature` are `OPTIONS`.

        Raises:
            InputError: they are not stored, or cannot be measured; the message says what to do.
        """
        wanted = [name if "/" in name else f"sigmascope/{name}" for name in names]
        if not self.ours and any(name.startswith("sigmascope/") for name in wanted):
            told = "this item is about networks of the zoo only."
            raise InputError(f"{told} Leave out --weights and --data.")
        limit = images if self.ours else self.limit
        chosen = Selection(data or self.data or DATA, self.data_root, limit=limit, batch_size=batch)
        folder = self._folder(chosen, options)
        self._check_stored(folder, wanted)
        weights = "none" if self.weights == "none" else "default"
        how: dict[str, Any] = {"weights": weights, "options": {**OPTIONS, **options}}
        return [self._run(request_for([name], chosen, **how), folder) for name in wanted]

    def signature(self, name: str, kind: str, measure: Callable[..., Signature]) -> Signature:
        """Return a signature that an item measures by a procedure of its own, or that is stored.

        `name`, the network, names the file; `kind`, what is special about it, names the directory.

        Raises:
            ResumeError: the file has a signature of another network, or is open in another run.
            InputError: it is not stored.
        """
        folder = self._home / _folder_name([kind])
        place = files_of(folder, name).finished
        self._check_stored(folder, [name])
        keeps = self._measures and self.keep is not None
        with claim_beside(place) if keeps else nullcontext():
            if place.exists():
                found = load(place)
                check_identity(place, {"name": found.name}, {"name": name})
                return found
            found = measure()
            if keeps:
                found.save(place)
        return found

    @property
    def _home(self) -> Path:
        """The directory of the signatures: those stored, or those measured."""
        if not self._measures:
            return self.results / "signatures"
        return self.keep / "signatures" if self.keep else NOWHERE

    def _folder(self, chosen: Selection, options: Mapping[str, Any]) -> Path:
        """Return the directory of signatures of one kind; its name says what is unusual."""
        given = {"images": chosen.limit, "batch": chosen.batch_size, "weights": self.weights}
        usual = {"images": IMAGES if self.ours else None, "batch": BATCH, "weights": "zoo"}
        unusual = {key: value for key, value in given.items() if value != usual[key]}
        words = {**unusual, **options}.items()
        told = [f"{key}-{OLD_VALUES.get(str(value), value)}" for key, value in words]
        return self._home / _folder_name([chosen.name, *told])

    def _run(self, request: Request, folder: Path) -> Run:
        """Read a signature, or measure it."""
        (name,) = request.names
        place = files_of(folder, name)
        if finished(place, request, name) is not None:
            (found,) = read_runs([place.finished]).runs
            return found
        target = place.finished if self.keep else None
        (outcome,) = measure_runs(request, target, progress=self.progress)
        if outcome.signature is None:
            reason = outcome.failure.message if outcome.failure else outcome.state
            raise InputError(f"{name} could not be measured: {reason}")
        return Run(outcome.signature, Path(name), outcome.facts)

    def _check_stored(self, folder: Path, names: Sequence[str]) -> None:
        missing = [name for name in names if not files_of(folder, name).finished.is_file()]
        if missing and not self._measures:
            told = f"{folder} has no signature of {', '.join(missing)}."
            raise InputError(f"{told} Measure it again with --from-scratch.")


def _folder_name(words: Sequence[str]) -> str:
    """Return a name that any file system accepts; a digest replaces the colon of a path.

    >>> _folder_name(["cifar10", "batch-128"]), _folder_name(["imagefolder:/data/val"])
    ('cifar10-batch-128', 'imagefolder-data-val-992559cb')
    """
    text = "-".join(words)
    name = re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-.")
    if ":" not in text:
        return name
    return f"{name[-60:].strip('-.')}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def signatures_of(runs: Sequence[Run]) -> dict[str, Signature]:
    """Return the signatures by the names of their networks, without `sigmascope/`."""
    return {run.signature.name.removeprefix("sigmascope/"): run.signature for run in runs}


def facts_of(runs: Sequence[Run]) -> dict[str, Facts]:
    """Return the facts by the names of the signatures."""
    return {run.signature.name: run.facts for run in runs if run.facts is not None}
