"""Ranking the activation calls of a network, once or again after every few replacements."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from torch import nn

from sigmascope.capture.call_site import is_chosen
from sigmascope.capture.chosen_calls import Key
from sigmascope.capture.guard import preserve_state
from sigmascope.errors import InputError, NetworkError, NoActivationError, OptionError
from sigmascope.linearize.applying import install, refusal
from sigmascope.linearize.budgets import Budget, Elements, LossRise, sites_within
from sigmascope.linearize.collecting import (
    ActivationCall,
    activation_calls,
    counting,
    sums_of_calls,
)
from sigmascope.linearize.criteria import Criterion, ranked
from sigmascope.linearize.data import Data
from sigmascope.linearize.evidence import Evidence, Values, fitted, module_of, shared_copy
from sigmascope.linearize.loss_rise import Judge
from sigmascope.linearize.score import Score
from sigmascope.linearize.sums import PairSums

NOT_FINITE = "its input or output has NaN or infinite values in these batches"
OWN = "Perhaps it looks at its own modules; leave such sites out by sites=..."


@dataclass(frozen=True)
class Settings:
    """How to rank: see `sigmascope.linearize.plan`."""

    by: str
    criterion: Criterion
    maps: str
    iterative: bool
    step: int
    sites: tuple[str, ...]
    scores: bool
    seed: int


@dataclass
class Entry:
    """What is known of a call that can be replaced."""

    call: ActivationCall
    value: float
    fit: float
    values: Values | None
    score: Score = field(default_factory=Score)


class Ranking:
    """The order in which calls of a network are replaced.

    Attributes:
        calls: all activation calls, in order of execution.
        entries: those that can be replaced, by name, as last measured.
        order: the names of those that are ranked, the first to be replaced first.
    """

    def __init__(self, network: nn.Module, data: Data, settings: Settings) -> None:
        self._original, self._data, self._settings = network, data, settings
        self._network = shared_copy(network)  # in which calls are replaced as they are chosen
        found = activation_calls(self._network, data)
        if not found:
            raise NoActivationError(
                "the network made no activation call that could be replaced. Register its "
                "activations with sigmascope.register_activation."
            )
        self.calls = [self._judged(call) for call in found]
        self.entries: dict[str, Entry] = {}
        self.order: list[str] = []
        self._installed: dict[str, ActivationCall] = {}
        self._lost: list[str] = []  # names of calls that no map can be fitted to

    def _judged(self, call: ActivationCall) -> ActivationCall:
        reason = refusal(self._network, call)
        patterns = self._settings.sites
        if not reason and patterns and not is_chosen(call.name, call.kind, patterns):
            reason = "not among sites="
        return replace(call, reason=reason)

    @property
    def candidates(self) -> list[ActivationCall]:
        """The calls that can be replaced.

        Raises:
            NoActivationError: there are none.
        """
        found = [call for call in self.calls if not call.reason]
        if not found:
            reasons = {f"{call.name}: {call.reason}" for call in self.calls}
            raise NoActivationError(
                "no activation call of the network can be replaced: "
                f"{'; '.join(sorted(reasons)[:4])}."
            )
        return found

    def choose(self, budget: Budget) -> int:
        """Rank the calls, and return how many of them a budget stands for."""
        if not isinstance(budget, LossRise):  # before anything is measured
            everything = [call.elements for call in self.candidates]
            sites_within(budget, everything, self._elements)
        if self._settings.iterative:
            return self._choose_in_rounds(budget)
        self.order = self._measure(self.candidates)
        self._check_order()
        return self._count(budget)

    @property
    def _elements(self) -> int:
        return sum(call.elements for call in self.calls)

    def check_values(self, names: list[str]) -> None:
        """Raise an InputError where a chosen call has no value to be ranked by."""
        missing = [name for name in names if math.isnan(self.entries[name].value)]
        if not missing:
            return
        reason = self.entries[missing[0]].score.reason
        raise InputError(
            f"by={self._settings.by!r} has no value for {len(missing)} of the {len(names)} sites "
            f"that the budget asks for, such as {missing[0]}{': ' + reason if reason else ''}. "
            "Pass more batches, a smaller budget or another criterion."
        )

    def _check_order(self) -> None:
        """Raise an InputError where no map can be fitted to any call."""
        if not self.order:
            raise InputError(
                "no map can be fitted: every activation that could be replaced has NaN or infinite "
                f"inputs or outputs in these batches, such as {self._lost[0]}. Check the data and "
                "the weights of the network."
            )

    def _count(self, budget: Budget) -> int:
        if isinstance(budget, LossRise):
            judge = Judge(self._original, budget, self._data)
            return self._accepted(self.order, judge)
        return sites_within(budget, self._elements_of(self.order), self._elements)

    def _elements_of(self, names: list[str]) -> list[int]:
        return [self.entries[name].call.elements for name in names]

    def _choose_in_rounds(self, budget: Budget) -> int:
        judge = Judge(self._original, budget, self._data) if isinstance(budget, LossRise) else None
        by_name = {call.name: call for call in self.candidates}
        while by_name:
            best = self._measure([*by_name.values()])[: self._settings.step]
            if not best:
                break
            for name in best:
                if judge is not None and not self._accepted([name], judge):
                    return len(self.order)
                if judge is None:
                    self._install(name)
                self.order.append(name)
                del by_name[name]
                if judge is None and self._is_met(budget):
                    return len(self.order)
        self._check_order()
        # raises where calls that no map can be fitted to are missing
        return len(self.order) if judge is not None else self._count(budget)

    def _is_met(self, budget: Budget) -> bool:
        assert not isinstance(budget, LossRise)
        if isinstance(budget, Elements):
            try:
                sites_within(budget, self._elements_of(self.order), self._elements)
            except OptionError:
                return False
            return True
        count = sites_within(budget, [1] * len(self.candidates), self._elements)
        return len(self.order) >= count

    def _accepted(self, names: list[str], judge: Judge) -> int:
        """Replace calls while the loss rises little; return how many.

        Raises:
            OptionError: none at all.
        """
        for count, name in enumerate(names):
            trial = shared_copy(self._network)
            entry = self.entries[name]
            install(trial, entry.call, module_of(entry.values, entry.call, trial))
            rise = judge.rise(trial)
            if not rise <= judge.budget.rise:
                if not count and not self._installed:
                    raise OptionError(
                        f"a budget of {judge.budget} cannot be met: the loss rises by {rise:.4g} "
                        f"when {name} is replaced, the first in the ranking. Pass a larger one."
                    )
                return count
            self._network = trial
            self._installed[name] = entry.call
        return len(names)

    def _install(self, name: str) -> None:
        entry = self.entries[name]
        install(self._network, entry.call, module_of(entry.values, entry.call, self._network))
        self._installed[name] = entry.call

    def _measure(self, wanted: list[ActivationCall]) -> list[str]:
        """Measure calls in the network as it is now, and return their names in order."""
        names, calls, sums = self._summed(wanted)
        if not calls:
            return []
        fits = {call.key: fitted(call, sums[call.key], self._settings.maps) for call in calls}
        values = {key: found for key, (found, _) in fits.items()}
        evidence = Evidence(
            self._network, self._data, calls, names, sums, values, self._settings.seed
        )
        numbers, order = ranked(self._settings.criterion, self._settings.by, evidence)
        scores = self._scores(evidence)
        originals = {call.name: call for call in wanted}
        for name, call, value, score in zip(names, calls, numbers, scores, strict=True):
            found, fit = fits[call.key]
            earlier = self.entries[name].score if name in self.entries else score
            self.entries[name] = Entry(originals[name], value, fit, found, earlier)
        return [names[place] for place in order]

    def _summed(
        self, wanted: list[ActivationCall]
    ) -> tuple[list[str], list[ActivationCall], dict[Key, PairSums]]:
        """Return the names of calls, these calls in the network as it is now, and their sums.

        Without those that no map can be fitted to, which are kept as they are.
        """
        now = {before.name: after for before, after in self._present()}
        present = {call.name: now[call.name] for call in wanted if call.name in now}
        is_full = self._settings.maps == "full"
        sums = sums_of_calls(self._network, self._data, [*present.values()], full=is_full)
        found = {
            name: call
            for name, call in present.items()
            if call.key in sums and sums[call.key].is_finite
        }
        self._lost = [name for name in present if name not in found]
        self.calls = [
            replace(call, reason=NOT_FINITE) if call.name in self._lost else call
            for call in self.calls
        ]
        return [*found], [*found.values()], sums

    def _scores(self, evidence: Evidence) -> list[Score]:
        """Return the scores that the table shows, of the network as it was at first."""
        wanted = self._settings.scores or self._settings.by == "affinity"
        if self._installed or not wanted:
            return [Score() for _ in evidence.calls]
        return evidence.scores("positions")

    def _present(self) -> Iterator[tuple[ActivationCall, ActivationCall]]:
        """Yield each call that is not replaced, and that call in the network as it is now."""
        if not self._installed:
            yield from ((call, call) for call in self.calls)
            return
        yield from remaining(self._network, self._data, self.calls, self._installed)

    def check(self, names: list[str]) -> None:
        """Check that the network with maps in place of these calls does what it should.

        Raises:
            NetworkError: a map is not called once in a pass, or other calls changed.
        """
        network = shared_copy(self._original)
        chosen = {name: self.entries[name] for name in names}
        runs: Counter[str] = Counter()
        placed = {}
        for name, entry in chosen.items():
            placed[name] = module_of(entry.values, entry.call, network)
            install(network, entry.call, placed[name])
        paths = {one: path for path, one in network.named_modules()}
        with preserve_state(network, mode="eval"), counting(network, runs):
            try:
                self._data.forward(network, self._data.first(network).content)
            except Exception as error:
                raise NetworkError(
                    f"the network does not run with maps in place of activations: {error}. {OWN}"
                ) from error
        wrong = [name for name, one in placed.items() if runs[paths[one]] != 1]
        if wrong:
            raise NetworkError(
                f"the map in place of {wrong[0]} is called {runs[paths[placed[wrong[0]]]]} times "
                f"in a pass, not once. {OWN}"
            )
        if len(names) < len(self.calls):
            list(remaining(network, self._data, self.calls, dict.fromkeys(names)))


def remaining(
    network: nn.Module,
    data: Data,
    calls: list[ActivationCall],
    replaced: dict[str, ActivationCall] | dict[str, None],
) -> Iterator[tuple[ActivationCall, ActivationCall]]:
    """Yield each call that was not replaced, and that call in a network with maps.

    There, later calls of a module have smaller numbers, and an activation that is used several
    times is inside a `Reused`.

    Raises:
        NetworkError: the network makes other calls than those.
    """
    left = [call for call in calls if call.name not in replaced]
    found = activation_calls(network, data)
    if [call.kind for call in left] != [call.kind for call in found]:
        raise NetworkError(
            "the network calls other activations when some are replaced: "
            f"{', '.join(call.name for call in found)[:200]} where "
            f"{', '.join(call.name for call in left)[:200]} were expected. Its control flow "
            "depends on values, so that it cannot be linearized."
        )
    yield from zip(left, found, strict=True)
