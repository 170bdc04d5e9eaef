"""The verbs `plan` and `apply`: rank, choose and replace activations."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypedDict, Unpack

from torch import nn

from sigmascope.capture.guard import copied, plain_path, randomness_kept, unwrapped
from sigmascope.capture.turns import one_at_a_time
from sigmascope.capture.walk import modules_of
from sigmascope.checks import check_choice, check_kind, check_seed, check_whole, options_from
from sigmascope.choices import LinearizeMaps
from sigmascope.errors import InputError, NetworkError
from sigmascope.linearize.applying import install
from sigmascope.linearize.budgets import Budget, budget_text, check_budget
from sigmascope.linearize.collecting import ActivationCall
from sigmascope.linearize.criteria import Criterion, criterion_of
from sigmascope.linearize.data import Data, Loss, labels_of
from sigmascope.linearize.evidence import Evidence, module_of
from sigmascope.linearize.probe import are_close, probed, probed_twice
from sigmascope.linearize.reading import batches_to_read
from sigmascope.linearize.result import INPUTS, Plan, PlannedSite
from sigmascope.linearize.rounds import Ranking, Settings
from sigmascope.measure.batches import Forward, tensors_in
from sigmascope.measure.digests import digest_of_weights
from sigmascope.measure.options import checked_patterns
from sigmascope.measure.progress import progress_bar
from sigmascope.measure.subject import ADDRESS, check_device

By = str | Criterion | Callable[[Evidence], Sequence[float]]


class PlanOptions(TypedDict, total=False):
    """Further options of `plan`.

    Attributes:
        step: how many sites an iterative plan replaces at once; 1 by default.
        sites: which sites may be replaced, by patterns of their names or by kinds, such as
            "layer1.*" or "relu"; all by default.
        scores: whether to measure the affinity scores that the table shows, also where the
            criterion does not need them; True by default, and costs one pass over the batches.
        loss: a function of outputs and labels that returns the mean loss over the batch, not the
            sum; by default the cross-entropy of logits. Batches are weighted by their samples: with
            labels to ignore, such as -100, the result depends on how samples are batched.
        forward: a function of the network and a batch that runs the network, for batches of any
            other form than those of `sigmascope.signature`.
        seed: for by="random" and the positions that scores are measured on.
        progress: whether to show a progress bar, on a terminal; True by default.

    >>> import torch
    >>> from sigmascope import linearize
    >>> layers = torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1), torch.nn.Tanh()
    >>> options: linearize.PlanOptions = {"sites": "relu", "scores": False}
    >>> found = linearize.plan(
    ...     torch.nn.Sequential(*layers), torch.randn(256, 4), budget=1, by="r2", **options
    ... )
    >>> [site.name for site in found.chosen]
    ['1']
    """

    step: int
    sites: str | Collection[str]
    scores: bool
    loss: Loss | None
    forward: Forward | None
    seed: int
    progress: bool


@dataclass(frozen=True)
class _Options:
    step: int = 1
    sites: tuple[str, ...] = ()
    scores: bool = True
    loss: Loss | None = None
    forward: Forward | None = None
    seed: int = 0
    progress: bool = True

    def __post_init__(self) -> None:
        check_whole("step", self.step, 1)
        check_seed(self.seed)
        object.__setattr__(self, "sites", checked_patterns(self.sites))


def plan(
    model: nn.Module,
    batches: Any,
    *,
    budget: Budget,
    by: By = "affinity",
    maps: LinearizeMaps = "channel",
    iterative: bool = False,
    **options: Unpack[PlanOptions],
) -> Plan:
    """Return which activations of a network to replace by affine maps, and these maps.

    The activations are ranked by a criterion, and as many are chosen as the budget allows. The maps
    are fitted by least squares to their inputs and outputs on the batches, where every position is
    a sample. The network is measured in evaluation mode and is not changed.

    Args:
        model: any `nn.Module`.
        batches: a loader, a list of batches or one batch, see `sigmascope.signature`; with labels,
            (inputs, labels), for criteria that need them. They are read once or more for each
            criterion; an iterator is kept in memory.
        budget: how many to replace: a number of sites such as 8; a share of them such as 0.5,
            rounded down but at least one; `Elements(0.5)` for at least this share of activation
            elements; or `LossRise(0.02, held_out)` for as many as the loss on held-out batches
            allows.
        by: a name in `sigmascope.linearize.CRITERIA`: "affinity", "pooled", "r2", "entropy",
            "positive", "gradient", "oracle", "depth" (the last first), "early" (the first first),
            "random"; or a function of an `Evidence` that returns one number for each of its calls,
            of which the lowest is replaced first; or a `Criterion`. "gradient" and "oracle" need
            labels; without tuning they chose better on Swin-T and MobileNetV2.
        maps: "channel" for a scale and a shift of each channel; "full" for a matrix of all
            channels; "identity" to leave activations out.
        iterative: whether to measure again after every `step` replacements, so that later maps are
            fitted on the network with the earlier ones.
        **options: see `PlanOptions`: step=1, sites=(), scores=True, loss=None, forward=None,
            seed=0, progress=True.

    Raises:
        OptionError: an option that is not valid, or a budget that cannot be met.
        InputError: no batches, or no labels for a criterion that needs them.
        NoActivationError: no activation can be replaced.
        NetworkError: a network that cannot be watched.

    >>> import torch
    >>> _ = torch.manual_seed(0)
    >>> network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.LeakyReLU(0.9))
    >>> found = plan(network, torch.randn(256, 4), budget=1)
    >>> [site.name for site in found.chosen]
    ['3']
    >>> apply(network, found)[3]
    Affine(8, axis=-1)
    """
    network, chosen = unwrapped(model), options_from(_Options, dict(options))
    check_device(network)
    name, criterion = criterion_of(by)
    settings = Settings(
        by=name,
        criterion=criterion,
        maps=check_choice("maps", maps, LinearizeMaps),
        iterative=bool(iterative),
        step=chosen.step,
        sites=chosen.sites,
        scores=chosen.scores,
        seed=chosen.seed,
    )
    allowed = check_budget(budget)
    with one_at_a_time(f"plans {type(network).__name__}"), randomness_kept():
        data = Data(batches, chosen.forward, chosen.loss)
        _check_labels(data, network, settings)
        ranking = Ranking(network, data, settings)
        calls = len(ranking.candidates)
        total = batches_to_read(data, settings, allowed, calls)
        with progress_bar(_title(network), total, shown=chosen.progress) as data.advance:
            count = ranking.choose(allowed)
        ranking.check_values(ranking.order[:count])
        ranking.check(ranking.order[:count])
        return _made(network, data, ranking, settings, count, budget_text(allowed))


def _title(network: nn.Module) -> str:
    return f"plan {type(network).__name__}, batches read"


def _check_labels(data: Data, network: nn.Module, settings: Settings) -> None:
    if settings.criterion.needs_labels and labels_of(data.first(network).content) is None:
        raise InputError(
            f"by={settings.by!r} needs labels. Pass batches (inputs, labels), or choose a "
            "criterion without: by='affinity'."
        )


def _made(
    network: nn.Module, data: Data, ranking: Ranking, settings: Settings, count: int, budget: str
) -> Plan:
    """Return the plan in which the first `count` calls of a ranking are replaced."""
    tensors = tensors_in(data.first(network).content)
    inputs = tuple((tuple(one.shape), _plain(one.dtype)) for one in tensors)
    return Plan(
        network=type(network).__name__,
        structure=structure_of(network),
        weights=digest_of_weights(network),
        by=settings.by,
        meaning=settings.criterion.meaning,
        maps=settings.maps,
        budget=budget,
        iterative=settings.iterative,
        inputs=inputs,
        samples=data.samples,
        sites=tuple(_planned(call, ranking, count) for call in ranking.calls),
        tensors=_tensors(ranking),
        outputs=probed_twice(network, inputs),
    )


def _plain(dtype: object) -> str:
    return str(dtype).removeprefix("torch.")


def _planned(call: ActivationCall, ranking: Ranking, count: int) -> PlannedSite:
    """Return a call with its rank, and whether it is among the first `count`."""
    parts = {one.name: getattr(call, one.name) for one in fields(ActivationCall)}
    entry = ranking.entries.get(call.name)
    rank = ranking.order.index(call.name) + 1 if call.name in ranking.order else 0
    nan = float("nan")
    return PlannedSite(
        **parts,
        score=entry.score.score if entry else nan,
        low=entry.score.low if entry else nan,
        high=entry.score.high if entry else nan,
        value=entry.value if entry else nan,
        fit=entry.fit if entry else nan,
        rank=rank,
        chosen=0 < rank <= count,
        blocks=entry.score.blocks if entry else 1,
    )


def _tensors(ranking: Ranking) -> dict[str, Any]:
    found = {}
    for name in ranking.order:
        values = ranking.entries[name].values
        if values is not None:
            found[f"{name}.factor"], found[f"{name}.shift"] = values
    return found


def structure_of(network: nn.Module) -> str:
    """Return a digest of the modules of a network and their settings, but not of its weights."""
    layers = [
        ADDRESS.sub("", f"{plain_path(path)} {type(one).__qualname__}({one.extra_repr()})")
        for path, one in modules_of(network)
    ]
    return hashlib.sha256("\n".join(layers).encode()).hexdigest()[:32]


def apply(model: nn.Module, plan: Plan) -> nn.Module:
    """Return a copy of a network in which affine maps take the place of the chosen activations.

    The network itself is not changed. A module that is called once in a pass is replaced by an
    `Affine`, so that the names of all other parameters stay. Of a function such as `F.relu`, or a
    module that is used several times, each call is replaced on its own: the maps of functions are
    in an entry `sigmascope_maps` of the module that calls them, and an activation used several
    times that has parameters finds them under `NAME.activation` instead of `NAME`.

    A map in place of an activation that overwrites its input does so, too. The copy is in training
    mode where the network is. The maps can be trained.

    Args:
        model: the network of the plan.
        plan: from `sigmascope.linearize.plan`, or loaded from a file.

    Raises:
        NetworkError: the plan was made for another network.
        InputTypeError: not a plan.

    >>> import torch
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    >>> shorter = apply(network, plan(network, torch.randn(256, 4), budget=1))
    >>> shorter[1], network[1]
    (Affine(8, axis=-1), Tanh())
    """
    check_kind("plan", plan, Plan, "sigmascope.linearize.plan")
    network = unwrapped(model)
    _check_network(network, plan)
    made = copied(network)
    for site in plan.chosen:
        install(made, site, module_of(plan.values_of(site), site, made))
    setattr(made, INPUTS, plan.inputs)  # so that it can be folded without data
    return made


def _check_network(network: nn.Module, plan: Plan) -> None:
    """Raise a NetworkError unless a plan was made for a network."""
    if structure_of(network) != plan.structure:
        raise NetworkError(
            f"the plan was made for another network: a {plan.network} whose layers differ from "
            f"those of this {type(network).__name__}. Make a plan for this network."
        )
    if digest_of_weights(network) != plan.weights:
        raise NetworkError(
            f"the plan was made for a {plan.network} with other weights, which its maps were "
            "fitted to. Load those weights, or make a plan for these."
        )
    with randomness_kept():
        found = probed(network, plan.inputs) if plan.outputs else ()
    if not are_close(found, plan.outputs):
        raise NetworkError(
            f"the plan was made for another network: this {type(network).__name__} has the layers "
            f"and the weights of the {plan.network}, but computes something else. Make a plan for "
            "this network."
        )
