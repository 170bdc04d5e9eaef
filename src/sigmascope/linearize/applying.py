"""Networks in which affine maps take the place of chosen activations."""

from __future__ import annotations

from torch import nn

from sigmascope.capture.walk import modules_of
from sigmascope.errors import NetworkError
from sigmascope.linearize.collecting import ActivationCall
from sigmascope.linearize.maps import Affine
from sigmascope.linearize.rerouting import ROUTE, Reused, Route, route_of, step_aside, step_back

CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
MAPS = "sigmascope_maps"
"""The name of the maps in a module that calls functions which they replace."""


def install(network: nn.Module, call: ActivationCall, placed: nn.Module) -> None:
    """Put a map in place of an activation call of a network, for good.

    Calls keep their numbers, so that several of one module are replaced one by one.

    Raises:
        NetworkError: the module does not allow it.
    """
    placed.train(network.training)
    if not call.is_module:
        _install_function(network, call, placed)
    elif call.calls == 1:
        _substitute(network, network.get_submodule(call.path), placed)
    else:
        _install_reused(network, call, placed)


def is_installed(network: nn.Module, call: ActivationCall) -> bool:
    """Return whether a map is in place of an activation call of a network."""
    try:
        found = network.get_submodule(call.path)
    except AttributeError:
        return False
    if not call.is_module:
        route = found.__dict__.get(ROUTE)
        return isinstance(route, Route) and call.call in route.maps
    if call.calls == 1:
        return isinstance(found, Affine | nn.Identity)
    return isinstance(found, Reused) and str(call.call) in found.maps


def _substitute(network: nn.Module, old: nn.Module, new: nn.Module) -> None:
    """Replace a module everywhere in a network."""
    if old is network:
        raise NetworkError(
            "the network is an activation itself, and nothing else. Put it into an nn.Sequential."
        )
    for _, parent in modules_of(network):
        for name, child in [*parent._modules.items()]:
            if child is old:
                parent._modules[name] = new
                if isinstance(parent, nn.TransformerEncoderLayer):
                    # its fused kernel computes the activation that this names
                    parent.activation_relu_or_gelu = 0


def _install_reused(network: nn.Module, call: ActivationCall, placed: nn.Module) -> None:
    found = network.get_submodule(call.path)
    if not isinstance(found, Reused):
        reused = Reused(found, call.path)
        scope = network.get_submodule(call.scope)
        if scope is found:
            raise NetworkError(f"{call.path!r} does not run as a part of the network.")
        _substitute(network, found, reused)
        route_of(scope, call.scope).counted.append(call.path)
        found = reused
    found.maps[str(call.call)] = placed


def _install_function(network: nn.Module, call: ActivationCall, placed: nn.Module) -> None:
    owner = network.get_submodule(call.path)
    route = route_of(owner, call.path)
    if not route.maps:
        route.name = call.path
        route_of(network.get_submodule(call.scope), call.scope).counted.append(call.path)
        for _, inside in modules_of(owner)[1:]:
            _step_aside_in(inside)
    _holder(network, call.path).add_module(f"{call.path.replace('.', '_')}_{call.call}", placed)
    route.maps[call.call] = placed


def _step_aside_in(module: nn.Module) -> None:
    """Let a module inside a rerouted one tell when it runs."""
    if step_aside not in module._forward_pre_hooks.values():
        module.register_forward_pre_hook(step_aside)
        module.register_forward_hook(step_back, prepend=True, always_call=True)


def _holder(network: nn.Module, path: str) -> nn.ModuleDict:
    """Return where the maps of a module are registered: in it, unless it runs all it contains."""
    parts = path.split(".") if path else []
    for length in range(len(parts), -1, -1):
        around = network.get_submodule(".".join(parts[:length]))
        if not isinstance(around, CONTAINERS):
            if MAPS not in around._modules:
                around.add_module(MAPS, nn.ModuleDict())
            found = around._modules[MAPS]
            assert isinstance(found, nn.ModuleDict)
            return found
    raise NetworkError(
        f"the maps of functions that {path or 'the network'!r} calls have no place in a "
        f"{type(network).__name__}. Put the network into a module of its own."
    )


def refusal(network: nn.Module, call: ActivationCall) -> str:
    """Return why a call cannot be replaced; empty where it can."""
    if call.reason:
        return call.reason
    if call.is_module and call.calls == 1:
        return "it is the whole network" if not call.path else ""
    swapped = [call.scope] if call.is_module else [call.scope, call.path]
    for path in swapped:
        module = network.get_submodule(path)
        if hasattr(type(module), "__deepcopy__"):
            return f"one of several calls of {path or 'the network'}, a {type(module).__name__}"
    return ""
