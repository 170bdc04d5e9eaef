"""What is known of one activation call of a network: its scores, their spread and why."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from sigmascope.capture.call_site import CallInput
from sigmascope.errors import InputError

NOT_MEASURED = "the {} score was not measured (estimator={!r})"
ONLY_LAST = "only a last batch that is smaller than the first makes this call"
BEFORE = "measured before version 0.2, which had no population score. Measure again"

COUNT = re.compile("[0-9]{1,9}")


@dataclass(frozen=True)
class Scatter:
    """How much the published score of a site varies between batches; NaN for a single batch.

    All batches share the bias of their size, so this is no interval for the population score.

    Attributes:
        std: the standard deviation over the batches (divisor b - 1).
        low, high: the 95 % confidence interval of the mean over batches, by Student's t.

    >>> import torch
    >>> import sigmascope as sg
    >>> x = torch.randn(256, 4, generator=torch.Generator().manual_seed(0))
    >>> site = sg.signature(torch.nn.Sequential(torch.nn.ReLU()), x.split(64)).sites[0]
    >>> site.scatter.low < site.score < site.scatter.high
    True
    """

    std: float
    low: float
    high: float


@dataclass(frozen=True)
class PairHistogram:
    """How often inputs and outputs of an activation occur together, over all channels.

    The values are those that the score sees: pooled, and of the first samples only. Both ranges
    leave out the outermost hundredths, which count in the cells at the border.

    Attributes:
        x_range, y_range: the lowest and highest input and output.
        rows: for each interval of inputs, from low to high, the counts by interval of outputs, as
            whole numbers with spaces between them, which keeps files short.

    Raises:
        InputError: the rows are not such a table.

    >>> PairHistogram((-1.0, 1.0), (0.0, 1.0), ("3 0", "1 2")).counts
    [[3, 0], [1, 2]]
    """

    x_range: tuple[float, float]
    y_range: tuple[float, float]
    rows: tuple[str, ...]

    def __post_init__(self) -> None:
        cells = [row.split(" ") for row in self.rows]
        square = all(len(row) == len(cells) for row in cells)
        if not square or not all(COUNT.fullmatch(cell) for row in cells for cell in row):
            raise InputError("rows must be a square table of whole numbers with spaces between.")

    @property
    def counts(self) -> list[list[int]]:
        """The counts, by interval of inputs and then by interval of outputs."""
        return [[int(cell) for cell in row.split(" ")] for row in self.rows]


@dataclass(frozen=True)
class Population:
    """The population score of a site; see `Site`, which has the same fields."""

    population: float = math.nan
    stderr: float = math.nan
    low: float = math.nan
    high: float = math.nan
    influence: tuple[float, ...] = ()
    population_n: int = 0
    population_reason: str = ""
    moved: int = 0
    tested: int = 0
    dead: float = math.nan
    gain: float = math.nan
    histogram: PairHistogram | None = None


@dataclass(frozen=True)
class Site(CallInput):
    """One activation call of a network; see `CallInput` for path, call, kind, shape and axes.

    Attributes:
        score: the published score: the mean affinity score over the batches; NaN only with a
            `reason`.
        scatter: how much it varies between batches.
        batches: the number of batches with a score.
        scores: the score of each batch that made the call; NaN where it has none.
        n: samples of the first batch that could be read; shape and axes are those of that batch.
        dim: channels.
        certified: how the optimal transports were proved, with the number of batches.
        metrics: the means of the companion metrics; NaN only with a reason.
        metric_reasons: by their names, why there is no mean, or why some batches do not count.
        reason: why there is no published score, or why some batches have none.
        population: the score of the population that the samples come from, without the bias of a
            batch's size, see `Moments`; NaN only with a `population_reason`.
        stderr: its standard error.
        low, high: its 95 % confidence interval.
        influence: the share of each group of samples in its deviation, see `PopulationScore`.
        population_n: the number of rows that it rests on.
        population_reason: why there is no population score or no interval.
        moved, tested: on how many of how many sampled rows the identity coupling is not optimal.
            The population score keeps it, and is a lower bound there.
        dead: the share of channels whose output is the same for all samples; with the population
            score, as `gain`.
        gain: how much the output varies for the input: the root of the ratio of total variances.
        histogram: how often inputs and outputs occur together; with the population score.

    >>> import torch
    >>> import sigmascope as sg
    >>> _ = torch.manual_seed(0)
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    >>> site = sg.signature(network, torch.randn(256, 4))["1"]
    >>> site.kind, site.dim, site.n, site.low < site.population < site.high
    ('relu', 4, 256, True)
    """

    score: float
    scatter: Scatter = field(metadata={"formerly": ("std", "low", "high")})
    batches: int
    scores: tuple[float, ...]
    n: int
    dim: int
    certified: dict[str, int]
    metrics: dict[str, float]
    metric_reasons: dict[str, str]
    reason: str
    population: float = field(default=math.nan, metadata={"later": True})
    stderr: float = field(default=math.nan, metadata={"later": True})
    low: float = field(default=math.nan, metadata={"later": True})
    high: float = field(default=math.nan, metadata={"later": True})
    influence: tuple[float, ...] = field(default=(), metadata={"later": True})
    population_n: int = field(default=0, metadata={"later": True})
    population_reason: str = field(default=BEFORE, metadata={"later": True})
    moved: int = field(default=0, metadata={"later": True})
    tested: int = field(default=0, metadata={"later": True})
    dead: float = field(default=math.nan, metadata={"later": True})
    gain: float = field(default=math.nan, metadata={"later": True})
    histogram: PairHistogram | None = field(default=None, metadata={"later": True})

    @property
    def std(self) -> float:
        """The standard deviation of the published score over the batches, `scatter.std`."""
        return self.scatter.std

    @property
    def bias(self) -> float:
        """The published score minus the population score; NaN where one is missing."""
        return self.score - self.population
