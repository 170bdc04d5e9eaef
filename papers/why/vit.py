"""Why are ViTs not the most remote group among our networks (fig5b, fig16, fig17)?

    python papers/why/vit.py

From stored signatures, in seconds. Distances by dynamic time warping grow with the number of calls,
with how far the scores of a network spread, and with how far their level is from that of others. So
the mean distance of each group to the others is shown as published, per step of the path, with all
signatures resampled to one length, and by the medians of the scores alone; for the networks of the
zoo with the channels kept and with the published axes, and for networks of others on ImageNet.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.stats import spearmanr

from sigmascope.errors import InputError
from sigmascope.maths.warping import dtw_matrix
from sigmascope.measure.result import Signature
from sigmascope_papers.chance import Array
from sigmascope_papers.nonlinearity.correlated import OTHER_AXES
from sigmascope_papers.nonlinearity.lineup import known
from sigmascope_papers.real.measuring import signatures
from sigmascope_papers.real.networks import NETWORKS
from sigmascope_papers.setting import PUBLISHED, Setting

LENGTH = 20  # calls of a resampled signature
TITLES = ("by warping", "per step", "one length", "medians")


def resampled(scores: Array) -> Array:
    """Return scores at evenly spaced places, interpolated."""
    places = np.linspace(0, len(scores) - 1, LENGTH)
    return np.interp(places, np.arange(len(scores)), scores)


def matrices(curves: list[Array]) -> dict[str, Array]:
    """Return distances between networks (k, k) of four kinds."""
    medians = np.array([np.median(one) for one in curves])
    found = (
        dtw_matrix(curves),
        dtw_matrix(curves, normalize="path"),
        dtw_matrix([resampled(one) for one in curves]),
        np.abs(medians[:, None] - medians),
    )
    return dict(zip(TITLES, found, strict=True))


def show(title: str, networks: Mapping[str, Signature], group_of: Mapping[str, str]) -> None:
    """Print the mean distance of each group to the others, and its place."""
    curves = [known(one) for one in networks.values()]
    own = np.array([group_of[name] for name in networks])
    groups = list(dict.fromkeys(own))
    apart = {
        kind: {group: float(matrix[own == group][:, own != group].mean()) for group in groups}
        for kind, matrix in matrices(curves).items()
    }
    print(f"\n{title}\n\n| group | calls | median | range | {' | '.join(TITLES)} |")
    print(f"|---|{'--:|' * (3 + len(TITLES))}")
    facts = {}
    for group in groups:
        some = [curve for curve, one in zip(curves, own, strict=True) if one == group]
        facts[group] = [
            float(np.mean([value(curve) for curve in some])) for value in (len, np.median, np.ptp)
        ]
        places = [
            f"{values[group]:.2f} ({sum(one >= values[group] for one in values.values())})"
            for values in apart.values()
        ]
        calls, median, extent = facts[group]
        print(f"| {group} | {calls:.0f} | {median:.2f} | {extent:.2f} | {' | '.join(places)} |")
    remote = [apart[TITLES[0]][group] for group in groups]
    ranks = [
        f"{name} {spearmanr([facts[group][number] for group in groups], remote).statistic:.2f}"
        for number, name in enumerate(("calls", "median", "range"))
    ]
    print(f"\nSpearman of the distance by warping, over groups, with {', '.join(ranks)}")


def main() -> None:
    """Print the groups of the zoo, twice, and those of networks of others."""
    setting = Setting()
    cast = setting.cast
    groups, found = cast.groups(), {run.signature.name: run for run in setting.runs(cast.names())}
    kept = {name: found[name].signature for name in groups}
    others = setting.runs(cast.names(*OTHER_AXES), pool=PUBLISHED, compat=True)
    show("Our networks, channels kept", kept, groups)
    replaced = kept | {run.signature.name: run.signature for run in others}
    show("Our networks, published axes", replaced, groups)
    real = {}
    for name, one in NETWORKS.items():
        if one.source == "pictures":
            try:
                real |= signatures(setting, [name])
            except InputError:
                print(f"{one.title} is not stored.")
    of_others = {name: one.group for name, one in NETWORKS.items()}
    show("Networks of others, on ImageNet", real, of_others)


if __name__ == "__main__":
    main()
