"""The verb `fold`: merge linear layers that nothing separates any more."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypedDict, Unpack

import torch
from torch import Tensor, nn

from sigmascope.capture.guard import copied, plain_path, randomness_kept, unwrapped
from sigmascope.capture.walk import modules_of
from sigmascope.checks import check_choice, options_from
from sigmascope.choices import Keep
from sigmascope.errors import InputError, InputTypeError, NetworkError, OptionError
from sigmascope.linearize.applying import CONTAINERS
from sigmascope.linearize.folding.arguments import Arguments, difference_of_outputs
from sigmascope.linearize.folding.choice import Chooser
from sigmascope.linearize.folding.costs import cost_of
from sigmascope.linearize.folding.latency import Timer, latency, threads_of_torch
from sigmascope.linearize.folding.part import Part
from sigmascope.linearize.folding.result import Folded
from sigmascope.linearize.folding.whole import Example, fold_whole
from sigmascope.linearize.result import INPUTS, Plan
from sigmascope.measure.batches import (
    Forward,
    batch_size,
    place_of,
    run_forward,
    tensors_in,
    to_model,
)
from sigmascope.measure.copies import copy_of
from sigmascope.measure.subject import check_device


class FoldOptions(TypedDict, total=False):
    """Further options of `fold`.

    Attributes:
        merges: the `merges` of an earlier `Folded`, to make exactly these again, without a clock.
        timer: a function of several calls that returns the seconds of each, instead of a
            measurement in turns.
        forward: runs the network on the example, as for `plan`.
        progress: whether to show a progress bar, on a terminal; True by default.

    >>> import torch
    >>> from sigmascope import linearize
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 2)).eval()
    >>> options: linearize.FoldOptions = {"merges": ()}  # of batch norms alone
    >>> linearize.fold(network, torch.randn(16, 4), **options).after.layers
    2
    """

    merges: Collection[str] | None
    timer: Timer | None
    forward: Forward | None
    progress: bool


@dataclass(frozen=True)
class _Options:
    merges: Collection[str] | None = None
    timer: Timer | None = None
    forward: Forward | None = None
    progress: bool = True

    def __post_init__(self) -> None:
        if isinstance(self.merges, str):
            raise OptionError(
                f"merges must be a list of names, got {self.merges!r:.80}. Pass folded.merges."
            )
        if self.timer is not None and not callable(self.timer):
            raise OptionError(
                f"timer must be a function of several calls, got {type(self.timer).__name__}."
            )


@randomness_kept()  # new layers draw their weights before they are filled
def fold(
    network: nn.Module,
    example: Any = None,
    *,
    keep: Keep = "faster",
    **options: Unpack[FoldOptions],
) -> Folded:
    """Return a network in which linear layers that nothing separates are merged.

    Batch norms and affine maps of channels go into the layer before or after them; norms that a
    module computes by `F.batch_norm`, as those with an activation do, are such norms. Convolutions
    and linear layers that follow each other become one where that is exact and `keep` allows it:

        W₂ (W₁ x + b₁) + b₂ = (W₂ W₁) x + (W₂ b₁ + b₂)

    The result is the same function, also at the borders that zero padding makes between two
    convolutions: the outputs in float64 are compared with those of the network, up to 1e-9 of the
    largest one. The weights are computed in float64 and stored in the dtype of the network. The
    network itself is not changed. Values that are read elsewhere, as by a residual connection, are
    kept; so are layers with hooks, and what `torch.fx` cannot trace.

    Args:
        network: any network in evaluation mode, such as one from `sigmascope.linearize.apply`.
        example: a batch, as for `plan`, or a `Plan`, for random inputs of its shape. None for a
            network from `apply`, which knows the shape of its inputs.
        keep: "faster" makes the merges that shorten the latency of one sample, measured in turns on
            one thread of the CPU, or on the network's device; "fewer" those that save
            multiply-adds; "all" every one that is exact and takes at most 16 times the
            multiply-adds.
        **options: see `FoldOptions`: merges=None, timer=None, forward=None,
            progress=True.

    Raises:
        NetworkError: the network is in training mode, or is not deterministic.
        InputError: no example, or one that the network cannot run on.
        OptionError: an option that is not valid.

    >>> _ = torch.manual_seed(0)
    >>> layers = nn.Linear(4, 32), nn.Identity(), nn.Linear(32, 4), nn.ReLU()
    >>> folded = fold(nn.Sequential(*layers).eval(), torch.randn(2, 4), keep="fewer")
    >>> folded.steps
    ('0 + 2 → one linear layer, 4 to 4',)
    >>> folded.before.multiply_adds, folded.after.multiply_adds
    (256, 16)
    """
    model, chosen = unwrapped(network), options_from(_Options, dict(options))
    check_device(model)
    keep_checked = check_choice("keep", keep, Keep)
    _check_mode(model)
    base = copied(model)
    device = place_of(base)[0]
    timer = chosen.timer or (lambda calls: latency(calls, device=device))
    merges = None if chosen.merges is None else frozenset(chosen.merges)
    chooser = Chooser(keep_checked, timer, merges, progress=chosen.progress)
    shapes = getattr(model, INPUTS, None)
    inputs = _example(base, example, shapes, chosen.forward or run_forward)
    found = fold_whole(base, inputs, chooser)
    _check_merges(chooser, found)
    result = _measured(base, inputs, found, chooser)
    if shapes is not None:  # which copies of a graph lose
        setattr(result.network, INPUTS, shapes)
    return result


def _check_mode(network: nn.Module) -> None:
    training = [
        plain_path(path)
        for path, module in modules_of(network)
        if module.training and not (path and isinstance(module, CONTAINERS))
    ]
    if training:
        where = f"the part {training[0]!r} of the network" if training[0] else "the network"
        raise NetworkError(
            f"{where} is in training mode, in which batch norm and dropout depend on the batch. "
            "Call network.eval() first."
        )


def _check_merges(chooser: Chooser, found: Part) -> None:
    missing = sorted((chooser.merges or frozenset()) - set(found.merges))
    if missing:
        raise OptionError(
            f"merges has {missing[0]!r:.80}, which is not possible in this network. Pass the "
            "merges of a network of the same structure."
        )


def _example(base: nn.Module, example: Any, shapes: Any, forward: Forward) -> Example:
    """Return the arguments that an example means, in float64 and for one sample."""
    given = example is not None
    if example is None:
        if shapes is None:
            raise InputError(
                "fold needs an example of the inputs, since this network is not from "
                "sigmascope.linearize.apply. Pass example=batch."
            )
        content: Any = _random(shapes)
    elif isinstance(example, Plan):
        content, given = _random(example.inputs), False
    elif isinstance(example, nn.Module) or (
        not isinstance(example, Tensor | Mapping | tuple | list)
        and not hasattr(example, "__array__")
    ):
        raise InputTypeError(
            f"example must be a batch or a Plan, got {type(example).__name__}. Pass a tensor, a "
            "tuple (inputs, labels) or a dict of tensors."
        )
    else:
        content = example
    remedy = "" if given else " Pass example=batch, as the network is called with."

    def captured(part: Any) -> Arguments:
        return _captured(base, part, forward, remedy)

    return _arguments(base, content, captured)


def _random(shapes: Any) -> tuple[Tensor, ...]:
    """Return two random samples of the shape of a plan's batches."""
    generator = torch.Generator().manual_seed(0)
    found = []
    for shape, dtype in shapes:
        size, kind = (min(2, shape[0]), *shape[1:]) if shape else shape, getattr(torch, dtype)
        if kind.is_floating_point:
            found.append(torch.randn(size, generator=generator).to(kind))
        else:
            found.append(torch.randint(0, 2, size, generator=generator).to(kind))
    return tuple(found)


