"""The population sums of a run: added up over its batches, scored, and kept to resume it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from sigmascope.capture.call_site import CallInput, CallSite
from sigmascope.capture.pooled import PooledCall
from sigmascope.errors import FileFormatError, SigmascopeError
from sigmascope.maths.affine_fit import fit
from sigmascope.maths.moments import Moments
from sigmascope.maths.population import PopulationScore, without_score
from sigmascope.maths.scoring import score_all
from sigmascope.measure.batch_scores import call_of, rounding_of_call, scored
from sigmascope.measure.histograms import histogram_of
from sigmascope.measure.options import Options
from sigmascope.measure.site import Population
from sigmascope.store import decode, encode, read_features, write_features

SIDES = ("x", "y", "at")  # of sampled rows
SAMPLED = 128  # the first samples, of which a row each tests the identity coupling
# Certificates that leave open whether the identity is optimal.
OPEN = ("solver", "sorting")
OTHER_WIDTH = "x has {} columns, and the samples so far have {}"  # as `Moments` says it
# Sums are written after this many seconds, and after this many times what writing them takes.
PAUSE, PATIENCE = 10.0, 20.0


@dataclass
class AccumulatedCall:
    """What is accumulated of one call.

    Attributes:
        moments: its sums.
        x, y: a row of each of the first samples, by batch.
        at: the numbers of these samples.
        reason: why the rows of some batch could not be added.
    """

    moments: Moments
    x: list[Tensor] = field(default_factory=list)
    y: list[Tensor] = field(default_factory=list)
    at: list[Tensor] = field(default_factory=list)
    reason: str = ""

    def add(self, call: PooledCall, first: int, step: int, rounding: float) -> None:
        """Add the rows of a batch, whose samples have the numbers `first`, `first + step`, ..."""
        x, y = cast(Tensor, call.x), cast(Tensor, call.y)
        index: int | Tensor = first
        if call.index is not None or step != 1:
            index = first + step * (torch.arange(len(x)) if call.index is None else call.index)
        try:
            self.moments.take(x, y, index, rounding=rounding)
        except (SigmascopeError, RuntimeError) as error:
            self.reason = str(error).rstrip(".")
            return
        if first < SAMPLED:
            rows = _first_rows(call.index, -(-(SAMPLED - first) // step))
            self.x.append(x[rows].clone())
            self.y.append(y[rows].clone())
            every = torch.arange(first, first + len(x)) if isinstance(index, int) else index
            self.at.append(every[rows])

    def merge(self, other: AccumulatedCall) -> None:
        """Add what was accumulated of the same call elsewhere."""
        self.reason = self.reason or other.reason
        if other.moments.dim not in (0, self.moments.dim) and self.moments.dim:
            self.reason = OTHER_WIDTH.format(other.moments.dim, self.moments.dim)
            return
        self.moments.merge(other.moments)
        self.x, self.y, self.at = self.x + other.x, self.y + other.y, self.at + other.at

    def sampled(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the rows of the first samples and their numbers, in the order of these."""
        at, order = torch.cat(self.at).sort(stable=True)
        x, y = torch.cat(self.x), torch.cat(self.y)
        chosen = order.to(x.device)
        return x[chosen], y[chosen], at


