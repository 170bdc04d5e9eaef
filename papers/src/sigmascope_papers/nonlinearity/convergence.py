"""How the scores of a network converge with the number of images: means, bands and limits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.stats import t as student

from sigmascope_papers.chance import Array

WANTED = 0.01  # two decimals
POWERS = {"1 / n": 1.0, "1 / √n": 0.5}
CONFIDENCE = 0.95
SMALLEST = 1e-6  # of an error


@dataclass(frozen=True, eq=False)
class Convergence:
    """The scores of a network by the number of images."""

    scores: dict[int, Array]  # n -> (r, k): r disjoint batches of n images, k calls; n increases
    calls: tuple[str, ...] = ()

    @property
    def sizes(self) -> Array:
        """The numbers of images, (m,)."""
        return np.array(list(self.scores), dtype=np.float64)

    @cached_property
    def means(self) -> Array:
        """The mean over the batches, (m, k)."""
        return np.stack([batches.mean(axis=0) for batches in self.scores.values()])

    @cached_property
    def deviations(self) -> Array:
        """The std over the batches, (m, k); for one batch, that of the size before by √n."""
        found: list[Array] = []
        for place, batches in enumerate(self.scores.values()):
            if len(batches) > 1:
                found.append(batches.std(axis=0, ddof=1))
            elif found:
                shrinks = np.sqrt(self.sizes[place - 1] / self.sizes[place])
                found.append(found[-1] * shrinks)
            else:
                found.append(0 * batches[0])
        return np.stack(found)

    @property
    def quantiles(self) -> Array:
        """Half the width of a 95 % band in standard deviations, (m, 1), by Student's t."""
        counts, known = [len(batches) for batches in self.scores.values()], []
        for place in range(len(counts)):  # as many batches as the deviation comes from
            known.append(next((count for count in counts[place::-1] if count > 1), 2))
        return np.array([[quantile(count)] for count in known])

    @property
    def errors(self) -> Array:
        """The standard error of the means, (m, k)."""
        counts = np.array([[len(batches)] for batches in self.scores.values()])
        errors: Array = self.deviations / np.sqrt(counts)
        return errors

    @property
    def bands(self) -> Array:
        """Half the width of the 95 % band of the means, (m, k)."""
        bands: Array = self.quantiles * self.errors
        return bands

    @cached_property
    def form(self) -> str:
        """Which of `POWERS` fits the mean score over the calls better."""
        level = self.means.mean(axis=1, keepdims=True)
        # The mean over the calls of each batch, since calls of one batch err together.
        batches = [one.mean(axis=1) for one in self.scores.values()]
        errors = [
            one.std(ddof=1) / np.sqrt(len(one)) if len(one) > 1 else np.nan for one in batches
        ]
        error = np.array(errors)[:, None]
        largest = np.nanmax(error, initial=SMALLEST)
        error = np.where(np.isfinite(error) & (error > 0), error, largest)
        left = {form: _fit(self.sizes, level, error, power)[2] for form, power in POWERS.items()}
        return min(left, key=lambda form: float(left[form].sum()))

    @property
    def other_form(self) -> str:
        """The one of `POWERS` that fits worse."""
        return next(name for name in POWERS if name != self.form)

    def _fitted(self, form: str) -> tuple[Array, Array, Array]:
        return _fit(self.sizes, self.means, np.maximum(self.errors, SMALLEST), POWERS[form])

    def fitting(self) -> int:
        """Return how many calls, each for itself, the form fits at least as well as the other."""
        own, other = (self._fitted(form)[2] for form in (self.form, self.other_form))
        return int((own <= other).sum())

    @cached_property
    def limits(self) -> Array:
        """The extrapolated score of each call, (k,)."""
        return self._fitted(self.form)[0]

    def unbiased_from(self) -> int:
        """Return the n from which on the fitted bias is at most 0.01 at every call."""
        largest = float(np.abs(self._fitted(self.form)[1]).max())
        return int(np.ceil((largest / WANTED) ** (1 / POWERS[self.form])))

    def within(self, n: int, *, batch: bool = False, form: str | None = None) -> Array:
        """Return how far, with 95 % confidence, the mean, or one batch, is from the limit, (k,)."""
        place = list(self.scores).index(n)
        noise = (self.quantiles * self.deviations if batch else self.bands)[place]
        limits = self.limits if form is None else self._fitted(form)[0]
        off: Array = np.abs(self.means[place] - limits) + noise
        return off

    def needed(self, *, batch: bool) -> int | None:
        """Return the least n from which on every call is within 0.01; None if there is none."""
        first = None
        for n in reversed(self.scores):
            if not (self.within(n, batch=batch) <= WANTED).all():
                break
            first = n
        return first

    def apart(self, n: int) -> Array:
        """Return the mean distance over the calls of each batch from the largest n, (r,)."""
        distances: Array = np.abs(self.scores[n] - self.means[-1]).mean(axis=1)
        return distances


def quantile(batches: int) -> float:
    """Return the quantile of Student's t for the mean of so many batches."""
    return float(student.ppf((1 + CONFIDENCE) / 2, batches - 1))


def _fit(sizes: Array, means: Array, errors: Array, power: float) -> tuple[Array, Array, Array]:
    """Fit a + b n^-power to each column of means (m, k), weighted; return a, b and what is left."""
    weights = 1 / errors**2
    x = sizes[:, None] ** -power
    total = weights.sum(axis=0)
    center, level = (weights * x).sum(axis=0) / total, (weights * means).sum(axis=0) / total
    covariance = (weights * (x - center) * (means - level)).sum(axis=0)
    slope = covariance / (weights * (x - center) ** 2).sum(axis=0)
    limit = level - slope * center
    return limit, slope, (weights * (means - limit - slope * x) ** 2).sum(axis=0)
