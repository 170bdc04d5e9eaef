"""What one process has measured of the data: kept in a file, and merged with the other parts.

A part holds everything that a signature is assembled from. Batches and samples have their numbers
in the whole data set, so that every division gives the signature of one process.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sigmascope.capture.guard import preserve_state
from sigmascope.capture.sharded import sharded_parts
from sigmascope.capture.turns import one_at_a_time
from sigmascope.errors import FileFormatError, InputError, NetworkError, OptionError
from sigmascope.measure import grouped_experts
from sigmascope.measure.accumulating import PopulationSums
from sigmascope.measure.batch_scores import BatchReadings
from sigmascope.measure.digests import digest_of, digest_of_batch, digest_of_weights
from sigmascope.measure.merging import assembled
from sigmascope.measure.options import Options
from sigmascope.measure.result import Signature
from sigmascope.measure.running import Run
from sigmascope.measure.subject import Subject, identified, subject_of
from sigmascope.store import check_identity, decode, encode, read_features, write_features

READINGS = "readings"  # the tensor that holds them: a header of safetensors is limited
Stored = tuple[dict[str, Tensor], dict[str, object]]
"""Tensors and plain values, as a file holds them."""


@dataclass(frozen=True)
class About:
    """What is known of a part besides its readings and sums.

    Attributes:
        subject: the network.
        weights: a digest of all of its weights.
        options: how it was measured.
        batches: the numbers of the first batch, and of the one after the last.
        sample: the number of the first sample.
        data: a digest of the first batch.
        notes: what a reader of the result should know.
        fused: paths of activations that are part of a formula.
        experts: notes on experts, of the first batch.
    """

    subject: Subject
    weights: str
    options: Options
    batches: tuple[int, int]
    sample: int
    data: str
    notes: tuple[str, ...]
    fused: tuple[str, ...]
    experts: tuple[str, ...]


@dataclass(frozen=True)
class Part:
    """What was measured on some batches of the data.

    Attributes:
        about: which ones, and of what.
        readings: the published scores of each batch.
        sums: what the population score of all batches is computed from.
    """

    about: About
    readings: tuple[BatchReadings, ...]
    sums: PopulationSums

    @property
    def samples(self) -> int:
        """The number of samples."""
        return sum(one.size for one in self.readings)


def check_divisible(run: Run) -> None:
    """Raise an error for a run whose batches depend on each other, or on other processes."""
    network = run.network
    if sharded_parts(network):
        raise NetworkError(
            "the network is in shards of several processes, which run it together. Measure it with "
            "signature(...) on all ranks, on the same batches, without dividing them."
        )
    if run.options.mode == "as-is" and any(one.training for one in network.modules()):
        raise OptionError(
            "mode='as-is' with layers in training mode lets each batch change the network for the "
            "next, which processes that divide the data do not see. Use mode='eval'."
        )


def measured(run: Run, batches: Iterable[object], *, shown: bool) -> Part:
    """Return what is measured on batches that are where `run.order` says."""
    network, options, first = run.network, run.options, _First(batches)
    with one_at_a_time(f"measures {run.name:.80}"):
        subject = identified(subject_of(network, options, run.name), network)
        weights, before = digest_of_weights(network), digest_of(network.buffers())
        with preserve_state(network, mode=options.mode), _buffers_kept(network):
            torch.manual_seed(options.seed)
            readings = run.over(first, shown=shown)
            changed = digest_of(network.buffers()) != before
    notes = [*run.notes, *[CHANGED] * changed]
    experts = grouped_experts.notes_of(network, readings[0].readings if readings else ())
    start, sample = getattr(run.order, "batch", 0), getattr(run.order, "sample", 0)
    about = About(
        subject,
        weights,
        options,
        (start, start + first.count),
        sample,
        first.digest,
        tuple(notes),
        tuple(sorted(run.parts)),
        tuple(experts),
    )
    return Part(about, tuple(readings), run.sums)


CHANGED = (
    "the network changes its buffers while it runs, so that scores may depend on how the data was "
    "divided"
)


@contextmanager
def _buffers_kept(network: nn.Module) -> Iterator[None]:
    """Undo what a network does to its buffers, so that the next part finds the same network."""
    kept = [(one, one.detach().clone()) for one in network.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for one, before in kept:
                one.copy_(before)


class _First:
    """Batches; they are counted, and the first is identified before the network can change it."""

    def __init__(self, batches: Iterable[object]) -> None:
        self._batches = batches
        self.count, self.digest = 0, ""

    def __len__(self) -> int:
        return len(self._batches)  # type: ignore[arg-type]

    def __iter__(self) -> Any:
        for batch in self._batches:
            self.digest = self.digest or digest_of_batch(batch)
            self.count += 1
            yield batch


def stored(part: Part) -> Stored:
    """Return a part as tensors on the CPU and plain values."""
    tensors, sums = part.sums.state()
    text = json.dumps(encode(part.readings)).encode()
    found = {f"sums/{name}": tensor.cpu() for name, tensor in tensors.items()}
    found[READINGS] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    return found, {"about": encode(part.about), "sums": {**sums, "devices": {}}}


def restored(content: Stored, source: str) -> Part:
    """Return the part that `stored` described.

    Raises:
        FileFormatError: it is not one.
    """
    tensors, info = content
    try:
        about = decode(About, info["about"], f"{source}: about")
        text = bytes(tensors[READINGS].numpy())
        readings = decode(tuple[BatchReadings, ...], json.loads(text), f"{source}: readings")
    except (KeyError, TypeError, ValueError) as error:
        raise FileFormatError(f"{source} does not hold a part of a run: {error}") from error
    own = {name[5:]: tensor for name, tensor in tensors.items() if name != READINGS}
    sums = PopulationSums.restored(about.options, own, info.get("sums"), source)
    return Part(about, readings, sums)


def write_part(path: Path, content: Stored, header: dict[str, object]) -> None:
    """Write a part, atomically; the header says which run it belongs to."""
    tensors, info = content
    write_features(path, tensors, {**info, "header": header})


def read_part(path: Path, header: dict[str, object]) -> Part:
    """Return the part in a file.

    Raises:
        FileFormatError: it is corrupt, or not a part.
        ResumeError: it belongs to another run; the message lists the differences.
    """
    tensors, info = read_features(path)
    check_identity(path, info.get("header"), header)
    return restored((tensors, info), str(path))


def merged(parts: Iterable[Part]) -> Signature:
    """Return the signature of parts that follow each other, from the first batch to the last.

    They are read one at a time, so that no more than two are in memory.

    Raises:
        InputError: there is none, or they do not follow each other.
        NetworkError: they are of different networks.
        ResumeError: they were measured with different options or versions.
    """
    one_by_one = iter(parts)
    first = next(one_by_one, None)
    if first is None or first.about.batches[0]:
        raise InputError("the first part is missing. Pass all parts of the data, in order.")
    abouts, readings, sums = [first.about], [*first.readings], first.sums
    samples = first.samples
    for part in one_by_one:
        _check_alike(first.about, part.about)
        expected = abouts[-1].batches[1], samples
        found = part.about.batches[0], part.about.sample
        if found != expected:
            raise InputError(
                f"a part begins with batch {found[0]} at sample {found[1]}, and those before it "
                f"end before batch {expected[0]} at sample {expected[1]}: the data is not the same "
                "in all tasks, or a part is missing. Measure again in a new directory."
            )
        abouts.append(part.about)
        readings += part.readings
        samples += part.samples
        sums.merge(part.sums)
    return composed(abouts, readings, sums)


def composed(
    abouts: Sequence[About], readings: Sequence[BatchReadings], sums: PopulationSums
) -> Signature:
    """Return the signature of what several processes have measured."""
    first = next((one for one in abouts if one.batches[0] != one.batches[1]), abouts[0])
    fused = {path for one in abouts for path in one.fused}
    subject = replace(
        first.subject,
        expected=tuple(path for path in first.subject.expected if path not in fused),
        device=", ".join(dict.fromkeys(one.subject.device for one in abouts)),
    )
    # the one with the last batch may have a note on it, which comes before those that all have
    by_length = sorted(abouts, key=lambda one: -len(one.notes))
    notes = dict.fromkeys(note for one in by_length for note in one.notes)
    ordered = sorted(readings, key=lambda one: one.batch)
    return assembled(subject, first.options, ordered, sums.scores(), [*notes, *first.experts])


def _check_alike(first: About, other: About) -> None:
    """Raise an error if two parts are not of one network, measured in one way."""
    for part in ("model", "parameters"):
        here, there = getattr(first.subject, part), getattr(other.subject, part)
        if here != there or first.weights != other.weights:
            raise NetworkError(
                f"the parts from batch {first.batches[0]} and {other.batches[0]} on are of "
                f"different networks: {part} {here} and {there}, weights {first.weights[:8]} and "
                f"{other.weights[:8]}. Every task must load the same weights: fix the seed of "
                "random ones, or pass a file."
            )
    check_identity(
        f"the part from batch {other.batches[0]} on",
        {"options": other.options, "versions": other.subject.versions},
        {"options": first.options, "versions": first.subject.versions},
    )