class PopulationSums:
    """Sums of inputs and outputs, one `Moments` for each activation call.

    Attributes:
        batches: the fingerprints of the batches added so far, in order.
        calls: what is accumulated of each call.
        whole: whether these were added to all calls, not interrupted on the way.
    """

    def __init__(self, options: Options) -> None:
        self.batches: list[str] = []
        self.whole = True
        self._options = options
        self.calls: dict[CallSite, AccumulatedCall] = {}
        self._recent: dict[int, tuple[CallInput, int, AccumulatedCall, float]] = {}

    def add(
        self, calls: Sequence[PooledCall], first: int, fingerprint: str, *, step: int = 1
    ) -> None:
        """Add the calls of a batch whose first sample has this number; nothing waits for a GPU."""
        self.whole = False
        kinds = {call.x.device.type for call in calls if call.x is not None}
        with torch.no_grad(), ExitStack() as stack:
            for kind in kinds:
                stack.enter_context(torch.autocast(kind, enabled=False))
            for call in calls:
                if call.x is None or call.y is None or not len(call.x):
                    continue
                found, rounding = self._found(call, call.x)
                found.add(call, first, step, rounding)
        self.batches.append(fingerprint)
        self.whole = True

    def _found(self, call: PooledCall, x: Tensor) -> tuple[AccumulatedCall, float]:
        """Return what is accumulated of a call, and the rounding of its rows.

        In the next batch it is as a rule the same object.
        """
        known = self._recent.get(id(call.call))
        if known is not None and known[0] is call.call and known[1] == x.numel():
            return known[2:]
        found = self.calls.setdefault(
            call_of(call.call), AccumulatedCall(Moments(eps=self._options.eps))
        )
        rounding = rounding_of_call(call, x, self._options)
        self._recent[id(call.call)] = call.call, x.numel(), found, rounding
        return found, rounding

    def merge(self, other: PopulationSums) -> None:
        """Add the sums of other batches of the same data."""
        for call, one in other.calls.items():
            if call in self.calls:
                self.calls[call].merge(one)
            else:
                self.calls[call] = one
        self.batches += other.batches

    def scores(self) -> dict[CallSite, Population]:
        """Return the population scores of all calls, those of one width computed together."""
        with torch.no_grad():
            scores = _scores([one.moments for one in self.calls.values()])
            moved = self._moved()
            return {
                call: Population(population_reason=one.reason)
                if one.reason
                else _population(score, one, *moved.get(call, (0, 0)))
                for (call, one), score in zip(self.calls.items(), scores, strict=True)
            }

    def _moved(self) -> dict[CallSite, tuple[int, int]]:
        """Return on how many of how many sampled rows the identity coupling is not optimal."""
        pairs = {
            call: one.sampled()[:2]
            for call, one in self.calls.items()
            if not one.reason and sum(map(len, one.x)) > 1
        }
        found = {}
        for (call, pair), score in zip(
            pairs.items(), scored([*pairs.values()], self._options), strict=True
        ):
            if not isinstance(score, str) and score.certified != "none":
                open_ = score.certified in OPEN
                found[call] = _moved_rows(*pair, self._options) if open_ else 0, len(pair[0])
        return found

    def state(self) -> tuple[dict[str, Tensor], dict[str, object]]:
        """Return tensors and plain values from which `restored` makes the same sums."""
        tensors: dict[str, Tensor] = {}
        calls = []
        for number, (call, one) in enumerate(self.calls.items()):
            sums, info = one.moments.state()
            if one.x:
                sums |= {f"sampled.{name}": torch.cat(getattr(one, name)) for name in SIDES}
            tensors |= {f"{number}/{name}": tensor for name, tensor in sums.items()}
            calls.append({"call": encode(call), "sums": info, "reason": one.reason})
        devices = {name: str(one.device) for name, one in tensors.items() if not one.is_cpu}
        return tensors, {"batches": list(self.batches), "calls": calls, "devices": devices}

    @classmethod
    def restored(
        cls, options: Options, tensors: dict[str, Tensor], info: Any, source: str
    ) -> PopulationSums:
        """Return the sums that `state` described, on the same devices.

        Raises:
            FileFormatError: these are not sums.
        """
        sums = cls(options)
        try:
            sums.batches = decode(list[str], info["batches"])
            parts: list[dict[str, Tensor]] = [{} for _ in info["calls"]]
            for name, tensor in tensors.items():
                number, _, own = name.partition("/")
                parts[int(number)][own] = tensor.to(info["devices"].get(name, "cpu"))
            for part, about in zip(parts, info["calls"], strict=True):
                moments = Moments.from_state(part, about["sums"], source)
                x, y, at = _sides(part)
                one = AccumulatedCall(moments, x, y, at, decode(str, about["reason"]))
                sums.calls[decode(CallSite, about["call"])] = one
        except (KeyError, IndexError, AttributeError, TypeError, ValueError, RuntimeError) as error:
            raise FileFormatError(f"{source} does not hold the sums of a run: {error}") from error
        return sums


