"""Does non-linearity go with accuracy? Accuracy fitted on one statistic of the signature, or on
size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.polynomial import Polynomial

from sigmascope.checks import check_choice
from sigmascope.compare.networks import Networks, checked_networks, families_of
from sigmascope.compare.regression import regress
from sigmascope.compare.table import as_frame, as_lines
from sigmascope.errors import InputError, InputTypeError, OptionError
from sigmascope.maths.warping import Curve
from sigmascope.measure.signature import STATISTICS, Signature

if TYPE_CHECKING:
    import pandas

__all__ = ["PREDICTORS", "AccuracyFit", "AccuracyFits", "fit_accuracy"]

SIZES = ("parameters", "flops", "depth")
PREDICTORS = ("best", *STATISTICS, *SIZES)
# Those that "best" chooses from.
SEARCHED = ("min", "max", "mean", "median", "std", "spread")
DEGREES = (1, 2)

Facts = Mapping[str, float | Mapping[str, Any]]


@dataclass(frozen=True, eq=False)
class AccuracyFit:
    """The fit of one family.

    Attributes:
        family: its name.
        on: the predictor.
        degree: of the polynomial.
        names: the n networks that were fitted.
        x: (n,), the predictor of each.
        y: (n,), the accuracy of each.
        coefficients: of 1, x, x²; empty where there is no fit.
        r2: on the networks themselves.
        r2_loo: each network predicted from the others. The predictor was chosen with all of them.
        tried: how many predictors competed; the more, the less the best R² means.
        reason: why there is no fit, or no `r2_loo`.
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

    @property
    def n(self) -> int:
        """How many networks were fitted."""
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
        return np.asarray(
            Polynomial(self.coefficients)(np.asarray(x, dtype=np.float64)), dtype=np.float64
        )


@dataclass(frozen=True, repr=False, eq=False)
class AccuracyFits:
    """The fits of all families.

    Attributes:
        fits: one per family.
        left_out: network -> why it is in no fit.
    """

    fits: tuple[AccuracyFit, ...]
    left_out: dict[str, str]

    def __repr__(self) -> str:
        title = (
            "Accuracy fitted per family; R² on the networks themselves, and each predicted from "
            "the others"
        )
        notes = [f"{fit.family}: {fit.reason}." for fit in self.fits if fit.reason]
        notes += [f"Left out: {name}: {reason}." for name, reason in self.left_out.items()]
        return "\n".join([title, "", *as_lines(self._columns()), *([""] if notes else []), *notes])

    def to_frame(self) -> pandas.DataFrame:
        """Return a pandas DataFrame with one row per family.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        extra: dict[str, Sequence[Any]] = {
            "coefficients": [fit.coefficients for fit in self.fits],
            "reason": [fit.reason for fit in self.fits],
        }
        return as_frame(self._columns() | extra)

    def _columns(self) -> dict[str, Sequence[Any]]:
        names = ("family", "on", "degree", "n", "tried", "r2", "r2_loo")
        return {name: [getattr(fit, name) for fit in self.fits] for name in names}


def fit_accuracy(
    signatures: Sequence[Signature],
    facts: Facts,
    *,
    on: str = "best",
    degree: int = 1,
    families: Mapping[str, str] | None = None,
) -> AccuracyFits:
    """Fit the accuracy of networks on one number per network, family by family, by least squares
    with intercept.

    Families are small and the best of several predictors is picked, so a high R² means little by
    itself: read n, how many were tried, and the leave-one-out R² next to it.

    Args:
        signatures: of one network or more.
        facts: network -> its accuracy, or a mapping with "accuracy" and, as far as known,
            "parameters", "flops", "depth"; None is unknown. Parameters default to those of the
            signature.
        on: a statistic (min, median, max, mean, std, spread, iqr), "parameters", "flops", "depth",
            or "best": the one of min, max, mean, median, std and spread with the highest R².
        degree: 1 or 2.
        families: network -> family; by default all belong to one, called "all".

    Raises:
        InputError, InputTypeError: not a list of signatures with scores, facts that are no numbers,
            or families of none.
        OptionError: another `on` or `degree`.
    """
    check_choice("on", on, PREDICTORS)
    if degree not in DEGREES:
        raise OptionError(f"degree={degree!r} is not offered. Choose 1 or 2.")
    networks = checked_networks(signatures)
    rows = _rows(networks, facts)
    groups = families_of(networks, families)
    candidates = SEARCHED if on == "best" else (on,)
    left_out = {
        name: reason
        for name, row, group in zip(networks.names, rows, groups, strict=True)
        if (reason := _obstacle(row, group, candidates))
    }
    fits = []
    for family in dict.fromkeys(group for group in groups if group):
        own = {
            name: row
            for name, row, group in zip(networks.names, rows, groups, strict=True)
            if group == family and name not in left_out
        }
        fits.append(_best_fit(family, own, candidates, degree))
    return AccuracyFits(tuple(fits), left_out)


def _rows(networks: Networks, facts: Facts) -> list[dict[str, float]]:
    """Return for each network its accuracy and every predictor; NaN where unknown."""
    if not isinstance(facts, Mapping):
        raise InputTypeError(
            f"facts is a {type(facts).__name__}. Pass a mapping such as {{'resnet18': 69.8}}."
        )
    rows = []
    for name, signature, fact in zip(
        networks.names, networks.signatures, networks.look_up(facts), strict=True
    ):
        known = fact if isinstance(fact, Mapping) else {"accuracy": fact}
        told = {key: _number(known.get(key), key, name) for key in ("accuracy", *SIZES)}
        if math.isnan(told["parameters"]):
            told["parameters"] = float(signature.parameters)
        rows.append(told | signature.summary())
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
    best = found[on]
    return AccuracyFit(
        family,
        on,
        degree,
        tuple(rows),
        _column(rows, on),
        accuracy,
        *best[:3],
        len(fitted),
        best.reason,
    )


def _column(rows: Mapping[str, Mapping[str, float]], key: str) -> Curve:
    return np.array([row[key] for row in rows.values()], dtype=np.float64)
