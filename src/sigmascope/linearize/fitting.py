"""The verb `fit`: plan, apply, tune, fold and test, in one call that can be interrupted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from torch import nn

from sigmascope.capture.guard import copied, randomness_kept, unwrapped
from sigmascope.checks import check_kind, check_seed, check_whole, options_from
from sigmascope.linearize.budgets import Budget, budget_text, check_budget
from sigmascope.linearize.criteria import criterion_of
from sigmascope.linearize.data import Data, Loss
from sigmascope.linearize.fit_files import FitFiles
from sigmascope.linearize.fit_fold import folded
from sigmascope.linearize.fit_options import FitOptions
from sigmascope.linearize.functions import functions_of
from sigmascope.linearize.judging import Judgment, judged
from sigmascope.linearize.linearization import (
    CurvePoint,
    Folding,
    Linearization,
    Sizes,
    Tuning,
    best_of,
)
from sigmascope.linearize.planning import By, apply, plan, structure_of
from sigmascope.linearize.result import Plan
from sigmascope.linearize.split import Split, are_tensors, in_batches, size_of
from sigmascope.linearize.tuned import USUAL_BATCH, Tuned, TuneSettings
from sigmascope.linearize.tuner import seed_all
from sigmascope.linearize.tuning import TuneOptions, tune
from sigmascope.measure.batches import Forward, place_of
from sigmascope.measure.digests import digest_of_weights
from sigmascope.measure.progress import progress_bar
from sigmascope.measure.subject import check_device, current_versions

MOST_POINTS = 25  # of the curve without tuning


@dataclass(frozen=True)
class _Options:
    """The options of a fit; those of the tuning are checked by `TuneSettings`."""

    maps: str = "channel"
    iterative: bool = False
    step: int = 1
    sites: Any = ()
    points: int = 1
    baseline: bool = False
    fold: bool = True
    name: str = ""
    data_name: str = ""
    seed: int = 0
    loss: Loss | None = None
    forward: Forward | None = None
    progress: bool = True

    def __post_init__(self) -> None:
        check_whole("points", self.points, 1)
        check_seed(self.seed)


def fit(
    model: nn.Module,
    data: Split,
    *,
    budget: Budget,
    by: By = "affinity",
    epochs: int = 5,
    folder: str | Path | None = None,
    **options: Unpack[FitOptions],
) -> Linearization:
    """Return a network with fewer activations, tuned and folded, and what that costs.

    1. Sites are ranked and maps fitted on the held-out data: `plan`.
    2. The accuracy is measured there for every number of replaced activations, in the order of the
       ranking and without tuning: the curve. At most 25 numbers are tried.
    3. The network at the budget is tuned on the training data, by the original as teacher: `tune`.
       If that lowers the held-out accuracy, as on very few samples, the untuned one is kept.
    4. What became linear is merged: `fold`.
    5. The original and the result are measured on the test data, for the first time.

    Args:
        model: any classifier. It is not changed.
        data: the three parts, see `Split`.
        budget: see `plan`.
        by: see `plan`.
        epochs: of tuning; 0 for none.
        folder: a directory for the results; after a kill the same call continues in it, and a
            finished one is read. It gets plan.json, network.json and linearization.json with their
            tensors. None to write nothing.
        **options: see `FitOptions` and `TuneOptions`: maps="channel", iterative=False, step=1,
            sites=(), points=1, baseline=False, fold=True, name="", data_name="", seed=0, and all
            of the tuning, such as distill=0.9; 0 for no teacher. The batch size is by default such
            that an epoch has 16 steps or more.

    Raises:
        OptionError: an option that is not valid, or a budget that cannot be met.
        InputError: no batches, or no labels.
        ResumeError: the directory belongs to another run, or is in use.

    >>> import torch
    >>> _ = torch.manual_seed(0)
    >>> network = nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.9), nn.Linear(8, 8), nn.Tanh())
    >>> samples = torch.randn(256, 2), torch.arange(256) % 8
    >>> found = fit(network, Split(samples, samples, samples), budget=1, epochs=2)
    >>> [site.name for site in found.plan.chosen], found.folding.steps
    (['1'], ('0 + 1 + 2 → one linear layer, 2 to 8',))
    >>> found.network
    GraphModule(
      (0): Linear(in_features=2, out_features=8, bias=True)
      (3): Tanh()
    )
    """
    check_kind("data", data, Split, "sigmascope.linearize.Split(train, held_out, test)")
    check_whole("epochs", epochs)
    given: dict[str, Any] = dict(options)
    tuning = {name: given.pop(name) for name in _tuning_names() if name in given}
    tuning.setdefault("batch", usual_batch(data))
    settings = options_from(TuneSettings, {**tuning, "epochs": max(1, epochs)})
    chosen = options_from(_Options, given)
    network = unwrapped(model)
    check_device(network)
    run = _Run(
        network, data, chosen, settings if epochs else None, tuning, check_budget(budget), by
    )
    with randomness_kept():
        seed_all(chosen.seed)  # of loaders that shuffle, whose first batches tell data from others
        if folder is None:
            return run.made(None)
        with FitFiles(Path(folder)).claimed(run.identity()) as files:
            return files.finished(network) or run.made(files)


def usual_batch(data: Split) -> int:
    """Return a batch size with at least 16 steps in an epoch, where samples are in tensors."""
    batch = USUAL_BATCH
    while batch > 16 and are_tensors(data.train) and len(data.train[1]) < 16 * batch:
        batch //= 2
    return batch


def _tuning_names() -> list[str]:
    own = {"loss", "forward", "progress"}
    return [name for name in TuneOptions.__annotations__ if name not in own]


@dataclass
class _Run:
    """One linearization from the start to the end."""

    network: nn.Module
    data: Split
    options: _Options
    settings: TuneSettings | None
    tuning: dict[str, Any]
    budget: Budget
    by: By

    def identity(self) -> dict[str, object]:
        """Return what the result depends on, as plain values."""
        chosen, sites = self.options, self.options.sites
        own = getattr(self.by, "values", self.by)  # of a `Criterion`
        functions = functions_of(loss=chosen.loss, forward=chosen.forward, by=own)
        return {
            **({"functions": functions} if functions else {}),
            "network": structure_of(self.network),
            "weights": digest_of_weights(self.network),
            "budget": budget_text(self.budget),
            "by": criterion_of(self.by)[0],
            "options": {
                name: getattr(chosen, name)
                for name in ("maps", "iterative", "step", "points", "baseline", "fold", "seed")
            },
            "sites": [sites] if isinstance(sites, str) else sorted(sites),
            "settings": None if self.settings is None else vars(self.settings),
            "data": self.data.digests(),
            "device": place_of(self.network)[0].type,
        }

    def made(self, files: FitFiles | None) -> Linearization:
        """Return the result, and write it."""
        held_out = self._judging(self.data.held_out)
        found = files.plan() if files else None
        if found is None:
            found = self._planned()
            if files:
                files.save_plan(found)
        points = [*self._untuned(found, held_out)]
        tuned = self._tuned(found, files)
        points += [
            _point(found, count, one.history[-1].held_out, one) for count, one in tuned.items()
        ]
        count = len(found.chosen)
        best = best_of([one for one in points if one.replaced == count])
        network = tuned[count].network if best.epochs else apply(self.network, found)
        whole, folding = network.eval(), None
        if self.options.fold:
            network, folding = folded(
                whole, held_out, is_saved=files is not None, progress=self.options.progress
            )
        result = self._result(found, points, tuned, folding, network)
        if files:
            files.save(result, whole, self.network)
        return result

    def _judging(self, batches: Any) -> Data:
        return Data(in_batches(batches), self.options.forward, self.options.loss)

    def _planned(self) -> Plan:
        chosen = self.options
        more: dict[str, Any] = {name: getattr(chosen, name) for name in ("maps", "step", "sites")}
        return plan(
            self.network,
            in_batches(self.data.held_out),
            budget=self.budget,
            by=self.by,
            iterative=chosen.iterative,
            loss=chosen.loss,
            forward=chosen.forward,
            seed=chosen.seed,
            progress=chosen.progress,
            **more,
        )

    def _untuned(self, found: Plan, held_out: Data) -> list[CurvePoint]:
        counts = spaced(len(found.ranking), MOST_POINTS - 1, len(found.chosen))
        points = []
        with progress_bar("curve", len(counts) + 1, shown=self.options.progress) as advance:
            for count in (0, *counts):
                points.append(_point(found, count, judged(self._replaced(found, count), held_out)))
                advance()
        return points

    def _replaced(self, found: Plan, count: int) -> nn.Module:
        return apply(self.network, found.with_budget(count)) if count else copied(self.network)

    def _tuned(self, found: Plan, files: FitFiles | None) -> dict[int, Tuned]:
        """Return the tuned networks by their number of replaced activations."""
        if self.settings is None:
            return {}
        chosen = self.options
        counts = spaced(len(found.chosen), chosen.points, len(found.chosen))
        teacher = self.network if self.settings.distill else None
        return {
            count: tune(
                self._replaced(found, count),
                self.data.train,
                teacher=teacher,
                held_out=in_batches(self.data.held_out),
                epochs=self.settings.epochs,
                checkpoint=files.checkpoint(count) if files else None,
                seed=chosen.seed,
                loss=chosen.loss,
                forward=chosen.forward,
                progress=chosen.progress,
                **self.tuning,
            )
            for count in [*([0] if chosen.baseline else []), *counts]
        }

    def _result(
        self,
        found: Plan,
        points: list[CurvePoint],
        tuned: dict[int, Tuned],
        folding: Folding | None,
        network: nn.Module,
    ) -> Linearization:
        test = None if self.data.test is None else self._judging(self.data.test)
        before, after = (
            Judgment() if test is None else judged(one, test) for one in (self.network, network)
        )
        return Linearization(
            name=self.options.name or found.network,
            plan=found,
            points=tuple(points),
            tunings=tuple(Tuning(count, one.history) for count, one in tuned.items()),
            settings=self.settings,
            folding=folding,
            before=before,
            after=after,
            samples=Sizes(size_of(self.data.train), points[0].held_out.samples, before.samples),
            data=self.options.data_name,
            seed=self.options.seed,
            versions=current_versions(),
            network=network,
        )


def spaced(last: int, most: int, included: int) -> list[int]:
    """Return at most so many numbers from 1 to the last, evenly spaced, with one among them.

    >>> spaced(8, 4, 8), spaced(3, 9, 2), spaced(100, 3, 7)
    ([2, 4, 6, 8], [1, 2, 3], [7, 67, 100])
    """
    if last <= most:
        return list(range(1, last + 1))
    numbers = {max(1, round(last * (place + 1) / most)) for place in range(most)}
    if included not in numbers:
        numbers.remove(min(numbers - {last} or numbers, key=lambda one: abs(one - included)))
        numbers.add(included)
    return sorted(numbers)


def _point(found: Plan, count: int, held_out: Judgment, tuned: Tuned | None = None) -> CurvePoint:
    gone = sum(site.elements for site in found.ranking[:count])
    return CurvePoint(
        replaced=count,
        left=len(found.sites) - count,
        elements=found.elements - gone,
        epochs=0 if tuned is None else tuned.settings.epochs,
        held_out=held_out,
    )
