"""Tables 1 and 2: correlations of the affinity score with five other metrics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from sigmascope.compare.correlation import Correlations, FamilyCorrelations, correlations
from sigmascope.figures import Drawn, draw_correlations
from sigmascope_papers.chance import Array
from sigmascope_papers.item import Check, Finding, conclude
from sigmascope_papers.nonlinearity.items import Rules, item_of
from sigmascope_papers.nonlinearity.published import METRICS, TABLE_1, TABLE_1_STD, TABLE_2
from sigmascope_papers.setting import PUBLISHED, Setting

OTHER_AXES = ("ViTs", "Swins", "ConvNeXts")
"""Groups whose channels the published code averages."""
TITLES = {"cka": "CKA", "norm": "norm", "sparsity": "sparsity", "entropy": "entropy", "r2": "R²"}
ENTROPY = METRICS.index("entropy")
# As far as two numbers of the tables may differ, and from what size on a correlation has a sign
# worth comparing.
TOLERANCE, SIGNED = 0.1, 0.3
FEWEST_GROUPS, FEWEST = 4, 5  # of fewer groups, or networks, nothing can be said about all
WEAK, STRONG = 0.3, 0.7  # a tenth and half of the variance
# A metric that is strong in no more than half of the networks is unreliable; one that is in nine of
# ten is reliable.
HALF, MOST = 0.5, 0.9
# Of the last line of the paper's table the least std is 0.35.
SPREAD, SOME_SPREAD = 0.3, 0.2
UNKNOWN = (math.nan,) * len(METRICS)
Rows = Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class Correlated:
    """Correlations of all networks of the cast, with the channels kept, and as published."""

    kept: Correlations
    published: Correlations
    trained: bool  # whether these are the paper's networks with their weights


def measure(setting: Setting) -> Correlated:
    """Correlate the scores of every network of the cast with the metrics."""
    cast = setting.cast
    own = {run.signature.name: run.signature for run in setting.runs(cast.names(), compat=True)}
    other = cast.names(*OTHER_AXES)
    again = setting.runs(other, pool=PUBLISHED, compat=True) if other else []
    all_of_them = own | {run.signature.name: run.signature for run in again}
    kept, published = (
        correlations(list(some.values()), families=cast.groups()) for some in (own, all_of_them)
    )
    return Correlated(kept, published, setting.weights == "default")


def compare_row(text: str, expected: Sequence[float], obtained: Array) -> Check:
    """Compare a row with the paper's: within 0.1 in all columns; weakly if signs agree from 0.3 on.

    The sign of the paper's change in entropy is not known, so the one that fits better is taken.
    """
    paper, ours = np.array(expected), obtained.copy()
    if abs(-ours[ENTROPY] - paper[ENTROPY]) < abs(ours[ENTROPY] - paper[ENTROPY]):
        ours[ENTROPY] *= -1
    clear, near = np.abs(paper) >= SIGNED, bool((np.abs(ours - paper) <= TOLERANCE).all())
    alike = clear.any() and (np.sign(paper) == np.sign(ours))[clear].all()
    told, found = (" ".join(f"{value:.2f}" for value in row) for row in (paper, obtained))
    return conclude(text, f"{told} ± {TOLERANCE:g}", (found, near or alike, near))


def consistency(means: Array) -> float:
    """Return the weakest of correlations that all have one sign; negative if they have not.

    >>> consistency(np.array([-0.5, -0.9])), consistency(np.array([-0.5, 0.9]))
    (0.5, -0.5)
    """
    return float(max(means.min(), -means.max()))


def _rows(found: Correlations | FamilyCorrelations) -> dict[str, Array]:
    """Return the (mean) correlations of each network or group, in the order of the metrics."""
    columns = [found.metrics.index(metric) for metric in METRICS]
    if isinstance(found, Correlations):
        return dict(zip(found.names, found.values[:, columns], strict=True))
    return dict(zip(found.families, found.mean[:, columns], strict=True))


def _groups(found: Correlated, axes: str = "published") -> dict[str, Array]:
    """Return the groups that the paper's table has."""
    own = _rows(getattr(found, axes).by_family())
    return {group: row for group, row in own.items() if group in TABLE_1}


