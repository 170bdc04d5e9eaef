"""ReLU6 against ReLU inside networks that others have trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sigmascope.figures import Drawn, new_figure, styled
from sigmascope.figures.drawn import finished
from sigmascope.figures.style import PAGE, look
from sigmascope.measure.result import Signature
from sigmascope_papers.chance import Array
from sigmascope_papers.item import Finding, Item, judge_by
from sigmascope_papers.real.measuring import judged_twice, signatures
from sigmascope_papers.real.networks import NETWORKS
from sigmascope_papers.setting import Setting

CAPPED = ("mobilenet_v2", "efficientnet-lite0", "efficientnet-lite1", "efficientnet-lite2")
MOST = 0.9  # of the calls
ALIKE, FAR = 0.02, 0.05  # of the score: in the median, at most


@dataclass(frozen=True, eq=False)
class Beside:
    """The scores of the calls of each network: ReLU6, and ReLU on the same inputs, (2, k)."""

    scores: dict[str, Array]

    def gaps(self) -> dict[str, Array]:
        """Return how far ReLU scores above ReLU6, by network."""
        return {name: both[1] - both[0] for name, both in self.scores.items()}


def _pairs(one: Signature, by: Any) -> Array:
    """Return the scores of ReLU6 and of ReLU on the same inputs, where both have one, (2, k)."""
    values = dict(zip([site.name for site in one.sites], one.scores_by(by), strict=True))
    kinds = {"relu6": "relu6", "relu": "relu"}
    columns = {
        kind: [values[site.name] for site in one.sites if site.kind == kind] for kind in kinds
    }
    both = np.array([columns["relu6"], columns["relu"]])
    return both[:, np.isfinite(both).all(axis=0)]


def measure_beside(setting: Setting) -> dict[str, Beside]:
    """Read or measure the networks with ReLU6, ReLU beside it: published, population."""
    found = signatures(setting, CAPPED, form="beside")
    kinds: tuple[Any, ...] = ("published", "population")
    return {by: Beside({name: _pairs(one, by) for name, one in found.items()}) for by in kinds}


def _told(values: dict[str, Array], digits: int = 4) -> str:
    rows = [f"{NETWORKS[name].title} {np.mean(gap):.{digits}f}" for name, gap in values.items()]
    return ", ".join(rows)


def _more_non_linear(found: Beside) -> Finding:
    gaps = found.gaps()
    if not all(map(len, gaps.values())):
        return "some network has no call with both scores"
    shares = [float((gap >= 0).mean()) for gap in gaps.values()]
    above = ", ".join(f"{share:.0%}" for share in shares)
    told = f"ReLU above by {_told(gaps)} in the mean; not below in {above} of the calls"
    return told, all(gap.mean() > 0 for gap in gaps.values()), min(shares) >= MOST


def _alike(found: Beside) -> Finding:
    if not all(map(len, found.scores.values())):
        return "some network has no call with both scores"
    gaps = {name: np.abs(gap) for name, gap in found.gaps().items()}
    medians = [float(np.median(gap)) for gap in gaps.values()]
    largest = max(float(gap.max()) for gap in gaps.values())
    listed = ", ".join(
        f"{NETWORKS[name].title} {value:.4f}" for name, value in zip(gaps, medians, strict=True)
    )
    told = f"median difference {listed}; largest {largest:.3f}"
    return told, max(medians) <= ALIKE, max(medians) <= ALIKE and largest <= FAR


@styled()
def draw_beside(found: dict[str, Beside]) -> dict[str, Drawn]:
    """Draw how far ReLU scores above ReLU6, call by call."""
    shown = found["published"].gaps()
    figure = new_figure(PAGE, 3.2)
    panels = np.ravel(figure.subplots(2, 2, sharey=True))
    table: list[dict[str, Any]] = []
    for panel, (name, gap) in zip(panels, shown.items(), strict=True):
        panel.axhline(0, color="0.5", linewidth=0.6)
        panel.plot(range(1, len(gap) + 1), gap, look(0).marker, color=look(0).color, markersize=3)
        panel.set_title(NETWORKS[name].title, fontsize=8, pad=3)
        table += [
            {"network": name, "call": place, "ReLU minus ReLU6": float(value)}
            for place, value in enumerate(gap, 1)
        ]
    figure.supxlabel("activation call, in order of execution", fontsize=8)
    figure.supylabel("score of ReLU minus that of ReLU6", fontsize=8)
    return {"": finished(list(panels), table)}


_CAPS = judge_by("real.real_relu6", _more_non_linear, _alike)
_TWICE = judged_twice(lambda one: _CAPS(one["now"]), lambda one: {"now": one["population"]})
ITEM = Item(measure_beside, lambda found: _TWICE({**found, "now": found["published"]}), draw_beside)
ITEMS = {"real-relu6": ITEM}
