"""Accuracy fitted on one statistic of the signature, or on the size of the network."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.polynomial import Polynomial

from sigmascope.checks import check_choice, check_mapping, check_whole
from sigmascope.choices import Predictor, ScoreKind
from sigmascope.compare.jackknife import statistic_half_widths
from sigmascope.compare.networks import Networks, checked_networks, families_of
from sigmascope.compare.regression import regress
from sigmascope.errors import InputError, InputTypeError
from sigmascope.maths.warping import Curve
from sigmascope.measure.result import STATISTICS, Signature
from sigmascope.tables import Columns, Table, Tabular, as_frame

if TYPE_CHECKING:
    import pandas

    from sigmascope.figures.drawn import Drawn

TITLE = "Accuracy fitted per family; R² on the networks, and leave-one-out: each from the others"
SIZES: tuple[Predictor, ...] = ("parameters", "flops", "depth")
# The statistics that "best" chooses from.
SEARCHED: tuple[Predictor, ...] = ("min", "max", "mean", "median", "std", "spread")

HALF = " ±"  # after the name of a predictor: half the width of its interval

Facts = Mapping[str, float | Mapping[str, Any]]


@dataclass(frozen=True, eq=False)
class AccuracyFit:
    """The fit of one family.

    Attributes:
        family: name of the family.
        on: the predictor.
        degree: degree of the polynomial.
        names: names of the n networks.
        x: (n,), the predictor of each.
        y: (n,), the accuracy of each.
        coefficients: of 1, x, x²; empty where there is no fit.
        r2: on the networks themselves.
        r2_loo: each network predicted from the others; the predictor was chosen with all of them.
        tried: number of predictors that were tried; the more, the less the best R² means.
        reason: why there is no fit, or no `r2_loo`.
        x_half_width: (n,), half the width of the 95 % interval of x; None where x has none.
    """

    family: str
    on: str
    degree: int
    names: tuple[str, ...]
    x: Curve
    y: Curve
    coefficients: tuple[float, ...]
    r2: float
    r2_loo: float
    tried: int
    reason: str
    x_half_width: Curve | None = None

    @property
    def n(self) -> int:
        """Number of networks."""
        return len(self.names)

    def predict(self, x: Curve) -> Curve:
        """Return the fitted accuracies at these values of the predictor.

        Raises:
            InputError: there is no fit.
        """
        if not self.coefficients:
            raise InputError(
                f"There is no fit for {self.family}: {self.reason}. Draw its points alone."
            )
        fitted: Curve = Polynomial(self.coefficients)(np.asarray(x, dtype=np.float64))
        return fitted


@dataclass(frozen=True, repr=False, eq=False)
class AccuracyFits(Tabular):
    """The fits of all families.

    Attributes:
        fits: one per family.
        left_out: network -> why it is in no fit.

    >>> import torch
    >>> import sigmascope as sg
    >>> x = torch.randn(256, 4, generator=torch.Generator().manual_seed(0))
    >>> def measured(slope):
    ...     return sg.signature(torch.nn.Sequential(torch.nn.LeakyReLU(slope)), x, name=f"{slope}")
    >>> fits = sg.fit_accuracy([measured(0.1), measured(0.5)], {"0.1": 60.0}, on="mean")
    >>> fits.left_out
    {'0.5': 'accuracy unknown'}
    """

    fits: tuple[AccuracyFit, ...]
    left_out: dict[str, str]

    def to_frame(self) -> pandas.DataFrame:
        """Return a pandas DataFrame with one row per family.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        more = {
            name: [getattr(fit, name) for fit in self.fits] for name in ("coefficients", "reason")
        }
        return as_frame({**self._columns(), **more})

    def plot(self) -> Drawn:
        """Draw the fit of each family; see `sigmascope.figures.draw_accuracy`."""
        from sigmascope.figures.accuracy import draw_accuracy

        return draw_accuracy(self)

    def _tables(self) -> list[Table]:
        notes = [f"{fit.family}: {fit.reason}." for fit in self.fits if fit.reason]
        notes += [f"Left out: {name}: {reason}." for name, reason in self.left_out.items()]
        return [Table(self._columns(), TITLE, notes)]

    def _columns(self) -> Columns:
        names = ("family", "on", "degree", "n", "tried", "r2", "r2_loo")
        return {name: [getattr(fit, name) for fit in self.fits] for name in names}


