"""The non-linearity signature of a network: the affinity score of every activation call it makes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sigmascope.errors import MissingExtraError
from sigmascope.measure.options import Options
from sigmascope.measure.table import as_html, as_text
from sigmascope.store import decode, encode, read_json, write_json

if TYPE_CHECKING:
    import pandas

__all__ = ["Coverage", "Signature", "Site", "Skipped", "load"]

KIND, VERSION = "signature", 1


@dataclass(frozen=True)
class Site:
    """One activation call of a network.

    Attributes:
        path: the module that is the activation, or that calls the function; empty for the network
            itself.
        call: which call of that module it is, from 0.
        kind: the name of the activation.
        score: the mean affinity score over the batches; NaN only with a `reason`.
        std: the standard deviation over the batches (divisor b - 1); NaN for a single batch.
        low, high: the 95 % confidence interval of the mean, by Student's t; NaN for a single batch.
        batches: how many batches were scored.
        scores: the score of each batch that made the call; NaN where it has none.
        n: samples of the first batch that could be read.
        dim: channels.
        shape, dtype: of the input in that batch, before pooling.
        channel_axis: the axis of the channels in it; None where there is no other axis.
        axis_reason: how that is known.
        certified: how the optimal transports were proved, with the number of batches.
        metrics: the means of the companion metrics; NaN only with a reason.
        metric_reasons: by their names, why there is no mean, or why some batches do not count.
        reason: why there is no score, or why some batches have none.
    """

    path: str
    call: int
    kind: str
    score: float
    std: float
    low: float
    high: float
    batches: int
    scores: tuple[float, ...]
    n: int
    dim: int
    shape: tuple[int, ...]
    dtype: str
    channel_axis: int | None
    axis_reason: str
    certified: dict[str, int]
    metrics: dict[str, float]
    metric_reasons: dict[str, str]
    reason: str

    @property
    def name(self) -> str:
        """The path with the number of the call, such as `layer1.0.relu#2`; the first call has no number."""
        return (self.path or "(network)") + (f"#{self.call}" if self.call else "")


@dataclass(frozen=True)
class Skipped:
    """An activation call that is no site, and why."""

    path: str
    call: int
    kind: str
    reason: str


@dataclass(frozen=True)
class Coverage:
    """What was seen and what was not.

    Attributes:
        seen: activation calls.
        scored: calls with a score.
        failed: calls of samples without a score; their sites say why.
        skipped: calls that no score is defined for.
        silent: activation modules of the network that never ran.
        notes: what else a reader should know.
    """

    seen: int
    scored: int
    failed: int
    skipped: tuple[Skipped, ...]
    silent: tuple[str, ...]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        parts = [f"{self.seen} activation call{'s' * (self.seen != 1)} seen, {self.scored} scored"]
        parts += [f"{self.failed} without a score"] if self.failed else []
        parts += [f"{len(self.skipped)} skipped"] if self.skipped else []
        parts += (
            [f"{len(self.silent)} activation module{'s' * (len(self.silent) != 1)} never ran"]
            if self.silent
            else []
        )
        return ", ".join(parts)


@dataclass(frozen=True, repr=False)
class Signature:
    """The affinity scores of a network's activation calls, in order of execution.

    Attributes:
        name: of the network.
        sites: one per activation call.
        coverage: what was seen, scored, skipped, silent.
        options: what was asked for.
        batches, samples: how many were scored.
        model, data: fingerprints of the weights and of the batches.
        parameters: how many numbers the network has learned.
        device: where it ran.
        versions: of Python and the packages that matter.
    """

    name: str
    sites: tuple[Site, ...]
    coverage: Coverage
    options: Options
    batches: int
    samples: int
    model: str
    data: str
    parameters: int
    device: str
    versions: dict[str, str]

    @property
    def scores(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The scores of all sites, in order; NaN where there is none."""
        return np.array([site.score for site in self.sites], dtype=np.float64)

    def __len__(self) -> int:
        return len(self.sites)

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)

    def summary(self) -> dict[str, float]:
        """Return statistics over the sites that have a score: min, median, max, mean, std (divisor
        k), spread, iqr.
        """
        scores = self.scores[np.isfinite(self.scores)]
        if not len(scores):
            return dict.fromkeys(STATISTICS, math.nan)
        return {name: float(statistic(scores)) for name, statistic in STATISTICS.items()}

    def to_frame(self) -> pandas.DataFrame:
        """Return a pandas DataFrame with one row per site; metrics are columns.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise MissingExtraError(
                "to_frame needs pandas: pip install 'sigmascope[analysis]'."
            ) from error
        names = [field.name for field in fields(Site) if field.name != "metrics"]
        rows = [
            {"site": site.name} | {name: getattr(site, name) for name in names} | site.metrics
            for site in self.sites
        ]
        return pandas.DataFrame(rows)

    def save(self, path: str | Path) -> Path:
        """Write the signature to a JSON file, which replaces an older one at once or not at all;
        see `sigmascope.load`.
        """
        write_json(path, KIND, VERSION, encode(self))
        return Path(path)


STATISTICS: dict[str, Callable[[np.ndarray[Any, Any]], Any]] = {
    "min": np.min,
    "median": np.median,
    "max": np.max,
    "mean": np.mean,
    "std": np.std,
    "spread": np.ptp,
    "iqr": lambda scores: np.subtract(*np.percentile(scores, [75, 25])),
}


def load(path: str | Path) -> Signature:
    """Read a signature that `Signature.save` wrote.

    Raises:
        FileNotFoundError: no such file.
        FileFormatError: truncated, foreign, newer than this version, or hostile.
    """
    signature: Signature = decode(Signature, read_json(path, KIND, VERSION), f"{path}: content")
    return signature
