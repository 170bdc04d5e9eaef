r"""Dynamic time warping: the distance of two curves of any lengths.

$D_{ij} = (x_i - y_j)^2 + \min(D_{i-1,j}, D_{i,j-1}, D_{i-1,j-1})$. The cells of an anti-diagonal
depend only on the two before it, so each is computed at once, for many pairs of curves together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from sigmascope import choices
from sigmascope.checks import check_choice
from sigmascope.errors import InputError, InputTypeError
from sigmascope.maths.samples import LARGEST_VALUE

Curve: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

# Pairs computed together: enough to make the calls of NumPy cheap, few enough for three diagonals
# to stay in the cache.
TOGETHER = 128


def dtw(x: Curve, y: Curve, *, normalize: choices.Normalize | None = None) -> float:
    r"""Return the distance of two curves by dynamic time warping.

    $\sqrt{\min_P \sum_{(i,j) \in P} (x_i - y_j)^2}$ over the paths P from (1, 1) to (n, m) with
    steps (1, 0), (0, 1) and (1, 1). It is symmetric and 0 for equal curves, but not a metric: the
    triangle inequality may fail. For curves of one length it is at most the Euclidean distance. It
    grows with the lengths. Sakoe and Chiba, IEEE Trans. ASSP 26, 1978.

    Args:
        x: (n,), finite.
        y: (m,), finite.
        normalize: None, or "path": divide the sum by the number of cells on the best path (the
            shortest of several) before taking the root, so that depths can be compared.

    Raises:
        InputError: an empty curve, more than one axis, NaN or infinite or huge values.
        InputTypeError: not real numbers.
        OptionError: another `normalize`.

    >>> dtw(np.array([0.0, 1.0]), np.array([0.0, 0.0, 1.0]))
    0.0
    >>> dtw(np.array([0.0, 0.0, 0.0]), np.array([2.0, 2.0, 2.0]), normalize="path")
    2.0
    """
    _check(normalize)
    return float(_distances([(_as_curve(x, "x"), _as_curve(y, "y"))], normalize)[0])


def dtw_matrix(
    curves: Sequence[Curve],
    *,
    normalize: choices.Normalize | None = None,
    advance: Callable[[], None] = lambda: None,
) -> Curve:
    """Return the distances (k, k) of all pairs of k curves (n_i,), symmetric; see `dtw`.

    The time grows with k² n²: about 8 s for 1,000 curves of 20 to 120 numbers. `advance` is called
    after every `TOGETHER` pairs.

    >>> dtw_matrix([np.array([0.0, 1.0]), np.array([1.0]), np.array([3.0])])
    array([[0.        , 1.        , 3.60555128],
           [1.        , 0.        , 2.        ],
           [3.60555128, 2.        , 0.        ]])
    """
    _check(normalize)
    checked = [_as_curve(curve, f"curve {number}") for number, curve in enumerate(curves)]
    if not checked:
        raise InputError("curves is empty. Pass at least one curve.")
    # Curves of similar lengths go together, so that little of the grid lies beyond the end of any.
    by_length = sorted(range(len(checked)), key=lambda number: len(checked[number]))
    pairs = [(long, short) for place, long in enumerate(by_length) for short in by_length[:place]]
    matrix = np.zeros((len(checked), len(checked)))
    for start in range(0, len(pairs), TOGETHER):
        some = pairs[start : start + TOGETHER]
        first, second = np.array(some).T
        found = _distances([(checked[i], checked[j]) for i, j in some], normalize)
        matrix[first, second] = matrix[second, first] = found
        advance()
    return matrix


def _check(normalize: str | None) -> None:
    if normalize is not None:
        check_choice("normalize", normalize, choices.Normalize)


def _as_curve(values: Curve, name: str) -> Curve:
    array = np.asarray(values)
    if array.dtype.kind not in "fiu":
        raise InputTypeError(f"{name} has dtype {array.dtype}. Pass an array of real numbers.")
    if array.ndim != 1 or not array.size:
        raise InputError(f"{name} has shape {array.shape}. Pass one axis with at least one number.")
    curve = array.astype(np.float64)
    if not np.isfinite(curve).all():
        raise InputError(f"{name} contains NaN or an infinite value. Drop such values first.")
    if (largest := float(np.abs(curve).max())) > LARGEST_VALUE:
        raise InputError(
            f"{name} reaches {largest:.1e}: its squares overflow float64. Divide both by a scale."
        )
    return curve


def _distances(pairs: Sequence[tuple[Curve, Curve]], normalize: str | None) -> Curve:
    """Return the distance of each pair, (p,)."""
    if normalize is None:
        return np.asarray(np.sqrt(_walk(pairs, np.dtype(np.float64))))
    # The imaginary part is the length of a path. NumPy compares real parts first, then imaginary
    # ones, so the minimum is the shortest of the best paths.
    ends = _walk(pairs, np.dtype(np.complex128))
    return np.asarray(np.sqrt(ends.real / ends.imag))


def _walk(pairs: Sequence[tuple[Curve, Curve]], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return the last cell of every pair's grid, (p,): least sum, and path length if complex.

    Row i + 1 of a diagonal holds the cells (i, s - i) of all pairs; row 0 and cells not reached yet
    are infinite. Cells beyond the end of a shorter curve are computed too, but none of its own
    depends on them.
    """
    rows, columns = (max(len(pair[side]) for pair in pairs) for side in (0, 1))
    x = _padded([pair[0] for pair in pairs], rows)
    y = _padded([pair[1] for pair in pairs], columns)[::-1].copy()
    older, last, new = (np.full((rows + 1, len(pairs)), np.inf, dtype) for _ in range(3))
    ends = np.empty(len(pairs), dtype)
    ending: dict[int, list[int]] = {}
    for number, (one, other) in enumerate(pairs):
        ending.setdefault(len(one) + len(other) - 2, []).append(number)
    older[0] = 0  # the only cell before (0, 0)
    for s in range(rows + columns - 1):
        low, high = max(0, s - columns + 1), min(s + 1, rows)
        here, above = slice(low + 1, high + 1), slice(low, high)
        reversed_start = columns - 1 - s + low
        cost = np.square(x[above] - y[reversed_start : reversed_start + high - low])
        best = np.minimum(np.minimum(last[above], last[here]), older[above])
        np.add(best, cost, out=new[here])
        if dtype.kind == "c":
            new[here] += 1j
        for number in ending.get(s, ()):
            ends[number] = new[len(pairs[number][0]), number]
        older[0] = np.inf
        older, last, new = last, new, older
    return ends


def _padded(curves: Sequence[Curve], length: int) -> Curve:
    """Return the curves as the columns of a matrix (length, p), with zeros after their ends."""
    matrix = np.zeros((length, len(curves)))
    for number, curve in enumerate(curves):
        matrix[: len(curve), number] = curve
    return matrix