def fit_accuracy(
    signatures: Sequence[Signature],
    facts: Facts,
    *,
    on: Predictor = "best",
    degree: int = 1,
    families: Mapping[str, str] | None = None,
    by: ScoreKind | None = None,
) -> AccuracyFits:
    """Return least-squares fits of accuracy on one number per network, one fit per family.

    Families are small and the best of several predictors is picked, so a high R² means little by
    itself: read n, how many were tried, and the leave-one-out R² next to it. As in Bouniot et al.,
    CVPR 2025, arXiv:2310.11439.

    Args:
        signatures: one per network, at least one.
        facts: network -> its accuracy, or a mapping with "accuracy" and, where known, "parameters",
            "flops", "depth"; None is unknown. Parameters default to those of the signature.
        on: a statistic (min, median, max, mean, std, spread, iqr), "parameters", "flops", "depth",
            or "best": the one of min, max, mean, median, std and spread with the highest R².
        degree: 1 or 2; an intercept is always fitted.
        families: network -> family; by default all belong to one, called "all".
        by: "published" or "population" scores; by default published scores if all have them.

    Raises:
        InputError, InputTypeError: not a list of signatures with scores; facts that are not
            numbers; families names none of the networks.
        OptionError: another `on`, `degree` or `by`, or scores that were not measured.

    >>> import torch
    >>> from sigmascope.measure.signature import signature
    >>> x = torch.randn(256, 4, generator=torch.Generator().manual_seed(0))
    >>> def measured(slope):
    ...     network = torch.nn.Sequential(torch.nn.Identity(), torch.nn.LeakyReLU(slope))
    ...     return signature(network, x, name=f"slope {slope}")
    >>> signatures = [measured(slope) for slope in (0.1, 0.3, 0.5, 0.7)]
    >>> accuracies = {one.name: 100 * one.scores[0] for one in signatures}
    >>> round(fit_accuracy(signatures, accuracies, on="mean").fits[0].r2, 6)
    1.0
    """
    check_choice("on", on, Predictor)
    check_whole("degree", degree, 1, 2)
    networks = checked_networks(signatures, by)
    groups = families_of(networks, families)
    rows = dict(zip(networks.names, _rows(networks, facts), strict=True))
    candidates = SEARCHED if on == "best" else (on,)
    members: dict[str, dict[str, Mapping[str, float]]] = {group: {} for group in groups if group}
    left_out = {}
    for (name, row), group in zip(rows.items(), groups, strict=True):
        if reason := _obstacle(row, group, candidates):
            left_out[name] = reason
        else:
            members[group][name] = row
    fits = [_best_fit(family, own, candidates, degree) for family, own in members.items()]
    return AccuracyFits(tuple(fits), left_out)


def _rows(networks: Networks, facts: Facts) -> list[dict[str, float]]:
    """Return for each network its accuracy and every predictor; NaN where unknown."""
    check_mapping("facts", facts, "{'resnet18': 69.8}")
    rows = []
    of_each = zip(networks.names, networks.signatures, networks.curves, strict=True)
    for (name, signature, curve), fact in zip(of_each, networks.look_up(facts), strict=True):
        known = fact if isinstance(fact, Mapping) else {"accuracy": fact}
        told = {key: _number(known.get(key), key, name) for key in ("accuracy", *SIZES)}
        if math.isnan(told["parameters"]):
            told["parameters"] = float(signature.parameters)
        told |= {key: float(statistic(curve)) for key, statistic in STATISTICS.items()}
        if networks.by == "population":
            halves = statistic_half_widths(signature)
            told |= {f"{key}{HALF}": half for key, half in halves.items()}
        rows.append(told)
    return rows


def _number(value: object, key: str, name: str) -> float:
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputTypeError(
            f"The {key} of {name} is {value!r}. Pass a number, or None where it is unknown."
        )
    return float(value)


def _obstacle(row: Mapping[str, float], family: str, candidates: Sequence[str]) -> str:
    if not family:
        return "it has no family"
    unknown = [key for key in ("accuracy", *candidates) if not math.isfinite(row[key])]
    return f"{unknown[0]} unknown" if unknown else ""


def _best_fit(
    family: str, rows: Mapping[str, Mapping[str, float]], candidates: Sequence[str], degree: int
) -> AccuracyFit:
    accuracy = _column(rows, "accuracy")
    found = {key: regress(_column(rows, key), accuracy, degree) for key in candidates}
    fitted = {key: one for key, one in found.items() if one.coefficients}
    on = max(fitted, key=lambda key: fitted[key].r2) if fitted else candidates[0]
    best, x = found[on], _column(rows, on)
    known = all(f"{on}{HALF}" in row for row in rows.values())
    found_by = *best[:3], len(fitted), best.reason, _column(rows, f"{on}{HALF}") if known else None
    return AccuracyFit(family, on, degree, tuple(rows), x, accuracy, *found_by)


def _column(rows: Mapping[str, Mapping[str, float]], key: str) -> Curve:
    return np.array([row[key] for row in rows.values()], dtype=np.float64)
