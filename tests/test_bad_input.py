"""Every wrong input is refused with an error that says what is wrong and what to do."""

from __future__ import annotations

import math
import re
import sys
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

import sigmascope as sg
from sigmascope import InputError, InputTypeError, MissingExtraError, OptionError, SigmascopeError

GOOD = np.random.default_rng(0).standard_normal((8, 3))
TENSOR = torch.from_numpy(GOOD)
COVARIANCE, MEAN = np.cov(GOOD.T), GOOD.mean(0)


def spoilt(value: float, row: int = 2, column: int = 1) -> np.ndarray:
    copy = GOOD.copy()
    copy[row, column] = value
    return copy


def quietly(function: Callable[..., torch.Tensor], *arguments: Any) -> torch.Tensor:
    """Make a tensor of a kind that torch itself warns about."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments)


class Frame:
    """Looks like an array, as a data frame does."""

    shape, ndim, dtype = GOOD.shape, 2, GOOD.dtype

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return GOOD


# What is passed for a sample -> the error and a pattern of its message, with `NAME` for the
# argument's name.
SAMPLES: dict[str, tuple[Any, type[SigmascopeError], str]] = {
    "nan": (
        spoilt(math.nan),
        InputError,
        r"NAME contains NaN at row 2, column 1 \(1 such value\).*Drop those rows",
    ),
    "two nans": (
        spoilt(math.nan) * spoilt(math.nan, 5, 0),
        InputError,
        r"NaN at row 2, column 1 \(2 such values\).*Drop",
    ),
    "inf": (
        spoilt(math.inf),
        InputError,
        r"NAME contains an infinite value at row 2, column 1.*Drop those rows",
    ),
    "-inf": (
        spoilt(-math.inf),
        InputError,
        r"NAME contains an infinite value at row 2, column 1.*Drop those rows",
    ),
    "1e200": (
        1e200 * GOOD,
        InputError,
        r"NAME reaches \d\.\de\+200: its squares overflow.*Divide NAME by a scale",
    ),
    "beyond float64": (
        GOOD.astype(np.longdouble) * np.longdouble("1e1000"),
        InputError,
        r"NAME contains an infinite.*Drop",
    ),
    "empty": (np.zeros((0, 3)), InputError, r"NAME has 0 rows; at least 2 samples.*transpose"),
    "no columns": (
        np.zeros((8, 0)),
        InputError,
        r"NAME has shape \(8, 0\)\. Pass at least one column",
    ),
    "one row": (GOOD[:1], InputError, r"NAME has 1 row; at least 2 samples are needed.*transpose"),
    "0-d": (np.array(1.0), InputError, r"NAME has shape \(\).*Pass a matrix \(n, d\)"),
    "1-d": (GOOD[:, 0], InputError, r"NAME has shape \(8,\).*Pass NAME\[:, None\]"),
    "3-d": (
        GOOD.reshape(4, 2, 3),
        InputError,
        r"NAME has shape \(4, 2, 3\).*Average the other axes",
    ),
    "4-d": (
        GOOD.reshape(2, 2, 2, 3),
        InputError,
        r"NAME has shape \(2, 2, 2, 3\).*Average the other axes",
    ),
    "integer": (
        GOOD.astype(int),
        InputTypeError,
        r"NAME has dtype int64, not a floating type.*NAME\.astype\(float\)",
    ),
    "bool": (
        GOOD > 0,
        InputTypeError,
        r"NAME has dtype bool, not a floating type.*Convert measurements with",
    ),
    "complex": (GOOD + 1j, InputTypeError, r"NAME is complex128\. Pass its real part"),
    "object": (
        GOOD.astype(object),
        InputTypeError,
        r"NAME has dtype object.*Convert measurements with",
    ),
    "string": (
        GOOD.astype(str),
        InputTypeError,
        r"NAME has dtype <U\d+.*Convert measurements with",
    ),
    "dates": (
        np.zeros((3, 2), "M8[s]"),
        InputTypeError,
        r"NAME has dtype datetime64\[s\].*Convert measurements with",
    ),
    "records": (
        np.zeros((3, 2), [("a", float)]),
        InputTypeError,
        r"NAME has dtype \[\('a', '<f8'\)\].*Convert measurements with",
    ),
    "list": (
        GOOD.tolist(),
        InputTypeError,
        r"NAME is a list\. Pass a NumPy array or a torch tensor",
    ),
    "none": (None, InputTypeError, r"NAME is a NoneType\. Pass a NumPy array or a torch tensor"),
    "float": (1.0, InputTypeError, r"NAME is a float\. Pass a NumPy array or a torch tensor"),
    "word": ("x", InputTypeError, r"NAME is a str\. Pass a NumPy array or a torch tensor"),
    "frame": (
        Frame(),
        InputTypeError,
        r"NAME is a Frame\. Pass .*np\.asarray\(NAME, dtype=float\)",
    ),
    "masked": (
        np.ma.masked_invalid(spoilt(math.nan)),
        InputTypeError,
        r"NAME is a masked array\. Drop the masked rows",
    ),
    "torch nan": (
        torch.from_numpy(spoilt(math.nan)),
        InputError,
        r"NAME contains NaN at row 2, column 1.*Drop those rows",
    ),
    "torch 1-d": (TENSOR[:, 0], InputError, r"NAME has shape \(8,\).*Pass NAME\[:, None\]"),
    "torch 4-d": (
        torch.zeros(4, 3, 2, 2),
        InputError,
        r"NAME has shape \(4, 3, 2, 2\).*NAME\.mean\(\(2, 3\)\)",
    ),
    "torch integer": (
        TENSOR.long(),
        InputTypeError,
        r"NAME has dtype int64, not a floating type.*NAME\.double\(\)",
    ),
    "torch bool": (TENSOR > 0, InputTypeError, r"NAME has dtype bool.*NAME\.double\(\)"),
    "torch complex": (TENSOR + 1j, InputTypeError, r"NAME is complex128\. Pass its real part"),
    "torch half overflow": (
        torch.full((3, 2), 1e5).half(),
        InputError,
        r"NAME contains an infinite value.*Drop those rows",
    ),
    "sparse coo": (
        TENSOR.to_sparse(),
        InputTypeError,
        r"NAME is a sparse tensor\. Call NAME\.to_dense\(\)",
    ),
    "sparse csr": (
        quietly(TENSOR.to_sparse_csr),
        InputTypeError,
        r"NAME is a sparse tensor\. Call NAME\.to_dense\(\)",
    ),
    "meta": (TENSOR.to("meta"), InputTypeError, r"NAME is on the meta device.*Pass real data"),
    "quantized": (
        quietly(torch.quantize_per_tensor, TENSOR.float(), 0.1, 0, torch.qint8),
        InputTypeError,
        r"NAME has dtype qint8.*NAME\.double\(\)",
    ),
}


def partner(bad: Any) -> Any:
    """A good sample of the type and width of a bad one, so that only the bad one is at fault."""
    shape = getattr(bad, "shape", ())
    good = np.resize(GOOD, (8, shape[1] if len(shape) == 2 and shape[1] else 3))
    return torch.from_numpy(good) if isinstance(bad, torch.Tensor) else good


# The functions that take samples, and the argument at fault.
USES: dict[str, tuple[Callable[[Any], object], str]] = {
    "affinity(bad, y)": (lambda bad: sg.affinity(bad, partner(bad)), "x"),
    "affinity(x, bad)": (lambda bad: sg.affinity(partner(bad), bad, covariance="unbiased"), "y"),
    "affinities": (lambda bad: sg.affinities([(GOOD, GOOD), (bad, partner(bad))]), "pair 1: x"),
    "affine_map": (lambda bad: sg.affine_map(partner(bad), bad), "y"),
    "w2_exact": (lambda bad: sg.w2_exact(bad, partner(bad)), "x"),
    "ledoit_wolf": (lambda bad: sg.ledoit_wolf(bad), "x"),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("bad", SAMPLES)
def test_bad_sample(bad: str, use: str) -> None:
    value, error, pattern = SAMPLES[bad]
    function, name = USES[use]
    start = pattern.startswith("NAME")
    pattern = pattern.replace("NAME", name, 1).replace("NAME", name[-1]) if start else pattern
    with pytest.raises(error, match=("^" if start else "") + pattern):
        function(value)


def gaussian(**changed: Any) -> Callable[[], object]:
    good = {"mean_x": MEAN, "covariance_x": COVARIANCE, "mean_y": MEAN, "covariance_y": COVARIANCE}
    return lambda: sg.w2_gaussian(**(good | changed))


def score(x: Any = GOOD, y: Any = GOOD, **options: Any) -> Callable[[], object]:
    return lambda: sg.affinity(x, y, **options)


EPS = "eps must be None or a number >= 0 such as 1e-6"
NOT_A_PAIR = r"^pair 0 is not a pair \(x, y\) of samples\. Pass a list of such pairs"
CALLS: dict[str, tuple[Callable[[], object], type[SigmascopeError], str]] = {
    "numpy and torch": (
        score(GOOD, TENSOR),
        InputTypeError,
        "different kinds, one NumPy and one torch. Pass both",
    ),
    "torch and numpy": (
        lambda: sg.w2_exact(TENSOR, GOOD),
        InputTypeError,
        "different kinds, one NumPy and one torch. Pass",
    ),
    "cpu and meta": (
        score(TENSOR, TENSOR.to("meta")),
        InputTypeError,
        "^y is on the meta device.*Pass",
    ),
    "widths": (
        score(y=GOOD[:, :2]),
        InputError,
        "x has 3 columns and y 2.*equal widths.*same channels as columns",
    ),
    "widths, map": (
        lambda: sg.affine_map(GOOD, GOOD[:, :2]),
        InputError,
        "x has 3 columns and y 2.*equal widths",
    ),
    "paired, unequal": (
        score(y=GOOD[:5], coupling="paired"),
        InputError,
        "8 rows and y 5.*Use coupling='optimal'",
    ),
    "covariance, near": (
        score(covariance="ledoit_wolf"),
        OptionError,
        "Did you mean 'ledoit-wolf'.*Choose from",
    ),
    "covariance, case": (
        score(covariance="Unbiased"),
        OptionError,
        "Did you mean 'unbiased'.*Choose from",
    ),
    "covariance, far": (
        score(covariance="oas"),
        OptionError,
        "^covariance='oas' is not a valid choice. Choose from 'ledoit-wolf', 'un",
    ),
    "covariance, list": (
        score(covariance=["unbiased"]),
        OptionError,
        r"covariance=\['unbiased'\] is not a valid choice. Choose",
    ),
    "covariance, none": (
        score(covariance=None),
        OptionError,
        "covariance=None is not a valid choice. Choose",
    ),
    "covariance, map": (
        lambda: sg.affine_map(GOOD, GOOD, covariance="plain"),
        OptionError,
        "='plain' is not a valid choice.*Choose",
    ),
    "degenerate, near": (
        score(degenerate="publish"),
        OptionError,
        "Did you mean 'published'.*Choose from 'nan', 'published'",
    ),
    "degenerate, float": (
        score(degenerate=math.nan),
        OptionError,
        "degenerate=nan is not a valid choice. Choose from 'nan'",
    ),
    "coupling, near": (
        score(coupling="pair"),
        OptionError,
        "Did you mean 'paired'.*Choose from 'optimal', 'paired'",
    ),
    "coupling, true": (
        score(coupling=True),
        OptionError,
        "coupling=True is not a valid choice. Choose from 'optimal'",
    ),
    "option of many": (
        lambda: sg.affinities([], coupling="optimum"),
        OptionError,
        "Did you mean 'optimal'.*Choose",
    ),
    "eps < 0": (score(eps=-1e-6), InputError, EPS + ", got -1e-06"),
    "eps nan": (score(eps=math.nan), InputError, EPS + ", got nan"),
    "eps inf": (score(eps=math.inf), InputError, EPS + ", got inf"),
    "eps beyond floats": (score(eps=10**400), InputError, EPS),
    "eps word": (score(eps="1e-6"), InputTypeError, EPS + ", got '1e-6'"),
    "eps true": (score(eps=True), InputTypeError, EPS + ", got True"),
    "eps complex": (score(eps=1e-6j), InputTypeError, EPS),
    "eps fraction": (score(eps=Fraction(1, 7)), InputTypeError, EPS),
    "eps tensor": (score(eps=torch.tensor(1e-6)), InputTypeError, EPS),
    "constant x of a map": (
        lambda: sg.affine_map(np.ones((8, 3)), GOOD),
        InputError,
        "^x is constant to rounding.*Pass an x that varies, or a number for eps",
    ),
    "eps of a map": (lambda: sg.affine_map(GOOD, GOOD, eps=-1), InputError, EPS + ", got -1"),
    "eps of many": (lambda: sg.affinities([], eps="0"), InputTypeError, EPS + ", got '0'"),
    "a triple": (lambda: sg.affinities([(GOOD, GOOD, GOOD)]), InputTypeError, NOT_A_PAIR),
    "one sample": (lambda: sg.affinities([GOOD]), InputTypeError, NOT_A_PAIR),
    "two samples": (lambda: sg.affinities((GOOD, GOOD)), InputTypeError, NOT_A_PAIR),
    "a word": (lambda: sg.affinities("xy"), InputTypeError, NOT_A_PAIR),
    "words": (lambda: sg.affinities(["xy"]), InputTypeError, NOT_A_PAIR),
    "a mapping": (lambda: sg.affinities({"ab": (GOOD, GOOD)}), InputTypeError, NOT_A_PAIR),
    "none for pairs": (lambda: sg.affinities(None), InputTypeError, "Pass a list of"),
    "a later pair": (
        lambda: sg.affinities([(GOOD, GOOD), (GOOD, GOOD[:, :1])]),
        InputError,
        "^pair 1: x has 3 columns.*widths",
    ),
    "covariance not symmetric": (
        gaussian(covariance_y=np.triu(COVARIANCE)),
        InputError,
        "^covariance_y is not symm.*Pass",
    ),
    "covariance not square": (
        gaussian(covariance_x=COVARIANCE[:2]),
        InputError,
        "^covariance_x is not symmetric.*Pass",
    ),
    "covariance negative": (
        gaussian(covariance_x=-COVARIANCE),
        InputError,
        "eigenvalue -.* < 0. Pass a positive semi-def",
    ),
    "covariance indefinite": (
        gaussian(covariance_y=np.diag([1.0, 1, -1])),
        InputError,
        "eigenvalue -1 < 0. Pass a positive",
    ),
    "covariance nan": (
        gaussian(covariance_x=math.nan * COVARIANCE),
        InputError,
        "^covariance_x contains NaN.*Drop those rows",
    ),
    "covariance a number": (
        gaussian(covariance_x=np.array(2.0)),
        InputError,
        r"^covariance_x has shape \(\).*Pass a matrix",
    ),
    "covariance a list": (
        gaussian(covariance_x=COVARIANCE.tolist()),
        InputTypeError,
        "^covariance_x is a list. Pass",
    ),
    "mean a matrix": (
        gaussian(mean_x=GOOD),
        InputError,
        r"^mean_x is not a vector. Pass a mean \(d,\)",
    ),
    "mean a number": (
        gaussian(mean_y=0.0),
        InputError,
        r"^mean_y is not a vector. Pass a mean \(d,\)",
    ),
    "mean too short": (
        gaussian(mean_x=MEAN[:2]),
        InputError,
        "^mean_x has 2 entries and covariance_x 3. Pass",
    ),
    "mean inf": (
        gaussian(mean_x=math.inf * MEAN),
        InputError,
        "^mean_x contains an infinite value.*Drop those rows",
    ),
    "mean integer": (
        gaussian(mean_y=np.arange(3)),
        InputTypeError,
        "^mean_y has dtype int64.*Convert measurements with",
    ),
    "dimensions": (
        gaussian(mean_x=MEAN[:2], covariance_x=COVARIANCE[:2, :2]),
        InputError,
        "2 and 3 entries. Pass equal numbers",
    ),
    "kinds": (
        gaussian(mean_x=torch.from_numpy(MEAN), covariance_x=torch.from_numpy(COVARIANCE)),
        InputTypeError,
        "of different kinds. Pass all as arrays",
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_bad_call(call: str) -> None:
    function, error, pattern = CALLS[call]
    with pytest.raises(error, match=pattern):
        function()


@pytest.mark.parametrize(
    "call", [score(y=GOOD[:5]), lambda: sg.w2_exact(GOOD, GOOD[:5])], ids=["affinity", "w2_exact"]
)
def test_unequal_sizes_without_the_extra(
    call: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    call()
    monkeypatch.setitem(sys.modules, "ot", None)
    remedy = re.escape(
        "x has 8 rows and y 5: samples of unequal size need the package POT. Install it "
        'with: pip install "sigma'
    )
    with pytest.raises(MissingExtraError, match=remedy):
        call()


# Outputs without variance have no score; the result says so instead of raising. How they are stored
# says how much of their variation is rounding.
NOISE = np.sign(GOOD)
CONSTANT: dict[str, Any] = {
    "constant": np.full((8, 3), 7.0),
    "zero": np.zeros((8, 3)),
    "one ulp": np.full((8, 3), 0.1) + 1e-17 * GOOD,
    "three ulp far away": (1e8 + 24 * NOISE).astype(np.float32),
    "different constants": np.tile([-1e30, 1.0, 1e-30], (8, 1)),
    "float16": (7 + 0.004 * NOISE).astype(np.float16),
    "bfloat16": torch.from_numpy(0.1 + 2e-4 * NOISE).bfloat16(),
}


@pytest.mark.parametrize("eps", [None, 0.0, 1e-6])
@pytest.mark.parametrize("case", CONSTANT)
def test_output_that_is_constant_to_rounding(case: str, eps: float | None) -> None:
    y = CONSTANT[case]
    x = torch.from_numpy(GOOD) if isinstance(y, torch.Tensor) else GOOD
    for estimator in ("ledoit-wolf", "unbiased", "biased"):
        result = sg.affinity(x, y, eps=eps, covariance=estimator)
        assert math.isnan(result)
        assert math.isnan(result.w2)
        assert (result.degenerate, result.certified) == (True, "none")
        assert result.reason == "the output is constant up to rounding"
        assert result.reason in repr(result)
        published = sg.affinity(x, y, covariance=estimator, degenerate="published")
        assert (published.degenerate, published.reason, float(published)) == (True, "", 1)


# What varies by little has a score, and a variance up to eps is too little only as published.
LITTLE: dict[str, Any] = {
    "1e-4": 1e-4 * GOOD,
    "1e-30": 1e-30 * GOOD,
    "beside a constant": np.hstack([1e-9 * GOOD[:, :2], np.full((8, 1), -1e30)]),
    "float32": (1 + 1e-5 * GOOD).astype(np.float32),
    "bfloat16": torch.from_numpy(1 + 0.05 * NOISE).bfloat16(),
}


@pytest.mark.parametrize("case", LITTLE)
def test_output_that_varies_by_little(case: str) -> None:
    y = LITTLE[case]
    x = torch.from_numpy(GOOD) if isinstance(y, torch.Tensor) else GOOD
    for options in ({}, {"eps": 10.0}, {"eps": 0.0}, {"degenerate": "published"}):
        result = sg.affinity(x, y, **options)
        assert (result.degenerate, result.reason) == (False, "")
        assert 0 <= float(result) < 1
    published = sg.affinity(x, y, eps=10.0, degenerate="published")
    assert (published.degenerate, published.reason) == (True, "")
    assert 0.5 <= float(published) <= 1
