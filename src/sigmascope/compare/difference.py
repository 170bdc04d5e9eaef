"""The difference between two signatures, site by site and in summary, with intervals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sigmascope.checks import check_kind
from sigmascope.compare.contrast import Contrast, contrast, same_samples
from sigmascope.compare.jackknife import ALONG
from sigmascope.compare.networks import checked_networks
from sigmascope.errors import InputError
from sigmascope.measure.result import Signature, Site
from sigmascope.tables import Columns, Table, Tabular

if TYPE_CHECKING:
    from sigmascope.figures.drawn import Drawn

SUMMARY = ("mean", "median", "min", "spread")
CHANCE = 0.05  # of the intervals that exclude 0 where there is no difference
LISTED = 8  # sites of one network only that are printed
MARK = "*"
PAIRINGS = {
    False: "so the samples count as independent; if they are the same, pass paired=True",
    True: "and the samples are paired as requested",
}
# A difference in one of these options changes what a population score means.
MEANING = ("eps", "pool", "samples", "mode", "gates")


@dataclass(frozen=True, repr=False, eq=False)
class Difference(Tabular):
    """The population scores of network a minus those of network b.

    Attributes:
        names: of a and b.
        sites: one contrast per site that both have, in the order of a.
        summary: one contrast for each of mean, median, min and spread, over all sites of each.
        only_a, only_b: names of the sites that the other does not have.
        paired: whether the intervals follow from the differences of the same samples; otherwise
            they add the variances of both, as if the samples were independent.
        samples: of each.
        notes: what else a reader should know.

    >>> import torch
    >>> import sigmascope as sg
    >>> a = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())
    >>> b = torch.nn.Sequential(a[0], torch.nn.ReLU())
    >>> x = torch.randn(256, 4)
    >>> found = sg.difference(sg.signature(a, x), sg.signature(b, x))
    >>> found.paired, found.samples, found.sites[0].low > 0  # tanh is the more affine one
    (True, (256, 256), True)
    """

    names: tuple[str, str]
    sites: tuple[Contrast, ...]
    summary: tuple[Contrast, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    paired: bool
    samples: tuple[int, int]
    notes: tuple[str, ...]

    def to_dict(self, prefix: str = "") -> dict[str, float]:
        """Return the numbers for a logger: `{prefix}{site}/low`, `{prefix}summary/mean/low`."""
        rows = [(one.name, one) for one in self.sites]
        rows += [(f"summary/{one.name}", one) for one in self.summary]
        return {
            f"{prefix}{name}/{column}": getattr(one, column)
            for name, one in rows
            for column in ("a", "b", "difference", "stderr", "low", "high")
        }

    def plot(self) -> Drawn:
        """Draw every difference with its interval; see `sigmascope.figures.draw_difference`."""
        from sigmascope.figures.difference import draw_difference

        return draw_difference(self)

    def _columns(self) -> Columns:
        names = ("a", "b", "difference", "stderr", "low", "high", "excludes_zero", "reason")
        columns = {name: [getattr(one, name) for one in self.sites] for name in names}
        return {"site": [one.name for one in self.sites], **columns}

    def _tables(self) -> list[Table]:
        how = "paired" if self.paired else "independent samples"
        title = f"Population scores, a = {self.names[0]} minus b = {self.names[1]}, {how}"
        sites = [_printed("site", self.sites)] if self.sites else []
        first, *rest = [*sites, _printed("statistic", self.summary)]
        tables = [Table(first, title), *map(Table, rest)]
        return [*tables[:-1], Table(tables[-1].columns, tables[-1].title, list(self._remarks()))]

    def _remarks(self) -> Iterator[str]:
        known = [one for one in self.sites if math.isfinite(one.low)]
        if known:
            found = sum(one.excludes_zero for one in known)
            yield (
                f"{found} of {len(known)} intervals of sites exclude 0 ({MARK}); without any "
                f"difference, about {CHANCE * len(known):.1f} would by chance (95 % intervals)."
            )
        for name, only in zip(self.names, (self.only_a, self.only_b), strict=True):
            if only:
                more = f", and {len(only) - LISTED} more" if len(only) > LISTED else ""
                yield f"Only in {name}: {', '.join(only[:LISTED])}{more}."
        for reason, count in Counter(one.reason for one in self.sites if one.reason).items():
            yield f"No interval at {count} site{'s' * (count != 1)}: {reason}."
        yield from (f"Note: {note}." for note in self.notes)


def difference(a: Signature, b: Signature, *, paired: bool | None = None) -> Difference:
    r"""Return the population scores of network a minus those of b, with 95 % intervals.

    Per site, matched by path and call, and for mean, median, min and spread over the sites of each
    network. On the same samples most of the sampling error cancels: the variance is the jackknife
    of the *difference* over the same groups of samples, $\frac{G - 1}{G} \sum_g (\Delta_g - \bar
    \Delta)^2$, with $\Delta_g$ the difference without group g, and Student's t with G - 1 degrees
    of freedom, plus the square of the difference of what the removal of the bias leaves open.
    Otherwise the variances of both add up (Welch).

    Args:
        a: measured with estimator "both" or "population".
        b: as well.
        paired: whether sample i is the same in both; by default if the digests of the data
            agree. Pass True where only the preprocessing or the batch size differs.

    Raises:
        InputTypeError: something other than signatures.
        InputError: no population score at all; paired=True with different numbers of samples.
        OptionError: measured without population scores.

    >>> import torch
    >>> from sigmascope.measure.signature import signature
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    >>> measured = signature(network, [torch.randn(256, 4)], name="small", progress=False)
    >>> difference(measured, measured).sites[0].high
    0.0
    """
    for name, given in (("a", a), ("b", b)):
        check_kind(name, given, Signature, "sigmascope.signature or sigmascope.load")
    names = checked_networks([a, b], "population").names
    if paired and a.samples != b.samples and not _rows(a) & _rows(b):
        raise InputError(
            f"paired=True needs the same samples, and {names[0]} has {a.samples}, {names[1]} "
            f"{b.samples}. Leave paired out."
        )
    together = same_samples(a, b) if paired is None else paired
    one, other = _matched(a, b)
    sites = [
        _reasoned(
            contrast(site.name, [site], [other[key]], ALONG["min"], together), site, other[key]
        )
        for key, site in one.items()
        if key in other
    ]
    return Difference(
        names=(names[0], names[1]),
        sites=tuple(sites),
        summary=tuple(
            contrast(name, _scored(a), _scored(b), ALONG[name], together) for name in SUMMARY
        ),
        only_a=tuple(site.name for key, site in one.items() if key not in other),
        only_b=tuple(site.name for key, site in other.items() if key not in one),
        paired=together,
        samples=(a.samples, b.samples),
        notes=tuple(_notes(a, b, asked=paired)),
    )


def _matched(a: Signature, b: Signature) -> list[dict[tuple[str, int, str], Site]]:
    """Return the sites of both by path and call, and by kind where calls share both."""
    counts = [Counter((site.path, site.call) for site in one.sites) for one in (a, b)]
    shared = {place for count in counts for place, times in count.items() if times > 1}
    return [
        {
            (site.path, site.call, site.kind if (site.path, site.call) in shared else ""): site
            for site in one.sites
        }
        for one in (a, b)
    ]


def _rows(signature: Signature) -> set[int]:
    """Return on how many rows population scores rest: a smaller last batch counts there too."""
    return {site.population_n for site in signature.sites if site.population_n}


def _scored(signature: Signature) -> list[Site]:
    return [site for site in signature.counted if math.isfinite(site.population)]


def _reasoned(found: Contrast, *sites: Site) -> Contrast:
    reasons = dict.fromkeys(site.population_reason for site in sites if site.population_reason)
    return found if math.isfinite(found.low) else replace(found, reason="; ".join(reasons))


def _notes(a: Signature, b: Signature, *, asked: bool | None) -> Iterator[str]:
    if not same_samples(a, b) and asked is not False:
        yield f"the digests of the data differ, {PAIRINGS[bool(asked)]}"
    bounds = sum(site.moved > 0 for one in (a, b) for site in one.sites)
    if bounds:
        yield (
            f"at {bounds} of {len(a) + len(b)} sites the population score is a lower bound, "
            "because the identity coupling is not optimal"
        )
    options = [name for name in MEANING if getattr(a.options, name) != getattr(b.options, name)]
    if options:
        yield f"measured with different settings ({', '.join(options)}), so compare with care"


def _printed(head: str, contrasts: Sequence[Contrast]) -> Columns:
    """Return the columns of a printed table."""
    known = [math.isfinite(one.low) for one in contrasts]
    signed = [
        f"{one.difference:+z.4f}" if not math.isnan(one.difference) else "–" for one in contrasts
    ]
    ends = [
        f"{one.low:+z.4f} to {one.high:+z.4f}" if finite else "–"
        for one, finite in zip(contrasts, known, strict=True)
    ]
    return {
        head: [one.name for one in contrasts],
        "a": [one.a for one in contrasts],
        "b": [one.b for one in contrasts],
        "a - b": signed,
        "95 % interval": ends,
        "": [MARK * one.excludes_zero for one in contrasts],
    }
