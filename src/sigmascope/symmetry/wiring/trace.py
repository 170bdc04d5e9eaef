"""Tracing one forward pass: every function that is called is looked up in the table of rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from sigmascope.capture.activations import function_name
from sigmascope.capture.guard import preserve_state
from sigmascope.capture.layers import hooked
from sigmascope.capture.mode import entered
from sigmascope.capture.nested import tensors_in
from sigmascope.errors import InputError
from sigmascope.measure.copies import copy_of
from sigmascope.symmetry.wiring.calls import Call
from sigmascope.symmetry.wiring.network import OUT_OF_SIGHT, UnmovableError, Wiring
from sigmascope.symmetry.wiring.rules import RULES
from sigmascope.symmetry.wiring.ties import Channels

SIDES = (32, 64, 224, 28, 96, 128, 256, 299, 384)
"""Sizes that are tried for images, and lengths of sequences."""
# What a network raises when a size does not fit it.
UNFIT = (RuntimeError, ValueError, IndexError, TypeError, AssertionError)
FACTS = """
    device dim dtype element_size grad_fn is_complex is_contiguous is_cpu is_cuda is_floating_point
    is_leaf is_meta is_mkldnn is_mps is_nested is_quantized is_sparse is_xpu itemsize layout names
    ndim ndimension numel requires_grad shape size stride storage_offset empty_like full_like
    new_empty new_full new_ones ones_like _set_grad_enabled __format__ __hash__ __len__ __repr__
