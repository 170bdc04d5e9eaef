"""Figure 12: the raw signatures of the representatives of a decade.

Signatures of the networks that stand for their groups, with one look for each place in a block, and the standard deviation over
five batches of 512 images, averaged over the activations, in the title; Ledoit–Wolf covariance. The claims are those of the
paper's Appendix D.

The rule was written before the networks were measured, with one exception: of ResNets it was known (Figure 7) that activations
at the end of a block nearly always score higher than those inside.
"""

from __future__ import annotations

import numpy as np

from sigmascope.figures import Drawn, draw_signatures
from sigmascope.measure.signature import Signature
from sigmascope.reproduce.item import Check, Item, relation, untried
from sigmascope.reproduce.nonlinearity.fig5a import LAST
from sigmascope.reproduce.nonlinearity.lineup import Array, Lineup, known, line_up
from sigmascope.reproduce.nonlinearity.places import END, INSIDE, by_place
from sigmascope.reproduce.setting import Setting

__all__ = ["ITEM", "transitions"]

PRINTED = (0.6, 0.9)  # of GoogLeNet
NEAR, ABOUT = 0.05, 0.1
CLOSE_TO_1 = 0.95


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
    """Return the mean over the sites of the standard deviation over the batches; NaN for a single batch."""
    found = np.array([site.std for site in signature.sites if np.isfinite(site.score)])
    return float(found.mean())


def _alexnet_is_stable(lineup: Lineup) -> Check:
    """AlexNet's scores vary less, by their standard deviation, than in half of all until 2019; clearly if than in all."""
    claim, expected = "AlexNet is stable throughout", f"the least std of all until {LAST}"
    years = lineup.cast.years()
    others = [one for one in lineup.leads() if years[one.name] <= LAST and one.name != lineup.cast.lead("AlexNets")]
    if (reason := lineup.lacks("AlexNets")) or not others:
        return untried(claim, expected, reason or "there is nothing to compare it with")
    own, stds = float(known(lineup.lead("AlexNets")).std()), [float(known(one).std()) for one in others]
    obtained = f"{own:.3f}, others {min(stds):.3f} to {max(stds):.3f}, median {np.median(stds):.3f}"
    return relation(claim, expected, obtained, true=own < float(np.median(stds)), clear=own < min(stds))


def _googlenet_varies(lineup: Lineup) -> Check:
    """Both ends are within 0.1 of the printed ones; clearly if within 0.05."""
    claim, expected = "GoogLeNet varies between 0.6 and 0.9", f"both ends within {NEAR}"
    if reason := lineup.lacks("Inceptions"):
        return untried(claim, expected, reason)
    scores = known(lineup.lead("Inceptions"))
    off = max(abs(float(scores.min()) - PRINTED[0]), abs(float(scores.max()) - PRINTED[1]))
    return relation(claim, expected, f"{scores.min():.3f} to {scores.max():.3f}", true=off <= ABOUT, clear=off <= NEAR)


def _skips_are_linear(lineup: Lineup) -> Check:
    """The median after a skip connection is above that inside the blocks; clearly if it is 0.95, and 0.1 above."""
    claim, expected = "ResNet: close to 1 after a skip, much lower inside", f"at least {CLOSE_TO_1}, and {ABOUT} above"
    if reason := lineup.lacks("ResNets"):
        return untried(claim, expected, reason)
    found = by_place(lineup.lead("ResNets"))
    end, inside = (float(np.median(found[place])) for place in (END, INSIDE))
    clear = end >= CLOSE_TO_1 and end - inside >= ABOUT
    return relation(claim, expected, f"medians {end:.3f} and {inside:.3f}", true=end > inside, clear=clear)


def _densenet_is_like_resnet(lineup: Lineup) -> Check:
    """The mean score of DenseNet is below that of ResNet; clearly if by no more than 0.1, since it says slightly."""
    claim, expected = "DenseNet is slightly more non-linear than ResNet", f"mean lower, by at most {ABOUT}"
    if reason := lineup.lacks("DenseNets", "ResNets"):
        return untried(claim, expected, reason)
    dense, residual = (float(known(lineup.lead(group)).mean()) for group in ("DenseNets", "ResNets"))
    return relation(
        claim, expected, f"{dense:.3f} against {residual:.3f}", true=dense < residual, clear=residual - dense <= ABOUT
    )


def transitions(signature: Signature) -> list[tuple[float, Array]]:
    """Return the score of each transition layer of a DenseNet with those of the block before it."""
    found: list[tuple[float, Array]] = []
    block: list[float] = []
    for site in signature.sites[:-1]:  # what follows the last block is no transition
        if "transition" in site.path or site.path.isdecimal():
            found.append((site.score, np.array(block)))
            block = []
        elif "denselayer" in site.path or "act" in site.path:
            block.append(site.score)
    return [(score, before[np.isfinite(before)]) for score, before in found if len(before)]


def _transitions_are_linear(lineup: Lineup) -> Check:
    """Each transition is above the median of the block before it; clearly if above three quarters of it."""
    claim, expected = "DenseNet: transition layers are linear", "each above three quarters of its block"
    if reason := lineup.lacks("DenseNets"):
        return untried(claim, expected, reason)
    pairs = transitions(lineup.lead("DenseNets"))
    if not pairs:
        return untried(claim, expected, "no path names a transition")
    shares = [float((before < score).mean()) for score, before in pairs]
    obtained = f"above {', '.join(f'{share:.0%}' for share in shares)}"
    return relation(claim, expected, obtained, true=min(shares) > 0.5, clear=min(shares) >= 0.75)


def draw(lineup: Lineup) -> dict[str, Drawn]:
    """Draw all signatures on one scale; nothing where there are no leads."""
    leads = lineup.leads()
    if not leads:
        return {}
    drawn = draw_signatures(leads)
    for panel, one in zip(drawn.axes, leads, strict=True):
        spread = batch_spread(one)
        added = f"{panel.get_title()}, mean std {spread:.4f}" if np.isfinite(spread) else panel.get_title()
        panel.set_title(added, fontsize=panel.title.get_fontsize(), pad=3)
    return {"": drawn}


ITEM = Item(
    title="the raw signatures of the representatives of a decade",
    budget="9 networks, 2560 test images of CIFAR-10 in 5 batches",
    exact="the claims are those of the paper's Appendix D; our networks of CIFAR-10 stand in for its of ImageNet, a Myrtle CNN "
    "for AlexNet; that VGG is slightly below AlexNet is left out, since the text does not say in which of the two senses",
    uncertainty="one seed of each network; the spread over batches stands in the titles; GoogLeNet's printed range is that of "
    "another network on other images",
    measure=measure,
    judge=judge,
    draw=draw,
    reason="not known; our GoogLeNet and DenseNet are far shallower than the paper's, and see other images",
)
