"""The non-linearity signature of a network: the affinity score of each of its activation calls."""

from __future__ import annotations

import difflib
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sigmascope.capture.call_site import CallSite
from sigmascope.capture.gates import GATE
from sigmascope.checks import check_choice
from sigmascope.choices import ScoreKind, values_of
from sigmascope.errors import OptionError, UnknownSiteError
from sigmascope.measure.options import Options
from sigmascope.measure.site import PairHistogram as PairHistogram, Scatter as Scatter, Site as Site
from sigmascope.measure.table import as_html, as_text
from sigmascope.store import decode, encode, read_json, write_json
from sigmascope.tables import as_frame

if TYPE_CHECKING:
    import pandas

    from sigmascope.figures.drawn import Drawn

KIND, VERSION, OLDEST = "signature", 2, 1


@dataclass(frozen=True)
class Skipped(CallSite):
    """An activation call for which no score is defined, and why; for its role see `CallInput`.

    >>> import torch
    >>> import sigmascope as sg
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GLU())
    >>> [call] = sg.signature(network, torch.randn(64, 4)).coverage.skipped
    >>> call.path, call.kind, call.reason.partition(", so")[0]
    ('1', 'glu', 'input [64, 4] and output [64, 2] differ in shape')
    """

    reason: str
    role: str = field(default="", metadata={"later": True})
    multiplies: str = field(default="", metadata={"later": True})


@dataclass(frozen=True)
class Coverage:
    """How many activation calls were seen and scored, and which were not.

    Attributes:
        seen: activation calls.
        scored: calls with a score.
        failed: calls without a score; their sites say why.
        skipped: calls for which no score is defined.
        never_called: activation modules of the network that never ran.
        notes: what else a reader should know.

    >>> import torch
    >>> import sigmascope as sg
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.GLU())
    >>> found = sg.signature(network, torch.randn(64, 4)).coverage
    >>> found.seen, found.scored, found.failed, len(found.skipped)
    (2, 1, 0, 1)
    """

    seen: int
    scored: int
    failed: int
    skipped: tuple[Skipped, ...]
    never_called: tuple[str, ...] = field(metadata={"formerly": "silent"})
    notes: tuple[str, ...]

    @property
    def silent(self) -> tuple[str, ...]:
        """`never_called`, by its earlier name."""
        return self.never_called

    def __str__(self) -> str:
        parts = [f"{self.seen} activation call{'s' * (self.seen != 1)} seen, {self.scored} scored"]
        parts += [f"{self.failed} without a score"] if self.failed else []
        parts += [f"{len(self.skipped)} skipped"] if self.skipped else []
        unused = len(self.never_called)
        parts += [f"{unused} activation module{'s' * (unused != 1)} never ran"] if unused else []
        return ", ".join(parts)


