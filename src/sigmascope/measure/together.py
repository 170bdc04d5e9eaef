"""The signature of a network whose ranks measure together, each on its own batches.

The batches are in turn those of the first rank, the second and so on, then the second batch of
each. What is measured equals the signature of one process on batches in this order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from torch.utils.data import DistributedSampler

from sigmascope.errors import InputError, NetworkError, OptionError
from sigmascope.measure.batch_scores import BatchReadings
from sigmascope.measure.batches import batch_size, batches_of
from sigmascope.measure.digests import digest_of_weights
from sigmascope.measure.numbering import Numbered, smaller_last
from sigmascope.measure.options import Options
from sigmascope.measure.parts import About, Part, check_divisible, composed, measured
from sigmascope.measure.result import Signature
from sigmascope.measure.running import Run
from sigmascope.measure.summing import summed_over
from sigmascope.measure.team import Team
from sigmascope.store import decode, differences, encode

END = object()


def signature_of_ranks(prepare: Callable[[], Run], batches: object, *, shown: bool) -> Signature:
    """Return the signature of the batches of all ranks, the same on each.

    Args:
        prepare: returns the run of this rank; if it fails, the others are told.
        batches: of this rank.
        shown: whether to show a progress bar.
    """
    team = Team.joined()
    with team.working():
        run, own = prepare(), batches_of(batches)
        check_divisible(run)
        _agree(team, run)
        sampler = _sampler(own, team)
        strided = all(flag for flag, *_ in team.exchange(int(sampler is not None)))
        run.order = Turns(team, strided)
        if strided and sampler is not None and team.is_first:
            run.notes += _unequal(sampler)
        return _of_all(team, measured(run, own, shown=shown and team.is_first))


def _of_all(team: Team, part: Part) -> Signature:
    """Return the signature of what all ranks have measured; the first one scores it."""
    own = json.dumps({"about": encode(part.about), "readings": encode(part.readings)}).encode()
    texts = team.texts(own)
    sums = summed_over(team, part.sums, part.about.options)
    result = b""
    if team.is_first:
        told = [json.loads(text) for text in texts]
        abouts = [decode(About, one["about"]) for one in told]
        readings = [decode(tuple[BatchReadings, ...], one["readings"]) for one in told]
        found = composed(abouts, [one for of_rank in readings for one in of_rank], sums)
        result = json.dumps(encode(found)).encode()
    # the others wait, and are told if it fails
    content = json.loads(team.texts(result)[0])
    return decode(Signature, content)


def _agree(team: Team, run: Run) -> None:
    """Raise an error, on all ranks, where they do not measure one network in one way."""
    here = {
        "options": encode(run.options),
        "name": run.name,
        "weights": digest_of_weights(run.network),
    }
    every = [json.loads(text) for text in team.texts(json.dumps(here).encode())]
    for rank, there in enumerate(every):
        told = "; ".join(differences(every[0], there))
        if not told:
            continue
        said = f"not the same on all ranks, on 0 (there) and {rank} (here): {told}"
        if there["weights"] != every[0]["weights"]:
            team.refuse(NetworkError(f"the network is {said}. Load the same weights on each."))
        team.refuse(OptionError(f"options are {said}. Pass the same on each."))


def _sampler(batches: object, team: Team) -> DistributedSampler[Any] | None:
    """Return what gives every rank each `team.count`-th sample of the data, if it is that."""
    sampler = getattr(batches, "sampler", None)
    if not isinstance(sampler, DistributedSampler):
        return None
    fits = (sampler.num_replicas, sampler.rank) == (team.count, team.me)
    return sampler if fits else None


def _unequal(sampler: DistributedSampler[Any]) -> list[str]:
    """Return a note on samples that a sampler repeats or leaves out, to give each rank as many."""
    size = len(sampler.dataset)  # type: ignore[arg-type]
    more = sampler.total_size - size
    if not more:
        return []
    verb = f"repeats {more}" if more > 0 else f"leaves out {-more}"
    return [f"the DistributedSampler {verb} of the {size} samples, to give every rank as many"]


class Turns:
    """The batches of all ranks in turn.

    Args:
        team: the ranks.
        strided: whether the samples of a rank are every `team.count`-th one of the data, as a
            DistributedSampler chooses them, and are numbered so.
    """

    def __init__(self, team: Team, strided: bool) -> None:
        self._team, self._strided = team, strided

    def numbered(
        self, items: Iterator[object], options: Options, notes: list[str]
    ) -> Iterator[Numbered]:
        """Yield the batches of this rank, with their numbers among those of all."""
        team, limit = self._team, options.max_batches
        batches = samples = own = 0
        full: int | None = None
        current = next(items, END)
        while limit is None or batches < limit:
            following = END if current is END else next(items, END)
            size = 0 if current is END else _size(current, options)
            table = team.exchange(size, following is not END)
            present = [rank for rank, (size, *_) in enumerate(table) if size]
            present = present[: None if limit is None else limit - batches]
            if not present:
                break
            sizes = [table[rank][0] for rank in present]
            full = sizes[0] if full is None else full
            if team.me in present:
                turn = present.index(team.me)
                ends = batches + len(present) == limit or not any(one[1] for one in table)
                first, step = samples + sum(sizes[:turn]), 1
                if self._strided:
                    first, step = team.me + team.count * own, team.count
                partial = size < full and ends and turn == len(present) - 1 and options.published
                notes += [smaller_last(size, full, options)] * partial
                if not partial or options.population:
                    yield Numbered(current, batches + turn, first, step, not partial)
            batches, samples, own = batches + len(present), samples + sum(sizes), own + size
            current = following
        if full is None:
            team.refuse(InputError("no rank has a batch. Pass at least one on some rank."))


def _size(item: object, options: Options) -> int:
    """Return the number of samples in a batch, which other ranks number theirs after."""
    size = batch_size(item, options.batch_axis)
    if not size:
        raise InputError(
            "a batch does not tell its number of samples, which ranks that measure together must "
            "know. Yield tensors, tuples (inputs, labels) or dicts of tensors."
        )
    return size
