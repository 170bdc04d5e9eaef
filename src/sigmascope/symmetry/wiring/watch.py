"""Watching a forward pass: every function that is called is looked up in the table of rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from sigmascope.capture.activations import function_name
from sigmascope.capture.nested import tensors_in
from sigmascope.symmetry.wiring.calls import Call, Rule
from sigmascope.symmetry.wiring.network import OUT_OF_SIGHT, UnmovableError, Wiring
from sigmascope.symmetry.wiring.ties import Channels

__all__ = ["watching"]

FACTS = """
    device dim dtype element_size grad_fn is_complex is_contiguous is_cpu is_cuda is_floating_point is_leaf is_meta is_mkldnn
    is_mps is_nested is_quantized is_sparse is_xpu itemsize layout names ndim ndimension numel requires_grad shape size stride
    storage_offset empty_like full_like new_empty new_full new_ones ones_like _set_grad_enabled
    __format__ __hash__ __len__ __repr__
"""
"""Functions that use the shape or the kind of a tensor, never its values."""
KNOWN_FACTS = frozenset(FACTS.split())
ZEROS = ("zeros", "zeros_like", "new_zeros")


class Watcher(TorchFunctionMode):
    """Looks up every function that is called while a network runs."""

    def __init__(self, wiring: Wiring, rules: Mapping[str, Rule]) -> None:
        super().__init__()
        self._wiring = wiring
        self._rules = rules
        self._running: list[tuple[str, nn.Module]] = []
        self._calls: Counter[str] = Counter()
        self._named: set[str] = set()

    def enter(self, path: str, module: nn.Module) -> None:
        """Note that a module begins to run."""
        self._running.append((path, module))

    def leave(self, output: object) -> None:
        """Note that a module has run; its name stands for the channels that its first call puts out."""
        path, _ = self._running.pop()
        channels = self._wiring.of(output)
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
        elif name not in KNOWN_FACTS and (
            moving or any(wiring.parameter(tensor) for tensor in given)
        ):
            try:
                self._apply(
                    Call(wiring, func, self._site(name), args, kwargs, output), given, moving
                )
            except UnmovableError as error:
                wiring.refusal = wiring.refusal or error  # the network may catch it
                raise
        return output

    def _apply(self, call: Call, given: list[Tensor], moving: bool) -> None:
        rule = self._rules.get(call.name)
        if not all(self._wiring.is_known(tensor) for tensor in given):
            raise call.refused(f"one of its tensors comes from {OUT_OF_SIGHT}")
        if rule is None and moving:
            raise call.refused(
                "the table has no row for it. Rewrite the network with functions that it knows"
            )
        found = rule(call) if rule is not None else None
        if found is None:
            for tensor in given:
                self._wiring.note_still(tensor)
            return
        for tensor, channels in zip(
            tensors_in(call.output), found if isinstance(found, list) else [found], strict=False
        ):
            self._check_in_place(call, given, tensor, channels)
            if channels is None:
                continue
            if tensor.shape[channels.axis] != len(channels):
                raise call.refused(
                    f"it makes {tensor.shape[channels.axis]} channels out of {len(channels)}"
                )
            self._wiring.note(tensor, channels, call.site)

    def _check_in_place(
        self, call: Call, given: list[Tensor], tensor: Tensor, channels: Channels | None
    ) -> None:
        """Refuse what writes other channels into a tensor: views of it would have them too, unnoticed."""
        before = self._wiring.of(tensor)
        same = before is not None and channels is not None and before.same_as(channels)
        if not same and any(tensor is one for one in given):
            raise call.refused(
                "it changes the channels of a tensor in place, and views of that tensor with it"
            )

    def _site(self, name: str) -> str:
        """Name a call: by its module if that is one of torch's own, otherwise by its module, its
        function and a number.
        """
        path, module = self._running[-1] if self._running else ("", None)
        if path and type(module).__module__.startswith("torch.nn."):
            return path
        site = f"{path}.{name}".lstrip(".")
        self._calls[site] += 1
        return site if self._calls[site] == 1 else f"{site}#{self._calls[site]}"


@contextmanager
def watching(model: nn.Module, wiring: Wiring, rules: Mapping[str, Rule]) -> Iterator[None]:
    """Watch a network run inside the context; hooks are removed when it ends."""
    watcher, handles = Watcher(wiring, rules), []

    def enter(path: str) -> Callable[[nn.Module, object], None]:
        return lambda module, _args: watcher.enter(path, module)

    def leave(_module: nn.Module, _args: object, output: object) -> None:
        watcher.leave(output)

    try:
        for path, module in model.named_modules():
            handles.append(module.register_forward_pre_hook(enter(path)))
            handles.append(module.register_forward_hook(leave, prepend=True))
        with watcher:
            yield
    finally:
        for handle in handles:
            handle.remove()
