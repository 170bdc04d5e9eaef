"""Data of this folder: numbers of the paper and its authors' notebook, and names of networks."""

from __future__ import annotations

import json
from importlib.resources import files

_FILES = (
    files("sigmascope_papers") / "nonlinearity" / f"{n}.json" for n in ("published", "networks")
)
_NUMBERS, NETWORKS = (json.loads(file.read_text(encoding="utf-8")) for file in _FILES)
METRICS = ("cka", "norm", "sparsity", "entropy", "r2")
"""The columns of Tables 1 and 2, under our names."""
TABLE_1: dict[str, tuple[float, ...]]
TABLE_1_STD: dict[str, tuple[float, ...]]
TABLE_2: dict[str, tuple[float, ...]]
TABLE_3: dict[str, tuple[float, float]]
TABLE_1, TABLE_1_STD, TABLE_2, TABLE_3 = (
    {key: tuple(row) for key, row in _NUMBERS[name].items()}
    for name in ("table 1", "table 1 std", "table 2", "table 3")
)
"""1: group -> mean correlations of the score with the metrics, and their standard deviations.

2: network, as torchvision calls it -> its correlations; the last line of the paper's table is not
the mean of these rows. 3: criterion -> mean and standard deviation over 17 trainings of ResNet-50.
"""
FIGURE_4B = {
    (int(key.split()[0]), key.split()[1]): (tuple(row["printed"]), tuple(row["float64"]))
    for key, row in _NUMBERS["figure 4b"].items()
}
"""Seed and activation -> mean ± std as printed at scales 1 and 6; and the scores at scale 6 by an
independent implementation in float64. At scale 6 what is printed is noise of float32, where
covariances are large and nearly singular: one score is -0.003 where 0.580 is right.
"""
