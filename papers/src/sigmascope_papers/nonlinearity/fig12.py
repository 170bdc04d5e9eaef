"""Figure 12: the raw signatures of the representatives of a decade.

Signatures of the networks that stand for their groups, with one look for each kind of place, and
the standard deviation over five batches of 512 images, averaged over the activations, in the title;
Ledoit–Wolf covariance. The claims are those of the paper's Appendix D.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sigmascope.figures import Drawn, draw_signature, new_figure, styled
from sigmascope.figures.style import PAGE, add_panel_legend, short_names
from sigmascope.measure.signature import Signature, Site
from sigmascope_papers.item import Check, Item, relation, untried
from sigmascope_papers.nonlinearity.fig5a import LAST
from sigmascope_papers.nonlinearity.lineup import Array, Lineup, known, line_up
from sigmascope_papers.nonlinearity.places import END, INSIDE, by_place, places_in
from sigmascope_papers.setting import Setting

__all__ = ["ITEM", "kinds_of_places", "transitions"]

PRINTED = (0.6, 0.9)  # of GoogLeNet
NEAR, ABOUT = 0.05, 0.1
CLOSE_TO_1 = 0.95
RESIDUAL, DENSE = "ResNets", "DenseNets"
TRANSITION, SQUEEZE, GATE, NOWHERE = "transition", "before a gate", "gate", "in no block"
KINDS = (NOWHERE, INSIDE, END, TRANSITION, SQUEEZE, GATE)
GATES = ("sigmoid", "hardsigmoid")


def measure(setting: Setting) -> Lineup:
    """Read or measure the signatures of the leads."""
    return line_up(setting, setting.cast.leads)


def judge(lineup: Lineup) -> list[Check]:
    """One check for each sentence of Appendix D that can be tried; see the functions below."""
    return [
        _alexnet_is_stable(lineup),
        _googlenet_varies(lineup),
        _skips_are_linear(lineup),
        _densenet_is_like_resnet(lineup),
        _transitions_are_linear(lineup),
    ]


def batch_spread(signature: Signature) -> float:
    """Return the mean over the sites of the standard deviation over the batches; NaN for a single
    batch.
    """
    found = np.array([site.std for site in signature.sites if np.isfinite(site.score)])
    return float(found.mean())


def _alexnet_is_stable(lineup: Lineup) -> Check:
    """AlexNet's scores vary less, by their standard deviation, than in half of all until 2019;
    clearly if than in all.
    """
    claim, expected = "AlexNet is stable throughout", f"the least std of all until {LAST}"
    years = lineup.cast.years()
    others = [
        one
        for one in lineup.leads()
        if years[one.name] <= LAST and one.name != lineup.cast.lead("AlexNets")
    ]
    if (reason := lineup.lacks("AlexNets")) or not others:
        return untried(claim, expected, reason or "there is nothing to compare it with")
    own, stds = (
        float(known(lineup.lead("AlexNets")).std()),
        [float(known(one).std()) for one in others],
    )
    obtained = f"{own:.3f}, others {min(stds):.3f} to {max(stds):.3f}, median {np.median(stds):.3f}"
    return relation(
        claim, expected, obtained, true=own < float(np.median(stds)), clear=own < min(stds)
    )


def _googlenet_varies(lineup: Lineup) -> Check:
    """Both ends are within 0.1 of the printed ones; clearly if within 0.05."""
    claim, expected = "GoogLeNet varies between 0.6 and 0.9", f"both ends within {NEAR}"
    if reason := lineup.lacks("Inceptions"):
        return untried(claim, expected, reason)
    scores = known(lineup.lead("Inceptions"))
    off = max(abs(float(scores.min()) - PRINTED[0]), abs(float(scores.max()) - PRINTED[1]))
    return relation(
        claim,
        expected,
        f"{scores.min():.3f} to {scores.max():.3f}",
        true=off <= ABOUT,
        clear=off <= NEAR,
    )


def _skips_are_linear(lineup: Lineup) -> Check:
    """The median after a skip connection is above that inside the blocks; clearly if it is 0.95,
    and 0.1 above.
    """
    claim, expected = (
        "ResNet: close to 1 after a skip, much lower inside",
        f"at least {CLOSE_TO_1}, and {ABOUT} above",
    )
    if reason := lineup.lacks("ResNets"):
        return untried(claim, expected, reason)
    found = by_place(lineup.lead("ResNets"))
    end, inside = (float(np.median(found[place])) for place in (END, INSIDE))
    clear = end >= CLOSE_TO_1 and end - inside >= ABOUT
    return relation(
        claim, expected, f"medians {end:.3f} and {inside:.3f}", true=end > inside, clear=clear
    )


def _densenet_is_like_resnet(lineup: Lineup) -> Check:
    """The mean score of DenseNet is below that of ResNet; clearly if by no more than 0.1, since it
    says slightly.
    """
    claim, expected = (
        "DenseNet is slightly more non-linear than ResNet",
        f"mean lower, by at most {ABOUT}",
    )
    if reason := lineup.lacks("DenseNets", "ResNets"):
        return untried(claim, expected, reason)
    dense, residual = (
        float(known(lineup.lead(group)).mean()) for group in ("DenseNets", "ResNets")
    )
    return relation(
        claim,
        expected,
        f"{dense:.3f} against {residual:.3f}",
        true=dense < residual,
        clear=residual - dense <= ABOUT,
    )


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


def _transitions_are_linear(lineup: Lineup) -> Check:
    """Each transition is above the median of the block before it; clearly if above three quarters
    of it.
    """
    claim, expected = (
        "DenseNet: transition layers are linear",
        "each above three quarters of its block",
    )
    if reason := lineup.lacks("DenseNets"):
        return untried(claim, expected, reason)
    pairs = transitions(lineup.lead("DenseNets"))
    if not pairs:
        return untried(claim, expected, "no path names a transition")
    shares = [float((before < score).mean()) for score, before in pairs]
    obtained = f"above {', '.join(f'{share:.0%}' for share in shares)}"
    return relation(claim, expected, obtained, true=min(shares) > 0.5, clear=min(shares) >= 0.75)


def kinds_of_places(signature: Signature, group: str) -> list[str]:
    """Name for every call of a network of some group its kind of place, the same for all networks.

    A call lies in a block where a numbered module has a named one above the activation, or the
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
    if group == RESIDUAL:
        return [
            END if place == END else kind
            for place, kind in zip(places_in(signature), kinds, strict=True)
        ]
    return kinds


