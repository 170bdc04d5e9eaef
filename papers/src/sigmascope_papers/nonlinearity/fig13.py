"""Figure 13: the signatures of ViTs by the size of their patches.

One ViT for each size of patches, the largest where there are several; five batches of 512 images,
Ledoit–Wolf covariance. The paper contrasts patches of 16 and 32 pixels of images of 224; ours have
2, 4 and 8 of 32. Fine are those of 16 pixels, or the smallest there are; coarse are the largest.
Where the rise toward linearity happens is measured by the share of the last step: the last score
less the one before, divided by the range of all scores.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

import numpy as np
from scipy.stats import kendalltau

from sigmascope.figures import Drawn, draw_signatures
from sigmascope.measure.signature import Signature
from sigmascope_papers.item import Check, Item, relation, untried
from sigmascope_papers.nonlinearity.fig5a import RARE
from sigmascope_papers.nonlinearity.lineup import Array, known, line_up
from sigmascope_papers.setting import Setting

__all__ = ["ITEM", "Patches", "last_share", "patch_of"]

SIZE = re.compile(r"(?:patch|vit_[a-z]_)(\d+)")
FINE = 16
FEWEST = 4  # blocks, below which there is no plateau to speak of


@dataclass(frozen=True, eq=False)
class Patches:
    """Signatures of ViTs by the size of their patches, in pixels, the smallest first."""

    signatures: dict[int, Signature]

    @property
    def fine(self) -> int:
        """The size that stands for small patches."""
        return FINE if FINE in self.signatures else min(self.signatures)

    @property
    def coarse(self) -> int:
        """The size that stands for large ones."""
        return max(self.signatures)


def patch_of(name: str) -> int | None:
    """Read the size of the patches off the name of a network; None where it does not say.

    >>> patch_of("torchvision/vit_l_16"), patch_of("sigmascope/vit-patch4:0"), patch_of("sigmascope/vit:0")
    (16, 4, None)
    """
    found = SIZE.search(name)
    return int(found[1]) if found else None


def measure(setting: Setting) -> Patches:
    """Read or measure one ViT for each size."""
    sizes = {
        size: name for name in setting.cast.names("ViTs") if (size := patch_of(name)) is not None
    }
    if not sizes:
        return Patches({})
    lineup = line_up(setting, list(sizes.values()))
    return Patches({size: lineup.signatures[sizes[size]] for size in sorted(sizes)})


def last_share(scores: Array) -> float:
    """Return the share of the last step in the range of all scores; 0 where they are all equal."""
    return float((scores[-1] - scores[-2]) / (np.ptp(scores) or 1.0))


def judge(found: Patches) -> list[Check]:
    """Fine patches make the score rise all along, coarse ones in the last step alone; see the
    functions below.
    """
    if len(found.signatures) < 2 or any(
        len(known(one)) < FEWEST for one in found.signatures.values()
    ):
        reason = f"needs ViTs of two sizes of patches, with {FEWEST} blocks or more"
        return [untried(claim, expected, reason) for claim, expected in CLAIMS]
    return [_rises_gradually(found), _rises_at_the_end(found), _depends_on_size(found)]


CLAIMS = (
    (
        "small patches: non-linear early, ever more linear later",
        f"tau with depth above 0, p at most {RARE}",
    ),
    (
        "large patches: a plateau, then a steep rise in the last layer",
        "last step above the range between first and last",
    ),
    (
        "the larger the patches, the more of the rise is in the last layer",
        "share grows with every size",
    ),
)


def _rises_gradually(found: Patches) -> Check:
    """The score rises with depth by Kendall's tau, and is higher in the last third than in the
    first; clearly if p says so.
    """
    scores = known(found.signatures[found.fine])
    rank = kendalltau(np.arange(len(scores)), scores, alternative="greater")
    third = len(scores) // 3 or 1
    early, late = float(scores[:third].mean()), float(scores[-third:].mean())
    obtained = (
        f"patches of {found.fine}: tau {rank.statistic:.2f}, p = {rank.pvalue:.3f}, thirds "
        f"{early:.3f} and {late:.3f}"
    )
    return relation(
        *CLAIMS[0],
        obtained,
        true=bool(rank.statistic > 0) and late > early,
        clear=bool(rank.pvalue <= RARE),
    )


def _rises_at_the_end(found: Patches) -> Check:
    """The last step is the largest rise, to the highest score; clearly if it exceeds the range of
    all between.
    """
    scores = known(found.signatures[found.coarse])
    steps, plateau = np.diff(scores), float(np.ptp(scores[1:-1]))
    top = bool(
        steps[-1] > 0 and steps.argmax() == len(steps) - 1 and scores.argmax() == len(scores) - 1
    )
    obtained = (
        f"patches of {found.coarse}: last step {steps[-1]:.3f}, largest {steps.max():.3f}, range "
        f"between {plateau:.3f}"
    )
    return relation(*CLAIMS[1], obtained, true=top, clear=bool(steps[-1] > plateau))


def _depends_on_size(found: Patches) -> Check:
    """The share of the last step is larger for coarse patches than for fine ones; clearly if it
    grows with every size.
    """
    shares = {size: last_share(known(one)) for size, one in found.signatures.items()}
    grows = all(one < other for one, other in itertools.pairwise(shares.values()))
    obtained = ", ".join(f"{size}: {share:.2f}" for size, share in shares.items())
    return relation(
        *CLAIMS[2], obtained, true=shares[found.fine] < shares[found.coarse], clear=grows
    )


def draw(found: Patches) -> dict[str, Drawn]:
    """Draw all sizes on top of each other; nothing where there is no ViT."""
    return (
        {"": draw_signatures(list(found.signatures.values()), layout="overlaid")}
        if found.signatures
        else {}
    )


ITEM = Item(measure=measure, judge=judge, draw=draw)
