"""Figure 12: the signatures of the representatives of a decade of networks."""

from __future__ import annotations

import numpy as np

from sigmascope.figures import Drawn
from sigmascope.figures.style import short_names
from sigmascope.measure.result import Signature, Site
from sigmascope_papers.chance import Array
from sigmascope_papers.item import Finding
from sigmascope_papers.nonlinearity import places
from sigmascope_papers.nonlinearity.fig5a import LAST
from sigmascope_papers.nonlinearity.items import item_of
from sigmascope_papers.nonlinearity.lineup import Lineup, known, measure_leads
from sigmascope_papers.nonlinearity.places import END, INSIDE, by_place, places_in

PRINTED = (0.6, 0.9)  # of GoogLeNet
NEAR, ABOUT = 0.05, 0.1
CLOSE_TO_1 = 0.95
RESIDUAL, DENSE = "ResNets", "DenseNets"
TRANSITION, SQUEEZE, GATE, NOWHERE = "transition", "before a gate", "gate", "in no block"
KINDS = (NOWHERE, INSIDE, END, TRANSITION, SQUEEZE, GATE)
GATES = ("sigmoid", "hardsigmoid")


def _alexnet_is_stable(lineup: Lineup) -> Finding:
    years, lead = lineup.cast.years(), lineup.cast.lead("AlexNets")
    others = [one for one in lineup.leads() if years[one.name] <= LAST and one.name != lead]
    if not others:
        return "there is nothing to compare it with"
    own, stds = known(lineup.lead("AlexNets")).std(), [known(one).std() for one in others]
    obtained = f"{own:.3f}, others {min(stds):.3f} to {max(stds):.3f}, median {np.median(stds):.3f}"
    return obtained, own < np.median(stds), own < min(stds)


def _googlenet_varies(lineup: Lineup) -> Finding:
    scores = known(lineup.lead("Inceptions"))
    off = max(abs(scores.min() - PRINTED[0]), abs(scores.max() - PRINTED[1]))
    return f"{scores.min():.3f} to {scores.max():.3f}", off <= ABOUT, off <= NEAR


def _skips_are_linear(lineup: Lineup) -> Finding:
    found = by_place(lineup.lead(RESIDUAL))
    end, inside = (float(np.median(found[place])) for place in (END, INSIDE))
    clear = end >= CLOSE_TO_1 and end - inside >= ABOUT
    return f"medians {end:.3f} and {inside:.3f}", end > inside, clear


def _densenet_is_like_resnet(lineup: Lineup) -> Finding:
    dense, residual = (float(known(lineup.lead(group)).mean()) for group in (DENSE, RESIDUAL))
    return f"{dense:.3f} against {residual:.3f}", dense < residual, residual - dense <= ABOUT


def _transitions_are_linear(lineup: Lineup) -> Finding:
    pairs = transitions(lineup.lead(DENSE))
    if not pairs:
        return "no path names a transition"
    shares = [float((before < score).mean()) for score, before in pairs]
    obtained = f"above {', '.join(f'{share:.0%}' for share in shares)}"
    return obtained, min(shares) > 0.5, min(shares) >= 0.75


def _is_transition(site: Site) -> bool:
    """Say whether a call of a DenseNet, not its last one, is in a transition layer."""
    return "transition" in site.path or site.path.isdecimal()


def transitions(signature: Signature) -> list[tuple[float, Array]]:
    """Return the score of each transition layer of a DenseNet with those of the block before it."""
    found: list[tuple[float, Array]] = []
    block: list[float] = []
    for site in signature.sites[:-1]:  # what follows the last block is no transition
        if _is_transition(site):
            found.append((site.score, np.array(block)))
            block = []
        elif "denselayer" in site.path or "act" in site.path:
            block.append(site.score)
    return [(score, before[np.isfinite(before)]) for score, before in found if len(before)]


def kinds_of_places(signature: Signature, group: str) -> list[str]:
    """Return the kind of place of every call of a network, one of `KINDS`.

    A call is in a block if a numbered module has a named one above the activation, or the
    activation itself, below it: `3.one.2`, `layer1.0.relu`. A gate is a sigmoid in a block. Only
    ResNets have calls after the addition at its end.
    """
    sites = signature.sites
    kinds = [_kind(site) for site in sites]
    for number, site in enumerate(sites):
        if kinds[number] == GATE and number and kinds[number - 1] == INSIDE:
            kinds[number - 1] = SQUEEZE
        if group == DENSE and _is_transition(site) and number < len(sites) - 1:
            kinds[number] = TRANSITION
    found = places_in(signature) if group == RESIDUAL else kinds
    return [END if place == END else kind for place, kind in zip(found, kinds, strict=True)]


def _kind(site: Site) -> str:
    parts = site.path.split(".")
    named = [place for place, part in enumerate(parts) if not part.isdecimal()]
    if not named or not any(letter.isdigit() for part in parts[: named[-1]] for letter in part):
        return NOWHERE
    return GATE if site.kind in GATES else INSIDE


def draw(lineup: Lineup) -> dict[str, Drawn]:
    """Draw all signatures on one scale; nothing without representatives."""
    leads, groups = lineup.leads(), lineup.cast.groups()
    if not leads:
        return {}
    titles, kinds = short_names([one.name for one in leads]), []
    for number, one in enumerate(leads):
        kinds.append(kinds_of_places(one, groups[one.name]))
        stds = [site.std for site in one.sites if np.isfinite(site.score)]  # over the batches
        if np.isfinite(spread := float(np.mean(stds))):
            titles[number] += f", mean std {spread:.4f}"
    return {"": places.draw_panels(leads, kinds, titles, order=KINDS, columns=2)}


RULES = (_alexnet_is_stable, _googlenet_varies, _skips_are_linear)
MORE_RULES = (_densenet_is_like_resnet, _transitions_are_linear)
ITEM = item_of("fig12", measure_leads, draw, *RULES, *MORE_RULES)