def _complete(means: Rows) -> tuple[dict[str, Array], str]:
    """Return the rows with all metrics, and why they are too few; empty if they are not."""
    known = {group: row for group, row in means.items() if np.isfinite(row).all()}
    few = f"{len(known)} groups of the table with all metrics; {FEWEST_GROUPS} are needed"
    return known, few if len(known) < FEWEST_GROUPS else ""


def _no_consistent(found: Correlated, axes: str, words: str) -> Finding:
    known, few = _complete(_groups(found, axes))
    if few:
        return few
    columns = dict(zip(TITLES.values(), np.array(list(known.values())).T, strict=True))
    worst = {name: consistency(column) for name, column in columns.items()}
    listed = [f"{name} {col.mean():.2f} ({col.std():.2f})" for name, col in columns.items()]
    name = max(worst, key=worst.__getitem__)
    obtained = f"{name} comes nearest, with {worst[name]:.2f} in its weakest group; "
    obtained += f"means (std) over {len(known)} groups: {', '.join(listed)}"
    return obtained, worst[name] < STRONG, worst[name] < WEAK


def _strongest(found: Correlated) -> Finding:
    known, few = _complete(_groups(found))
    if few:
        return few
    names = list(TITLES.values())
    strongest = {group: names[int(np.abs(row).argmax())] for group, row in known.items()}
    count = len(set(strongest.values()))
    obtained = f"{count}: " + ", ".join(f"{group} {name}" for group, name in strongest.items())
    return obtained, count >= 2, count >= 3


def _group_rows(found: Correlated) -> list[Check]:
    """Compare numbers of the paper's own networks, and signs of others."""
    means = _groups(found)
    if not found.trained:
        return [_signs(metric, means) for metric in METRICS]
    titles = ", ".join(TITLES.values())
    rows = [(f"{group}: {titles}", TABLE_1[group], row) for group, row in means.items()]
    return [compare_row(*row) for row in rows]


def _signs(metric: str, means: Rows) -> Check:
    """Signs agree in all groups where the paper's mean is 0.3 in size; weakly in more than half.

    Entropy, whose sign in the paper is unknown, may be turned once for all groups.
    """
    place = METRICS.index(metric)
    clear = {group: row[place] for group, row in TABLE_1.items() if abs(row[place]) >= SIGNED}
    shared = {group: float(means[group][place]) for group in clear if group in means}
    ours = {group: value for group, value in shared.items() if math.isfinite(value)}
    expected, listed = (
        ", ".join(f"{group} {value:.2f}" for group, value in some.items()) for some in (clear, ours)
    )
    told = f"{TITLES[metric]}: sign of the correlation", expected
    if len(ours) < 2:
        return conclude(*told, "fewer than two of these groups are here")
    count = len(ours)
    same = int(sum(np.sign(ours[group]) == np.sign(clear[group]) for group in ours))
    turned = metric == "entropy" and count - same > same
    hits = count - same if turned else same
    obtained = f"{hits} of {count} agree{' with the sign turned' * turned}: {listed}"
    return conclude(*told, (obtained, hits > count / 2, hits == count))


def _columns(found: Correlated, axes: str) -> tuple[dict[str, Array], str]:
    """Return the correlations of each metric, and why there are too few; empty if there are not."""
    table = np.array(list(_rows(getattr(found, axes)).values())).reshape(-1, len(METRICS))
    named = zip(TITLES.values(), table.T, strict=True)
    known = {name: column[np.isfinite(column)] for name, column in named}
    least = min(map(len, known.values()))
    few = f"{least} networks with every metric; {FEWEST} are needed"
    return known, few if least < FEWEST else ""


