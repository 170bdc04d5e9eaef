"""Similarities as plain functions of two arrays, for the registries of other libraries.

Each takes the features of two layers for the same inputs, (n, c) or (n, c, h, w), and returns a
number, larger for features that are more alike, 1 for equal ones. It is NaN where there is none.
"""

from __future__ import annotations

from sigmascope.maths.samples import Array
from sigmascope.symmetry.cka_similarity import cka
from sigmascope.symmetry.procrustes_similarity import procrustes


def relu_procrustes(x: Array, y: Array) -> float:
    """Return the Procrustes similarity up to permutations and positive scales of channels.

    Channels that are zero everywhere do not count; see `procrustes`. Godfrey et al., NeurIPS 2022,
    arXiv:2205.14258.

    >>> import numpy as np
    >>> x = np.abs(np.random.default_rng(0).standard_normal((50, 3)))
    >>> round(relu_procrustes(x, x[:, [2, 0, 1]] * [1, 5, 2]), 9)
    1.0
    """
    return float(procrustes(x, y, group="relu", normalizer="live").similarity)


def orthogonal_procrustes(x: Array, y: Array) -> float:
    """Return the Procrustes similarity up to rotations of the channels; see `procrustes`.

    Godfrey et al., NeurIPS 2022, arXiv:2205.14258.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).standard_normal((50, 3))
    >>> round(orthogonal_procrustes(x, x @ np.linalg.qr(x[:3])[0]), 6)
    1.0
    """
    return float(procrustes(x, y, group="orthogonal").similarity)


def relu_cka(x: Array, y: Array) -> float:
    """Return CKA with the maximum over channels as its kernel; see `cka`.

    It does not depend on permutations and positive scales of the channels. Godfrey et al., NeurIPS
    2022, arXiv:2205.14258.

    >>> import numpy as np
    >>> x = np.abs(np.random.default_rng(0).standard_normal((50, 3)))
    >>> round(relu_cka(x, x[:, [2, 0, 1]] * [1, 5, 2]), 9)
    1.0
    """
    return float(cka(x, y, group="relu").similarity)


def linear_cka(x: Array, y: Array) -> float:
    """Return the standard linear CKA, by unbiased HSIC; it does not depend on rotations.

    Kornblith et al., ICML 2019, arXiv:1905.00414; the formula is in `cka`.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).standard_normal((50, 3))
    >>> round(linear_cka(x, x @ np.linalg.qr(x[:3])[0]), 9)
    1.0
    """
    return float(cka(x, y, group="orthogonal", normalize="none").similarity)
