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
        gradient: of the value to what `take` was given, one tensor after the other, flat.
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

    def of(self, pair: Tensor) -> Tensor:
        """Return the blocks (count, n, 2 width) of an input and output (2, n, d)."""
        blocks = pair[..., self.channels].reshape(2, -1, self.count, self.width)
        return blocks.permute(2, 1, 0, 3).flatten(2)

    def put(self, blocks: Tensor, pair: Tensor) -> None:
        """Write blocks back to where `of` takes them from."""
        whole = blocks.reshape(self.count, -1, 2, self.width).permute(2, 1, 0, 3)
        pair[..., self.channels] = whole.flatten(2)


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
        self._kept_shares: dict[tuple[int, ...], Tensor] = {}

    def _members(self, runs: list[Run], sites: int, device: torch.device) -> Tensor:
        of_block = torch.tensor([run.site for run in runs for _ in range(run.count)])
        return torch.eye(sites, dtype=self._dtype)[:, of_block].to(device)

    @torch.no_grad()
    def take(
        self, tensors: Sequence[Tensor], positions: Sequence[int], target: float | None
    ) -> Scored:
        """Score inputs and outputs of the sites, (n, d) each, that are sums over so many positions.

        Args:
            tensors: x₁, y₁, x₂, y₂, and so on.
            positions: of each site.
            target: see `sigmascope.AffinityPenalty`.
        """
        lengths = [len(one) for one in tensors[::2]]
        for group in self.groups:
            group.running.note(lengths[group.runs[0].site])
        is_settled = all(self._is_settled(group, lengths) for group in self.groups)
        captures = tensors[0].is_cuda and not torch.cuda.is_current_stream_capturing()
        key = (target, *lengths, *positions)
        if not (captures and is_settled and (key in self._steps or len(self._steps) < GRAPHS)):
            found = self._empty(tensors)
            self._run(found, target, tensors, self._shares(positions))
            return found
        if key not in self._steps:
            found, shares = self._empty(tensors), self._shares(positions)
            step = Step(
                lambda *inputs: self._run(found, target, inputs, shares),
                lambda: [found.value, found.gradient, found.scores, *self._sums()],
            )
            self._steps[key] = found, step
        found, step = self._steps[key]
        step(*tensors)
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
    def _is_settled(group: Group, lengths: Sequence[int]) -> bool:
        """Return whether each step does the same from now on, so that it can be replayed."""
        kept = kept_share(lengths[group.runs[0].site], group.running.channels)
        return group.running.is_ready and (bool(group.running.sums) or not kept)

    def _sums(self) -> list[Tensor]:
        return [one for group in self.groups for one in group.running.sums]

    def _shares(self, positions: Sequence[int]) -> Tensor:
        """Return (sites,), the share of one position in a mean.

        It is kept, since nothing may be copied from the host while a graph is captured.
        """
        key = tuple(positions)
        if key not in self._kept_shares:
            shares = 1 / torch.tensor(key, dtype=self._dtype)
            self._kept_shares[key] = shares.to(self.groups[0].members.device)
        return self._kept_shares[key]

    def _empty(self, tensors: Sequence[Tensor]) -> Scored:
        total, device = sum(one.numel() for one in tensors), tensors[0].device
        return Scored(
            torch.zeros((), dtype=self._dtype, device=device),
            torch.zeros(total, dtype=tensors[0].dtype, device=device),
            torch.full((len(tensors) // 2,), torch.nan, dtype=self._dtype, device=device),
        )

    def _run(
        self, found: Scored, target: float | None, tensors: Sequence[Tensor], shares: Tensor
    ) -> None:
        """Add the means to the running sums; write what is found in place."""
        pairs = [torch.stack(pair) for pair in zip(tensors[::2], tensors[1::2], strict=True)]
        scored: list[tuple[Group, Tensor, Tensor]] = []
        for group in self.groups:
            blocks = [
                run.of(pairs[run.site].to(self._dtype) * shares[run.site]) for run in group.runs
            ]
            added = group.running.add(torch.cat(blocks))
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
        slopes = share * derivatives / counts.clamp_min(1)
        self._write(found.gradient, scored, slopes * shares, pairs)

    @staticmethod
    def _write(
        gradient: Tensor,
        scored: list[tuple[Group, Tensor, Tensor]],
        factors: Tensor,
        pairs: Sequence[Tensor],
    ) -> None:
        """Write the gradient, given the derivative of the value to the score of a block."""
        places = torch.split(gradient, [one.numel() for one in pairs])
        for group, _, slopes in scored:
            weighted = (factors @ group.members)[:, None, None] * slopes
            for run, part in zip(group.runs, torch.split(weighted, group.counts), strict=True):
                run.put(part, places[run.site].view_as(pairs[run.site]))