def _unreliable(found: Correlated, axes: str, words: str) -> Finding:
    known, few = _columns(found, axes)
    if few:
        return few
    signed = {
        name: ((col >= STRONG).mean(), (col <= -STRONG).mean()) for name, col in known.items()
    }
    shares = {name: float(max(both)) for name, both in signed.items()}
    told = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
    return told, max(shares.values()) < MOST, max(shares.values()) <= HALF


def _differ(found: Correlated, axes: str, words: str) -> Finding:
    known, few = _columns(found, axes)
    if few:
        return few
    told = ", ".join(f"{name} {c.mean():.2f} ± {c.std():.2f}" for name, c in known.items())
    std = min(float(column.std()) for column in known.values())
    return told, std >= SOME_SPREAD, std >= SPREAD


def _network_rows(found: Correlated) -> list[Check]:
    """Compare the rows of the paper's own networks."""
    if not found.trained:
        reason = "these are other networks, or other weights; "
        reason += "--weights default --data imagefolder:DIR compares them"
        return [conclude("the rows of the paper's networks", "within 0.1", reason)]
    rows = {name.rpartition("/")[2]: row for name, row in _rows(found.published).items()}
    return [compare_row(name, TABLE_2[name], row) for name, row in rows.items() if name in TABLE_2]


def _listed(found: Correlations | FamilyCorrelations) -> dict[str, list[float]]:
    return {name: row.tolist() for name, row in _rows(found).items()}


def draw_groups(found: Correlated) -> dict[str, Drawn]:
    """Draw the paper's table, ours with the axes as published, and ours with the channels kept."""
    groups = dict.fromkeys(found.kept.families)
    tables = {
        "paper": {group: list(TABLE_1.get(group, UNKNOWN)) for group in groups},
        "here, published axes": _listed(found.published.by_family()),
        "here, channels kept": _listed(found.kept.by_family()),
    }
    drawn = draw_correlations(tables, list(TITLES.values()))
    table = [{**row, **_spreads(found, str(row["table"]), str(row["row"]))} for row in drawn.table]
    return {"": Drawn(drawn.figure, drawn.axes, table)}


def _spreads(found: Correlated, title: str, group: str) -> dict[str, float]:
    """Return the standard deviations over the networks of a group, and how many there are."""
    if title == "paper":
        stds = TABLE_1_STD.get(group, UNKNOWN)
        return {f"{name} std": std for name, std in zip(TITLES.values(), stds, strict=True)}
    own = (found.published if "published" in title else found.kept).by_family()
    place = own.families.index(group)
    columns = zip(TITLES.values(), METRICS, strict=True)
    told = {f"{name} std": float(own.std[place, own.metrics.index(m)]) for name, m in columns}
    return {"networks": int(own.counts[place].max()), **told}


def draw_networks(found: Correlated) -> dict[str, Drawn]:
    """Draw ours with both axes, and the paper's where it has the networks."""
    short = {name: name.rpartition("/")[2] for name in found.kept.names}
    paper = {name: list(TABLE_2[key]) for name, key in short.items() if key in TABLE_2}
    tables = {"published axes": _listed(found.published), "channels kept": _listed(found.kept)}
    tables = ({"paper": paper} if paper else {}) | tables
    return {"": draw_correlations(tables, list(TITLES.values()))}


BOTH = {"published": "published axes", "kept": "channels kept"}
CONSISTENT, REPLACE, DIFFER = (
    [partial(rule, axes=axes, words=words) for axes, words in BOTH.items()]
    for rule in (_no_consistent, _unreliable, _differ)
)
RULES_1: Rules = (*CONSISTENT, _strongest, _group_rows)
RULES_2: Rules = (REPLACE[0], DIFFER[0], REPLACE[1], DIFFER[1], _network_rows)
ITEMS = {
    "table1": item_of("table1", measure, draw_groups, *RULES_1),
    "table2": item_of("table2", measure, draw_networks, *RULES_2),
}
