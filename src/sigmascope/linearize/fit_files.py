"""The directory of a linearization, in which an interrupted one continues."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from sigmascope.errors import FileFormatError, InputError, ResumeError
from sigmascope.linearize.linearization import FILE, PLAN, Linearization
from sigmascope.linearize.result import Plan
from sigmascope.linearize.saved import FILE as NETWORK, SavedNetwork, save
from sigmascope.store import check_identity, claim, encode, read_json, write_json
from sigmascope.store.files import output_directory

REQUEST, KIND, VERSION = "request.json", "linearization-request", 1
LOCK = ".linearize.lock"
CHECKPOINTS = ".tune-*.checkpoint"


@dataclass(frozen=True)
class FitFiles:
    """The files of a linearization: request, plan, checkpoints, network and result."""

    folder: Path

    @contextmanager
    def claimed(self, identity: Mapping[str, Any]) -> Iterator[FitFiles]:
        """Reserve the directory for this process and for the run with this identity.

        A run that fails before it has a plan leaves nothing behind, so that other settings can be
        tried in the same directory.

        Raises:
            ResumeError: it belongs to another run, or another process works in it.
            InputError: it holds such files of unknown origin.
        """
        with output_directory(self.folder), claim(self.folder / LOCK) as free:
            if not free:
                raise ResumeError(
                    f"another process is working in {self.folder}. Wait for it to end, or choose "
                    "another directory."
                )
            self._check(encode(dict(identity)))
            try:
                yield self
            except BaseException:
                if not self._has_results():
                    (self.folder / REQUEST).unlink(missing_ok=True)
                raise

    def _has_results(self) -> bool:
        """Return whether there is anything that took time to compute."""
        names = (FILE, PLAN, NETWORK)
        return any((self.folder / name).exists() for name in names) or any(
            self.folder.glob(CHECKPOINTS)
        )

    def _check(self, identity: object) -> None:
        path = self.folder / REQUEST
        if path.is_file():
            there = read_json(path, KIND, VERSION)
            if self._has_results():
                check_identity(self.folder, there, identity)
                return
        foreign = [name for name in (FILE, PLAN, NETWORK) if (self.folder / name).exists()]
        if foreign:
            raise InputError(
                f"{self.folder} holds {', '.join(foreign)} and no {REQUEST} that says of which "
                "run. Choose another directory, or remove them first."
            )
        write_json(path, KIND, VERSION, identity)

    def checkpoint(self, count: int) -> Path:
        """Return the checkpoint of the tuning with so many activations replaced."""
        return self.folder / f".tune-{count}.checkpoint"

    def plan(self) -> Plan | None:
        """Return the plan, if it was made."""
        path = self.folder / PLAN
        if not path.is_file():
            return None
        try:
            return Plan.load(path)
        except (FileFormatError, FileNotFoundError):
            if (self.folder / FILE).exists():
                raise
            return None  # a kill between its two files; it is made again

    def save_plan(self, plan: Plan) -> None:
        """Write the plan."""
        plan.save(self.folder / PLAN)

    def save(self, result: Linearization, network: nn.Module, model: nn.Module) -> None:
        """Write the network and the result, and remove the checkpoints.

        Args:
            result: with what was folded.
            network: before it was folded.
            model: the original.

        Raises:
            FileFormatError: the network that was written cannot be built again.
        """
        path = save(network, self.folder, plan=result.plan, folded=result.folding, name=result.name)
        SavedNetwork.load(path).built(model)
        result.save(self.folder)
        for one in self.folder.glob(CHECKPOINTS):
            one.unlink()

    def finished(self, model: nn.Module) -> Linearization | None:
        """Return the result with its network, if it was written."""
        if not (self.folder / FILE).is_file():
            return None
        network = SavedNetwork.load(self.folder / NETWORK).built(model)
        return replace(Linearization.load(self.folder), network=network)