def _kind(site: Site) -> str:
    parts = site.path.split(".")
    named = [place for place, part in enumerate(parts) if not part.isdecimal()]
    if not named or not any(letter.isdigit() for part in parts[: named[-1]] for letter in part):
        return NOWHERE
    return GATE if site.kind in GATES else INSIDE


@styled()
def draw(lineup: Lineup) -> dict[str, Drawn]:
    """Draw all signatures on one scale; nothing where there are no leads."""
    leads = lineup.leads()
    if not leads:
        return {}
    rows, columns = (len(leads) + 1) // 2, min(2, len(leads))
    figure = new_figure(PAGE, 0.4 + 1.2 * rows)
    panels = figure.subplots(rows, columns, sharey=True, squeeze=False).ravel()
    groups, table = lineup.cast.groups(), list[Mapping[str, Any]]()
    for panel, one, name in zip(
        panels, leads, short_names([lead.name for lead in leads]), strict=False
    ):
        table += draw_signature(
            one, panel, groups=kinds_of_places(one, groups[one.name]), order=KINDS
        ).table
        for line in panel.lines:
            line.set_markersize(0.75 * line.get_markersize())
        spread = batch_spread(one)
        panel.set(xlabel="", ylabel="")
        panel.set_title(
            f"{name}, mean std {spread:.4f}" if np.isfinite(spread) else name, fontsize=8, pad=3
        )
    for panel in panels[len(leads) :]:
        panel.set_axis_off()
    figure.supxlabel("activation call, in order of execution", fontsize=8)
    figure.supylabel("affinity score ± std", fontsize=8)
    add_panel_legend(figure, panels[: len(leads)])
    return {"": Drawn(figure, tuple(panels[: len(leads)]), table)}


ITEM = Item(measure=measure, judge=judge, draw=draw)