@dataclass(frozen=True, repr=False)
class Signature:
    """The affinity scores of a network's activation calls, in order of execution.

    Bouniot et al., CVPR 2025, arXiv:2310.11439. A signature prints as a table, iterates over its
    sites, and `signature["layer1.0.relu"]` is the site of that name.

    Attributes:
        name: of the network.
        sites: one per activation call.
        coverage: how many calls were seen, scored and skipped.
        options: how it was measured; `signature(..., options=…)` repeats the measurement.
        batches, samples: how many the published score rests on; all of them if it was not measured.
        model, data: fingerprints of the weights and of the batches.
        parameters: the number of parameters.
        device: where the network ran.
        versions: of Python and the packages that the scores may depend on.

    >>> import torch
    >>> import sigmascope as sg
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Tanh())
    >>> measured = sg.signature(network, torch.randn(64, 4), name="small")
    >>> [site.name for site in measured], measured["2"].kind, measured.samples
    (['1', '2'], 'tanh', 64)
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
        """The scores of all sites, in order, NaN where there is none; see `scores_by`."""
        return self.scores_by()

    def scores_by(self, by: ScoreKind | None = None) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return the published or the population scores of all sites; NaN where there is none.

        Args:
            by: "published" or "population"; by default published scores where they were measured.

        Raises:
            OptionError: these scores were not measured.
        """
        measured = [name for name in values_of(ScoreKind) if getattr(self.options, name)]
        kind = measured[0] if by is None else check_choice("by", by, ScoreKind)
        if kind not in measured:
            raise OptionError(
                f"by={kind!r}, but {self.name} was measured with estimator="
                f"{self.options.estimator!r}. Measure it again with estimator='both', or leave by "
                "out."
            )
        name = "population" if kind == "population" else "score"
        return np.array([getattr(site, name) for site in self.sites], dtype=np.float64)

    @property
    def counted(self) -> tuple[Site, ...]:
        """The sites that count in statistics and comparisons: with gates="out", all but gates."""
        return tuple(site for site in self.sites if self.counts(site))

    def counts(self, site: Site) -> bool:
        """Return whether a site counts in statistics and comparisons."""
        return self.options.gates != "out" or site.role != GATE

    def __len__(self) -> int:
        return len(self.sites)

    def __iter__(self) -> Iterator[Site]:
        return iter(self.sites)

    def __contains__(self, name: object) -> bool:
        return name in self.sites or name in list(self._by_any_name())

    def __getitem__(self, name: str) -> Site:
        """Return a site by its name: its path, followed by `#1` for the second call of the module.

        Raises:
            UnknownSiteError: no such site; the message suggests the nearest names.
        """
        sites, every = self._by_name(), self._by_any_name()
        if name not in every:
            near = difflib.get_close_matches(str(name), sites, n=3, cutoff=0.4) or list(sites)[:3]
            raise UnknownSiteError(
                f"{name!r} is not one of the {len(sites)} sites of {self.name}. The nearest names "
                f"are {', '.join(map(repr, near)) or 'none'}."
            )
        return every[name]

    def _by_any_name(self) -> dict[str, Site]:
        """Return the sites by name, and by the names that they had in earlier versions."""
        return {**{site.former_name: site for site in self.sites}, **self._by_name()}

    def _by_name(self) -> dict[str, Site]:
        """Return the sites by name; where calls share a name, it ends with the kind."""
        counts = Counter(site.name for site in self.sites)
        return {
            site.name if counts[site.name] == 1 else f"{site.name} ({site.kind})": site
            for site in self.sites
        }

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)

    def summary(self, by: ScoreKind | None = None) -> dict[str, float]:
        """Return min, median, max, mean, std, spread and iqr over the sites with a score.

        With gates="out" gates are not among them.

        Args:
            by: "published" or "population", see `scores_by`.
        """
        scores = self.scores_by(by)[[self.counts(site) for site in self.sites]]
        scores = scores[np.isfinite(scores)]
        if not len(scores):
            return dict.fromkeys(STATISTICS, math.nan)
        return {name: float(statistic(scores)) for name, statistic in STATISTICS.items()}

    def to_dict(self, prefix: str = "") -> dict[str, float]:
        """Return the score of each site and the `summary` as one flat dict, for loggers.

        Where both scores were measured, the population score of a site is "SITE/population". A
        statistic with the name of a site, such as "mean", becomes "summary/mean".

        Args:
            prefix: in front of every key, such as "val/".
        """
        sites = self._by_name()
        # a file that was edited may have two sites of one name
        values = {
            id(site): score for site, score in zip(self.sites, self.scores.tolist(), strict=True)
        }
        scores = {name: values[id(site)] for name, site in sites.items()}
        if self.options.estimator == "both":
            scores |= {f"{name}/population": site.population for name, site in sites.items()}
        for name, value in self.summary().items():
            while name in scores:
                name = f"summary/{name}"
            scores[name] = value
        return {f"{prefix}{name}": value for name, value in scores.items()}

    def plot(self, by: ScoreKind | None = None) -> Drawn:
        """Draw the scores in order of execution; see `sigmascope.figures.draw_signature`."""
        # deferred: figures come with matplotlib
        from sigmascope.figures.signature import draw_signature

        return draw_signature(self, by=by)

    def to_frame(self) -> pandas.DataFrame:
        """Return a pandas DataFrame with one row per site; metrics and scatter are columns.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        apart = ("metrics", "scatter", "histogram")
        names = [column.name for column in fields(Site) if column.name not in apart]
        columns: dict[str, list[Any]] = {"site": [site.name for site in self.sites]}
        columns |= {name: [getattr(site, name) for site in self.sites] for name in (*names, "bias")}
        for name in ("std", "low", "high"):
            columns[f"scatter_{name}"] = [getattr(site.scatter, name) for site in self.sites]
        for name in dict.fromkeys(name for site in self.sites for name in site.metrics):
            columns[name] = [site.metrics.get(name, math.nan) for site in self.sites]
        return as_frame(columns)

    def save(self, path: str | Path) -> Path:
        """Write the signature to a JSON file, atomically, and return its path; see `load`."""
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
    """Return the signature in a file that `Signature.save` wrote.

    Raises:
        FileNotFoundError: no such file.
        FileFormatError: not a signature file, corrupt, or newer than this version.
    """
    content = read_json(path, KIND, VERSION, oldest=OLDEST)
    return decode(Signature, content, f"{path}: content")
