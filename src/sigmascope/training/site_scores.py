"""The scores of all chosen sites in a training step, and the gradient of their mean term.

Wide layers are scored in blocks of channels. All blocks of one width are computed at once, and on a
GPU everything together is captured once and replayed, since hundreds of small products take longer
to launch than to compute.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sigmascope.training.cuda_graph import Step
from sigmascope.training.running_scores import RunningScores, kept_share, term

GRAPHS = 4  # at most so many are captured, for row counts that come again


@dataclass(frozen=True)
class Scored:
    """What a step has found.

    Attributes:
        value: the mean over the sites of 1 - score or (score - target)², a scalar.
        gradient: of the value to the rows of all sites, one after the other, flat.
        scores: (sites,), the mean over the blocks of each; NaN where there is none.
    """

    value: Tensor
    gradient: Tensor
    scores: Tensor

    def copy(self) -> Scored:
        """Return tensors that the next step leaves alone."""
        return Scored(self.value.clone(), self.gradient.clone(), self.scores.clone())


@dataclass(frozen=True)
class Run:
    """Consecutive blocks of one width, of one site."""

    site: int
    first: int
    width: int
    count: int

    @property
    def channels(self) -> slice:
        """Which channels of the site these are."""
        return slice(self.first, self.first + self.width * self.count)

    def of(self, rows: Tensor) -> Tensor:
        """Return the blocks (count, n, 2 width) of rows (n, 2d), inputs before outputs."""
        both = rows.reshape(len(rows), 2, -1)[
            ..., self.first : self.first + self.width * self.count
        ]
        blocks = both.reshape(len(rows), 2, self.count, self.width)
        return blocks.permute(2, 0, 1, 3).flatten(2)

    def put(self, blocks: Tensor, rows: Tensor) -> None:
        """Write blocks back to where `of` takes them from, contiguous rows (n, 2d)."""
        n = len(rows)
        both = rows.view(n, 2, -1)[..., self.channels]
        whole = blocks.reshape(self.count, n, 2, self.width).permute(1, 2, 0, 3)
        both.copy_(whole.reshape(n, 2, -1))


def runs_of(site: int, channels: int, block: int | None) -> Iterator[Run]:
    """Yield the blocks of a site: as few as possible of at most `block` channels, all alike.

    >>> [(run.first, run.width, run.count) for run in runs_of(0, 130, 64)]
    [(0, 44, 1), (44, 43, 2)]
    """
    count = 1 if block is None else -(-channels // block)
    width, larger = divmod(channels, count)
    if larger:
        yield Run(site, 0, width + 1, larger)
    yield Run(site, larger * (width + 1), width, count - larger)


@dataclass
class Group:
    """Blocks of one width, with equally many rows; `members` (sites, blocks) is 1 where it is."""

    running: RunningScores
    runs: list[Run]
    members: Tensor

    @property
    def counts(self) -> list[int]:
        """The number of blocks of each run."""
        return [run.count for run in self.runs]


class SiteScores:
    """The scores of sites on one device.

    Args:
        channels: of each site.
        alike: a number for each site, the same for those that have equally many rows.
        block, eps: as for `sigmascope.AffinityPenalty`.
        device: of the rows.
    """

    def __init__(
        self,
        channels: Sequence[int],
        alike: Sequence[int],
        *,
        block: int | None,
        eps: float,
        device: torch.device,
    ) -> None:
        runs: dict[tuple[int, int], list[Run]] = {}
        for site, number in enumerate(alike):
            for run in runs_of(site, channels[site], block):
                runs.setdefault((run.width, number), []).append(run)
        self._dtype = torch.float32 if device.type == "mps" else torch.float64
        self.groups = [
            Group(RunningScores(width, eps=eps), found, self._members(found, len(alike), device))
            for (width, _), found in runs.items()
        ]
        self._steps: dict[tuple[object, ...], tuple[Scored, Step]] = {}

    def _members(self, runs: list[Run], sites: int, device: torch.device) -> Tensor:
        of_block = torch.tensor([run.site for run in runs for _ in range(run.count)])
        return torch.eye(sites, dtype=self._dtype)[:, of_block].to(device)

    @torch.no_grad()
    def take(self, rows: Sequence[Tensor], target: float | None) -> Scored:
        """Score the rows (n, 2d) of the sites."""
        for group in self.groups:
            group.running.note(len(rows[group.runs[0].site]))
        is_settled = all(self._is_settled(group, rows) for group in self.groups)
        captures = rows[0].is_cuda and not torch.cuda.is_current_stream_capturing()
        key = (target, *map(len, rows))
        if not (captures and is_settled and (key in self._steps or len(self._steps) < GRAPHS)):
            found = self._empty(rows)
            self._run(found, target, rows)
            return found
        if key not in self._steps:
            found = self._empty(rows)
            step = Step(
                lambda *inputs: self._run(found, target, inputs),
                lambda: [found.value, found.gradient, found.scores, *self._sums()],
            )
            self._steps[key] = found, step
        found, step = self._steps[key]
        step(*rows)
        return found.copy()

    def waiting(self) -> dict[int, str]:
        """Return the sites without rows enough, each with the reason."""
        return {
            run.site: f"{one.running.rows:.0f} samples so far, and {one.running.needed} are needed"
            for one in self.groups
            for run in one.runs
            if not one.running.is_ready
        }

    @staticmethod
    def _is_settled(group: Group, rows: Sequence[Tensor]) -> bool:
        """Return whether each step does the same from now on, so that it can be replayed."""
        kept = kept_share(len(rows[group.runs[0].site]), group.running.channels)
        return group.running.is_ready and (bool(group.running.sums) or not kept)

    def _sums(self) -> list[Tensor]:
        return [one for group in self.groups for one in group.running.sums]

    def _empty(self, rows: Sequence[Tensor]) -> Scored:
        total, device = sum(one.numel() for one in rows), rows[0].device
        return Scored(
            torch.zeros((), dtype=self._dtype, device=device),
            torch.zeros(total, dtype=rows[0].dtype, device=device),
            torch.full((len(rows),), torch.nan, dtype=self._dtype, device=device),
        )

    def _run(self, found: Scored, target: float | None, rows: Sequence[Tensor]) -> None:
        """Add the rows to the sums; write what is found in place."""
        scored: list[tuple[Group, Tensor, Tensor]] = []
        for group in self.groups:
            blocks = torch.cat([run.of(rows[run.site]) for run in group.runs])
            added = group.running.add(blocks.to(self._dtype))
            if group.running.is_ready:
                scored.append((group, *group.running.scored(added)))
        if not scored:
            return
        totals, counts = torch.zeros_like(found.scores), torch.zeros_like(found.scores)
        for group, scores, _ in scored:
            sound = torch.isfinite(scores)
            totals += group.members @ scores.where(sound, 0)
            counts += group.members @ sound.to(self._dtype)
        found.scores.copy_(totals / counts)
        share = 1 / torch.isfinite(found.scores).sum().clamp_min(1)
        values, derivatives = term(found.scores, target)
        found.value.copy_(share * values.sum())
        self._write(found.gradient, scored, share * derivatives / counts.clamp_min(1), rows)

    @staticmethod
    def _write(
        gradient: Tensor,
        scored: list[tuple[Group, Tensor, Tensor]],
        factors: Tensor,
        rows: Sequence[Tensor],
    ) -> None:
        """Write the gradient, given the derivative of the value to the score of a block."""
        places = torch.split(gradient, [one.numel() for one in rows])
        for group, _, slopes in scored:
            weighted = (factors @ group.members)[:, None, None] * slopes
            for run, part in zip(group.runs, torch.split(weighted, group.counts), strict=True):
                run.put(part, places[run.site].view_as(rows[run.site]))
