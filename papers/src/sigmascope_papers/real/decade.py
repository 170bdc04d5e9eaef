"""Figure 5A on networks that others have trained."""

from __future__ import annotations

from dataclasses import replace

from sigmascope.compare.statistics import statistics
from sigmascope.figures import Drawn
from sigmascope_papers.cast import Cast, Member
from sigmascope_papers.figures.years import draw_years
from sigmascope_papers.item import Item, judge_by
from sigmascope_papers.nonlinearity.fig5a import OTHERS, RISES
from sigmascope_papers.nonlinearity.lineup import Lineup
from sigmascope_papers.real.measuring import by_population, is_scored, judged_twice, signatures
from sigmascope_papers.real.networks import NETWORKS
from sigmascope_papers.setting import Setting

OF_IMAGENET = [one for one in NETWORKS.values() if one.source == "pictures"]
CAST = Cast(
    tuple(Member(one.name, one.group, one.year) for one in OF_IMAGENET),
    ("alexnet", "vgg16", "inception_v3", "resnet50", "efficientnet-lite2", "vit_s14"),
)


def measure_decade(setting: Setting) -> Lineup:
    """Read or measure the networks of ImageNet."""
    return Lineup(CAST, signatures(setting, CAST.names()))


def _population(found: Lineup) -> Lineup:
    """Return those with population scores at four of five sites or more."""
    scored = {name: one for name, one in found.signatures.items() if is_scored(one)}
    return Lineup(found.cast, {name: by_population(one) for name, one in scored.items()})


def draw_decade(found: Lineup) -> dict[str, Drawn]:
    """Draw all networks by their years, with published scores and with population scores."""
    drawn = {}
    groups, years = found.cast.groups(), found.cast.years()
    titles = {name: NETWORKS[name].title for name in found.cast.names()}
    named = {titles[name]: group for name, group in groups.items()}
    when = {titles[name]: year for name, year in years.items()}
    for part, some in {"": found, "population": _population(found)}.items():
        shown = [replace(one, name=titles[name]) for name, one in some.signatures.items()]
        if shown:
            drawn[part] = draw_years(statistics(shown), when, families=named)
    return drawn


_DECADE = judge_by("real.real_fig5a", *RISES, *OTHERS)
ITEM = Item(measure_decade, judged_twice(_DECADE, _population), draw_decade)
ITEMS = {"real-fig5a": ITEM}