def _arguments(base: nn.Module, content: Any, captured: Callable[[Any], Arguments]) -> Example:
    moved = to_model(content, base, batch_axis=0).content
    size = batch_size(content, 0)
    first = next(tensors_in(moved), None)
    if first is not None and first.ndim and not len(first):
        raise InputError(
            "the example holds no sample, on which outputs could be compared. Pass at least one."
        )
    few = captured(_first(moved, size, 2))
    try:
        one, batch = captured(_first(moved, size, 1)), 1
    except InputError:  # it does not take one sample
        one, batch = captured(moved), size
    return Example(few.exact(), one, batch)


def _first(content: Any, size: int, count: int) -> Any:
    """Return the first samples of a batch."""

    def cut(one: Any) -> Any:
        is_batched = isinstance(one, Tensor) and one.ndim > 0 and len(one) == size
        return one[:count] if is_batched else one

    return torch.fx.node.map_aggregate(content, cut)


def _captured(base: nn.Module, content: Any, forward: Forward, remedy: str) -> Arguments:
    """Return what the network is called with on a batch."""
    seen: list[Arguments] = []

    def keep(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        seen.append(Arguments(args, kwargs).mapped(Tensor.clone))

    handle = base.register_forward_pre_hook(keep, with_kwargs=True)
    try:
        with torch.no_grad():
            forward(base, copy_of(content))  # it may overwrite its input
    except Exception as error:  # a network may raise anything
        message = " ".join(str(error).split())
        raise InputError(
            f"the network does not run on the example ({type(error).__name__}: {message:.200})."
            f"{remedy or ' Pass a batch that it runs on.'}"
        ) from error
    finally:
        handle.remove()
    if not seen:
        raise InputError("the network was not called on the example. Pass a batch that it runs on.")
    return seen[0]


def _measured(base: nn.Module, inputs: Example, found: Part, chooser: Chooser) -> Folded:
    """Return the result, without the merges if these make the network slower."""
    before = cost_of(base, inputs.single)
    made = base if found.module is None else found.module.eval()
    calls = [_call(one, inputs.single) for one in (base, made)]
    with threads_of_torch(1):
        seconds = [float(one) for one in chooser.timer(calls[: 1 + (made is not base)])]
    refused = tuple(found.refused)
    if chooser.keep == "faster" and chooser.merges is None and seconds[-1] > seconds[0]:
        ratio = seconds[-1] / seconds[0]
        refused = (
            f"all merges ({'; '.join(found.steps)}): the network takes {ratio:.2f} times as long",
            *refused,
        )
        made, found = base, Part()
    error = 0.0
    if made is not base:
        assert found.exact is not None
        error = difference_of_outputs(base, found.exact, inputs.exact)
    return Folded(
        network=made,
        name=type(base).__name__,
        steps=tuple(found.steps),
        refused=refused,
        before=replace(before, seconds=seconds[0]),
        after=replace(cost_of(made, inputs.single), seconds=seconds[0 if made is base else -1]),
        merges=tuple(found.merges),
        keep=chooser.keep,
        error=error,
        batch=inputs.batch,
    )


def _call(network: nn.Module, arguments: Arguments) -> Callable[[], object]:
    def call() -> object:
        with torch.inference_mode():
            return network(*arguments.args, **arguments.kwargs)

    return call