"""
"""Functions that use the shape or the kind of a tensor, never its values."""
KNOWN_FACTS = frozenset(FACTS.split())
ZEROS = ("zeros", "zeros_like", "new_zeros")


def trace(model: nn.Module, example_input: Any = None, *, exact_eval: bool = False) -> Wiring:
    """Run a network once in evaluation mode and return how its channels are connected.

    Args:
        model: the network, whose state is preserved.
        example_input: a tensor, a tuple of arguments or a mapping of them. By default inputs of
            usual sizes are made up for the first layer, until the network takes one: the size does
            not change which channels are connected.
        exact_eval: see `move`.
    """
    problem = ""  # the words alone: an exception that is kept would keep the network
    for example in _made_up(model) if example_input is None else [example_input]:
        wiring = Wiring(model, exact_eval=exact_eval)
        given = copy_of(example)  # the network may overwrite it
        wiring.know(given)
        try:
            with preserve_state(model, mode="eval"), _traced(model, wiring):
                output = run(model, given)
        except UNFIT as error:
            if wiring.refusal is not None:
                raise wiring.refusal from None
            if example_input is not None:
                raise InputError(f"the network does not take example_input: {error}") from error
            problem = str(error)
            continue
        if wiring.refusal is not None:
            raise wiring.refusal
        wiring.finish(output)
        wiring.example = example
        return wiring
    last = f" The last input that was tried failed: {problem}" if problem else ""
    raise InputError(f"no example input fits this network. Pass example_input, a batch.{last}")


def run(model: nn.Module, example: Any) -> Any:
    """Call a network with a tensor, a tuple of arguments or a mapping of them."""
    if isinstance(example, Mapping):
        return model(**example)
    return model(*example) if isinstance(example, (tuple, list)) else model(example)


def _made_up(model: nn.Module) -> Iterator[Tensor]:
    """Yield inputs for the first layer that has a width."""
    source = torch.Generator().manual_seed(0)
    for module in model.modules():
        weight = getattr(module, "weight", None)
        if isinstance(module, nn.Linear):
            yield torch.randn(2, module.in_features, generator=source).to(weight)
        elif isinstance(module, (nn.Conv1d, nn.Conv2d, nn.Conv3d)):
            for side in SIDES:
                shape = (2, module.in_channels, *[side] * len(module.kernel_size))
                yield torch.randn(shape, generator=source).to(weight)
        elif isinstance(module, nn.Embedding):
            yield torch.zeros(2, 8, dtype=torch.long, device=module.weight.device)
        else:
            continue
        return


class _Tracer(TorchFunctionMode):
    """Looks up every function that is called while a network runs."""

    def __init__(self, wiring: Wiring) -> None:
        super().__init__()
        self._wiring = wiring
        self._running: list[tuple[str, nn.Module]] = []
        self._calls: Counter[str] = Counter()
        self._named: set[str] = set()
        self._returned: Counter[str] = Counter()

    def enter(self, path: str, module: nn.Module) -> None:
        """Note that a module begins to run."""
        self._running.append((path, module))

    def leave(self, output: object) -> None:
        """Note that a module has run; its name means the channels of its first output."""
        path, _ = self._running.pop()
        channels = self._wiring.of(output)
        if channels is not None:
            self._wiring.calls[path, self._returned[path]] = channels
        self._returned[path] += 1
        if path and channels is not None and path not in self._named:
            self._wiring.sites[path] = channels
            self._named.add(path)

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        name, wiring = function_name(func), self._wiring
        given = list(tensors_in((args, kwargs)))
        known = all(wiring.is_known(tensor) for tensor in given)
        output = func(*args, **kwargs)
        if known:
            wiring.know(output)
        moving = any(wiring.of(tensor) is not None for tensor in given)
        if name in ZEROS:
            wiring.note_zeros(output)
        elif name not in KNOWN_FACTS and (moving or any(map(wiring.parameter, given))):
            call = Call(wiring, func, self._site(name), args, kwargs, output)
            try:
                self._apply(call, given, moving)
            except UnmovableError as error:
                wiring.refusal = wiring.refusal or error  # the network may catch it
                raise
        return output

    def _apply(self, call: Call, given: list[Tensor], moving: bool) -> None:
        rule = RULES.get(call.name)
        if not all(self._wiring.is_known(tensor) for tensor in given):
            raise call.refused(f"one of its tensors comes from {OUT_OF_SIGHT}")
        if rule is None and moving:
            raise call.refused("there is no rule for it. Rewrite the network with other functions")
        found = rule(call) if rule is not None else None
        if found is None:
            for tensor in given:
                self._wiring.note_still(tensor)
            return
        outputs = found if isinstance(found, list) else [found]
        for tensor, channels in zip(tensors_in(call.output), outputs, strict=False):
            self._check_in_place(call, given, tensor, channels)
            if channels is None:
                continue
            if (count := tensor.shape[channels.axis]) != len(channels):
                raise call.refused(f"it has {count} channels, and its input {len(channels)}")
            self._wiring.note(tensor, channels, call.site)

    def _check_in_place(
        self, call: Call, given: list[Tensor], tensor: Tensor, channels: Channels | None
    ) -> None:
        """Refuse to write other channels into a tensor: its views would have them unnoticed."""
        before = self._wiring.of(tensor)
        same = before is not None and channels is not None and before.same_as(channels)
        if not same and any(tensor is one for one in given):
            raise call.refused("it changes the channels of a tensor, and of its views, in place")

    def _site(self, name: str) -> str:
        """Return the name of a call: its module if it is torch's, else module, function, number."""
        path, module = self._running[-1] if self._running else ("", None)
        if path and type(module).__module__.startswith("torch.nn."):
            return path
        site = f"{path}.{name}".lstrip(".")
        self._calls[site] += 1
        return site if self._calls[site] == 1 else f"{site}#{self._calls[site]}"


@contextmanager
def _traced(model: nn.Module, wiring: Wiring) -> Iterator[None]:
    """Trace a network that runs inside the context; hooks are removed when it ends."""
    tracer, modules = _Tracer(wiring), dict(model.named_modules())

    def enter(path: str, module: nn.Module, _args: object) -> None:
        tracer.enter(path, module)

    def leave(_module: nn.Module, _args: object, output: object) -> None:
        tracer.leave(output)

    with (
        hooked(((module, partial(enter, path)) for path, module in modules.items()), before=True),
        hooked(((module, leave) for module in modules.values()), prepend=True),
        entered(tracer),
    ):
        yield
