"""Maps in place of single calls of an activation: of a function, or of a module used repeatedly.

A module that is an activation and runs once per pass is simply replaced. Where a module calls a
function such as `F.relu`, its `forward` runs under a mode that counts the activation functions it
calls itself, and calls a map in place of the chosen ones. The module keeps its place, its name and
the names of its parameters: only its class becomes a subclass of what it was.

A pass of `torch.fx` has no tensors for a mode to see. There the nodes are counted as the tracer
creates them, so that the graph gets a node for each map.
"""

from __future__ import annotations

import copyreg
import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.overrides import TorchFunctionMode

from sigmascope.capture.activations import (
    chosen_kinds,
    kind_of_function,
    may_be_activation,
    registered,
)
from sigmascope.errors import NetworkError

ROUTE = "_sigmascope_route"


class _Running(threading.local):
    """What runs in a thread: the modules inside each other, and the counts of calls."""

    def __init__(self) -> None:
        # a module whose functions are rerouted, or None for one inside it with functions of its own
        self.modules: list[object] = []
        self.counts: list[dict[str, int]] = []


_running = _Running()


class Route:
    """What a module with rerouted calls remembers; see `Rerouted`.

    Attributes:
        name: under which its calls are counted.
        counted: the names whose counts start from 0 when the module starts.
        maps: number of a call -> the map in its place.
    """

    def __init__(self) -> None:
        self.name = ""
        self.counted: list[str] = []
        self.maps: dict[int, nn.Module] = {}


def next_number(name: str) -> int:
    """Return which call this is since the scope of the counted module has started."""
    for counts in reversed(_running.counts):
        if name in counts:
            counts[name] += 1
            return counts[name] - 1
    if torch._C._current_graph_task_id() != -1:  # inside a backward pass
        raise NetworkError(
            f"{name!r} is used several times in a linearized network with a map for some of the "
            "calls, and gradient checkpointing runs a part of the network again in the backward "
            "pass, where it is not known which call this is. Train without gradient checkpointing "
            "(model.gradient_checkpointing_disable() in transformers), or give each call an "
            "activation of its own before you linearize the network."
        )
    raise NetworkError(
        f"a part of a linearized network was called on its own, in which {name!r} is used several "
        "times with a map for some of the calls. Call the whole network."
    )


class Reused(nn.Module):
    """An activation that is called several times in a pass, with maps in place of some calls.

    Attributes:
        activation: the activation, for the other calls.
        maps: number of a call -> map.
    """

    def __init__(self, activation: nn.Module, name: str) -> None:
        super().__init__()
        self.activation, self.maps, self.name = activation, nn.ModuleDict(), name
        self.train(activation.training)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the map or the activation, by the number of the call."""
        number = str(next_number(self.name))
        called = self.maps[number] if number in self.maps else self.activation  # noqa: SIM401
        return called(*args, **kwargs)


class Rerouted:
    """The part of a class that reroutes calls of functions; see `rerouted_class`."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Make copies and files of the module as those of its original class are made."""
        made = super().__reduce_ex__(protocol)
        if made[0] is not copyreg.__newobj__:  # type: ignore[attr-defined]
            return made
        return (_revived, (type(self).__mro__[2],), *made[2:])


_classes: dict[type[nn.Module], type[nn.Module]] = {}


def rerouted_class(base: type[nn.Module]) -> type[nn.Module]:
    """Return a subclass of a module class whose `forward` reroutes calls, see `Route`."""
    if base not in _classes:
        _classes[base] = _made_class(base)
    return _classes[base]


def _made_class(base: type[nn.Module]) -> type[nn.Module]:
    original = base.forward

    # its calls are counted in Python; what a compiler makes of that is not known
    @torch.compiler.disable  # type: ignore[untyped-decorator]
    @functools.wraps(original)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        with _routing(self, getattr(self, ROUTE), (args, kwargs)):
            return original(self, *args, **kwargs)

    names = {"forward": forward, "__module__": base.__module__, "__qualname__": base.__qualname__}
    return type(base.__name__, (Rerouted, base), {**names, "__doc__": base.__doc__})


def _revived(base: type[nn.Module]) -> nn.Module:
    made = rerouted_class(base)
    return made.__new__(made)