class SumsFile:
    """The file beside a journal that holds the sums of its run."""

    def __init__(self, resume: str | Path, header: dict[str, object]) -> None:
        self._path = sums_beside(resume)
        self._header = header
        self._written, self._seconds = time.monotonic(), 0.0
        self._batches = 0  # that are in the file

    def restore(self, options: Options, batches: Sequence[str]) -> PopulationSums:
        """Return the sums of the first of these batches; without any, if the file has others.

        The sums can be computed again at any time, so that no file is an error.
        """
        try:
            tensors, info = read_features(self._path)
            sums = PopulationSums.restored(options, tensors, info.get("sums"), str(self._path))
        except (FileNotFoundError, FileFormatError):
            return PopulationSums(options)
        same = info.get("header") == self._header
        if not same or sums.batches != list(batches[: len(sums.batches)]):
            return PopulationSums(options)
        self._batches = len(sums.batches)
        return sums

    def write(self, sums: PopulationSums, *, at_once: bool = True) -> None:
        """Write the sums, atomically: at once, or only if that would take little of the time."""
        began = time.monotonic()
        due = began - self._written > max(PAUSE, PATIENCE * self._seconds)
        if not sums.whole or len(sums.batches) == self._batches or not (at_once or due):
            return
        self._path.parent.stat()  # raises if it was moved: writing would create it again
        tensors, info = sums.state()
        write_features(self._path, tensors, {"header": self._header, "sums": info})
        self._written = time.monotonic()
        self._seconds = self._written - began
        self._batches = len(sums.batches)


def _sides(part: dict[str, Tensor]) -> list[list[Tensor]]:
    """Return the sampled rows in a file; earlier versions did not write the numbers of them."""
    x, y, at = (part.get(f"sampled.{name}") for name in SIDES)
    if x is None and y is None:
        return [[], [], []]
    if x is None or y is None or len(x) != len(y):
        raise ValueError("sampled rows of one side only")
    at = torch.arange(len(x)) if at is None else at
    if len(at) != len(x):
        raise ValueError("not as many numbers as sampled rows")
    return [[x], [y], [at]]


def sums_beside(resume: str | Path) -> Path:
    """Return the file of the sums that belong to a journal."""
    return Path(f"{resume}.moments.safetensors")


def _first_rows(index: Tensor | None, samples: int) -> slice | Tensor:
    """Return the first row of each of the first samples of a batch."""
    if index is None:
        return slice(samples)
    new = index.diff(prepend=index[:1] - 1) != 0
    return (new & (index < samples)).nonzero()[:, 0]


def _moved_rows(x: Tensor, y: Tensor, options: Options) -> int:
    """Return how many rows the optimal coupling of the mapped x with y moves to another point."""
    scoring = asdict(options.scoring())
    return fit(x.double().cpu(), y.double().cpu(), **scoring).moved


def _scores(moments: list[Moments]) -> list[PopulationScore]:
    """Score all sums together; where one fails, one by one, with the reason in place of a score."""
    try:
        return score_all(moments)
    except (SigmascopeError, RuntimeError) as error:
        if len(moments) == 1:
            return [without_score(moments[0].n, moments[0].dim, str(error).rstrip("."))]
        return [score for one in moments for score in _scores([one])]


def _population(
    score: PopulationScore, call: AccumulatedCall, moved: int, tested: int
) -> Population:
    return Population(
        population=score.score,
        stderr=score.stderr,
        low=score.low,
        high=score.high,
        influence=score.influence,
        population_n=score.n,
        population_reason=score.reason,
        moved=moved,
        tested=tested,
        dead=score.dead,
        gain=score.gain,
        histogram=histogram_of(*call.sampled()[:2]) if call.x else None,
    )
