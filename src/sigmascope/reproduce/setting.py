"""Where an item takes its signatures from: the folder of stored ones, or a measurement."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sigmascope.errors import InputError
from sigmascope.measure.signature import Signature
from sigmascope.runs import Facts, Run, Selection, measure_runs, read_runs, request_for

__all__ = ["Setting", "facts_of", "signatures_of"]

ZOO_VARIABLE = "SIGMASCOPE_ZOO"
# How the stored signatures were measured; `measured` measures like this too.
IMAGES, BATCH = 2560, 512
OPTIONS: Mapping[str, Any] = {"metrics": "all"}


@dataclass(frozen=True)
class Setting:
    """How items are to be run.

    Attributes:
        zoo: the folder with our trained networks, and their signatures in `signatures/DATA`.
        from_scratch: whether to measure instead of reading what is stored.
        data_root: the folder with the data sets, for measurements.
        progress: whether to show progress bars, on a terminal.
    """

    zoo: Path = field(default_factory=lambda: Path(os.environ.get(ZOO_VARIABLE, "zoo")))
    from_scratch: bool = False
    data_root: str | None = None
    progress: bool = True

    def runs(self, names: Sequence[str], data: str = "cifar10") -> list[Run]:
        """Return the signatures of networks of the zoo, with facts, in this order.

        Args:
            names: as the catalog has them, without `sigmascope/`: `resnet20:0`, `vit:0-init`.
            data: the name of a data set.

        Raises:
            InputError: they are not stored; the message says how to measure them.
        """
        wanted = [f"sigmascope/{name}" for name in names]
        if self.from_scratch:
            return self.measured(wanted, Selection(data, root=self.data_root, limit=IMAGES, batch_size=BATCH))
        folder = self.zoo / "signatures" / data.replace(":", "-")
        stored = {run.signature.name: run for run in read_runs([folder]).runs} if folder.is_dir() else {}
        missing = [name for name in wanted if name not in stored]
        if missing:
            raise InputError(
                f"{folder} has no signature of {', '.join(missing)}. Work in a checkout of sigmascope, set {ZOO_VARIABLE} to "
                "its folder zoo, or measure them: --from-scratch."
            )
        return [stored[name] for name in wanted]

    def measured(self, names: Sequence[str], data: Selection, **options: Any) -> list[Run]:
        """Measure networks, and return what came out.

        Raises:
            InputError: a network could not be measured; why.
        """
        request = request_for(names, data, options={**OPTIONS, **options})
        found = []
        for outcome in measure_runs(request, progress=self.progress):
            if outcome.signature is None:
                reason = outcome.failure.message if outcome.failure else outcome.state
                raise InputError(f"{outcome.name} could not be measured: {reason}")
            found.append(Run(outcome.signature, Path(outcome.name), outcome.facts))
        return found


def signatures_of(runs: Sequence[Run]) -> dict[str, Signature]:
    """Return the signatures by the short names of their networks, without `sigmascope/`."""
    return {run.signature.name.removeprefix("sigmascope/"): run.signature for run in runs}


def facts_of(runs: Sequence[Run]) -> dict[str, Facts]:
    """Return the facts by the names of the signatures."""
    return {run.signature.name: run.facts for run in runs if run.facts is not None}
