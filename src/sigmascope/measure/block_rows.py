"""The rows of a table of blocks, from what the passes over the data found."""

from __future__ import annotations

import math
from collections.abc import Iterator

from sigmascope.capture.block_finding import BlockPart
from sigmascope.capture.block_watching import BLOCK, FEED_FORWARD, Key
from sigmascope.maths.estimate import Estimate
from sigmascope.maths.linear_map import ResidualSums, mean_influence
from sigmascope.measure.block_passes import BlockPasses, Judged
from sigmascope.measure.block_result import Block
from sigmascope.measure.site import Site

NONE_INSIDE = "no activation call was seen in it"
NO_PART = (
    "no feed-forward part was recognized. Name it, feed_forward='mlp', or its first and last "
    "layer, 'fc1:fc2'"
)
NO_ROWS = "no token is held out"
NOT_SQUARE = "it has {} channels before and {} behind"


class BlockRows:
    """Iterates over the blocks of a network.

    Args:
        passes: over the data.
        judged: what the passes found.
        sites: the activations of the network.
        missing: why there are none.

    Attributes:
        notes: what a reader should know.
    """

    def __init__(
        self, passes: BlockPasses, judged: dict[Key, Judged], sites: tuple[Site, ...], missing: str
    ) -> None:
        self.notes: dict[str, None] = {}
        self._parts = {part.path: part for part in passes.parts}
        self._passes, self._judged = passes, judged
        self._sites, self._missing = sites, missing

    def __iter__(self) -> Iterator[Block]:
        for path, call in self._passes.calls:
            yield self._row(self._parts[path], call)
        seen = {path for path, _ in self._passes.calls}
        unseen = [path for path in self._parts if path not in seen]
        if unseen:
            self.notes[f"never called: {', '.join(unseen)}"] = None

    def _row(self, part: BlockPart, call: int) -> Block:
        whole = self._judged.get((part.path, call, BLOCK))
        inner = self._judged.get((part.path, call, FEED_FORWARD))
        site, score = self._activation(part, call)
        return Block(
            path=part.path,
            call=call,
            kind=part.kind,
            width=whole.inputs if whole else 0,
            site=site,
            fitted=_rows_in(whole, "on_fit"),
            held_out=_rows_in(whole, "held_out"),
            ridge=whole.fitted.ridge if whole else 0.0,
            feed_forward_ridge=inner.fitted.ridge if inner else 0.0,
            activation=score,
            feed_forward=self._feed_forward(part, call, inner),
            **self._measured(part, call, whole),
        )

    def _feed_forward(self, part: BlockPart, call: int, found: Judged | None) -> Estimate:
        if found is None:
            reason = self._passes.reasons.get((part.path, call, FEED_FORWARD), "it did not run")
            return Estimate(reason=reason if part.start else NO_PART)
        return found.held_out.explained() if _filled(found.held_out) else Estimate(reason=NO_ROWS)

    def _measured(self, part: BlockPart, call: int, found: Judged | None) -> dict[str, Estimate]:
        """Return the measures of the block itself."""
        names = ("stream", "increment", "procrustes", "procrustes_increment", "influence")
        reason = ""
        if found is None:
            reason = self._passes.reasons.get((part.path, call, BLOCK), "it did not run")
        elif not _filled(found.held_out):
            reason = NO_ROWS
        if found is None or reason:
            return dict.fromkeys(names, Estimate(reason=reason))
        measured = {"stream": found.held_out.explained(), "procrustes": found.on_fit.explained()}
        if found.inputs != found.outputs:
            apart = Estimate(reason=NOT_SQUARE.format(found.inputs, found.outputs))
            return {**dict.fromkeys(names, apart), **measured}
        return measured | {
            "increment": found.held_out.explained(increment=True),
            "procrustes_increment": found.on_fit.explained(increment=True),
            "influence": mean_influence(found.held_out, found.on_fit),
        }

    def _activation(self, part: BlockPart, call: int) -> tuple[str, Estimate]:
        """Return the name and the score of the activation in a block.

        Of several in its feed-forward part the one with the lowest score counts.
        """
        inside = [site for site in self._sites if _within(site.path, part.path)]
        feeding = [site for site in inside if part.start and _feeds(site.path, part)]
        inside = feeding or inside
        of_call = [site for site in inside if site.call == call]
        inside = of_call or inside
        if not inside:
            return "", Estimate(reason=self._missing or NONE_INSIDE)
        if len(inside) > 1:
            told = f"of several activations in a block, as in {part.path}, the least linear counts"
            self.notes[told] = None
        scored = [site for site in inside if math.isfinite(site.population)]
        site = min(scored, key=lambda one: one.population) if scored else inside[0]
        score = Estimate(site.population, site.low, site.high, site.population_reason)
        return site.name, score


def _within(path: str, around: str) -> bool:
    return not around or path == around or path.startswith(f"{around}.")


def _feeds(path: str, part: BlockPart) -> bool:
    """Return whether an activation is in the feed-forward part, or next to its layers."""
    if part.start == part.end:
        return _within(path, part.start)
    return _within(path, part.start) or path.rpartition(".")[0] == part.start.rpartition(".")[0]


def _filled(sums: ResidualSums) -> bool:
    return bool(sums.counts.sum() > 0)


def _rows_in(found: Judged | None, half: str) -> int:
    return int(getattr(found, half).counts.sum()) if found else 0