def route_of(module: nn.Module, path: str) -> Route:
    """Return the route of a module, whose class becomes a `rerouted_class` the first time.

    Raises:
        NetworkError: copies of it would lose the new class.
    """
    route = module.__dict__.get(ROUTE)
    if isinstance(route, Route):
        return route
    if hasattr(type(module), "__deepcopy__"):
        raise NetworkError(
            f"single calls of {path or 'the network'!r} cannot be replaced, since a "
            f"{type(module).__name__} makes its copies itself. Pass the module that it was made of."
        )
    made = Route()
    module.__dict__[ROUTE] = made
    module.__class__ = rerouted_class(type(module))
    return made


def step_aside(module: nn.Module, *_: object) -> None:
    """Note that a module inside a rerouted one starts: a hook."""
    _running.modules.append(None)


def step_back(module: nn.Module, *_: object) -> None:
    """Note that it has ended: a hook."""
    if _running.modules:
        _running.modules.pop()


@contextmanager
def _routing(module: nn.Module, route: Route, inputs: Any) -> Iterator[None]:
    """Count calls and put maps in their place while a module runs."""
    depth, counted = len(_running.modules), len(_running.counts)
    _running.counts.append(dict.fromkeys(route.counted, 0))
    _running.modules.append(module)
    try:
        if not route.maps:
            yield
        elif (tracer := _tracer_in(inputs)) is not None:
            with _tracing(tracer, module, route):
                yield
        else:
            with _Mode(module, route):
                yield
    finally:  # also what a module that raised has left
        del _running.modules[depth:], _running.counts[counted:]


class _Mode(TorchFunctionMode):
    """Puts maps in place of functions that a module calls itself."""

    def __init__(self, module: nn.Module, route: Route) -> None:
        super().__init__()
        self._module, self._route = module, route

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        found = _map_for(self._module, self._route, func, args, kwargs)
        if found is None:
            return func(*args, **kwargs)
        result = found(_input_of(args, kwargs))
        out = kwargs.get("out")
        return out.copy_(result) if isinstance(out, Tensor) else result


@contextmanager
def _tracing(tracer: Any, module: nn.Module, route: Route) -> Iterator[None]:
    """Put maps in place of nodes that a tracer of torch.fx would create."""
    create = tracer.create_proxy

    def create_proxy(
        kind: str, target: Any, args: Any, kwargs: Any, *more: Any, **named: Any
    ) -> Any:
        function = None
        if kind == "call_function":
            function = target
        elif kind == "call_method":
            function = getattr(Tensor, target, None)
        if function is not None:
            found = _map_for(module, route, function, args, kwargs)
            if found is not None:
                return found(_input_of(args, kwargs))
        return create(kind, target, args, kwargs, *more, **named)

    tracer.create_proxy = create_proxy
    try:
        yield
    finally:
        tracer.create_proxy = create


def _map_for(
    module: nn.Module, route: Route, func: Any, args: Any, kwargs: dict[str, Any]
) -> Callable[[Any], Any] | None:
    """Return the map in place of a call, which is counted if it is an activation."""
    if not _running.modules or _running.modules[-1] is not module or not may_be_activation(func):
        return None
    if kind_of_function(func, args, kwargs) not in _kinds(registered()):
        return None
    return route.maps.get(next_number(route.name))


@functools.lru_cache(maxsize=1)
def _kinds(_: tuple[int, int]) -> frozenset[str]:
    """Return the kinds that are counted; users may register more."""
    return chosen_kinds("pointwise")


def _input_of(args: Any, kwargs: dict[str, Any]) -> Any:
    return next(one for one in (*args, kwargs.get("input"), *kwargs.values()) if _is_tensor(one))


def _is_tensor(value: object) -> bool:
    return isinstance(value, Tensor | fx.Proxy)


def _tracer_in(inputs: Any) -> Any:
    """Return the tracer of torch.fx that runs a module, or None."""
    proxies: list[fx.Proxy] = []
    fx.node.map_aggregate(
        inputs, lambda one: proxies.append(one) if isinstance(one, fx.Proxy) else None
    )
    return proxies[0].tracer if proxies else None
