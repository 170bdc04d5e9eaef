"""Linearized networks in files: weights, and a description that builds the network again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx, nn

from sigmascope import __version__
from sigmascope.capture.guard import copied, randomness_kept, unwrapped
from sigmascope.checks import check_kind, check_path
from sigmascope.errors import FileFormatError, InputError, NetworkError, OptionError
from sigmascope.linearize.applying import install, is_installed
from sigmascope.linearize.fit_fold import folded_again
from sigmascope.linearize.folding.result import Folded
from sigmascope.linearize.layers import Layer, build, describe, layers_of
from sigmascope.linearize.linearization import Folding, Linearization
from sigmascope.linearize.planning import structure_of
from sigmascope.linearize.probe import are_close, probed, probed_twice
from sigmascope.linearize.rerouting import ROUTE, Route
from sigmascope.linearize.result import INPUTS, Plan, PlannedSite
from sigmascope.linearize.tuned import Tuned
from sigmascope.store import read_paired, write_paired

KIND, VERSION = "linearized-network", 1
FILE = "network.json"


@dataclass(frozen=True, eq=False)
class SavedNetwork:
    """A linearized network in a file; `sigmascope.linearize.load` builds it.

    Attributes:
        name: that of the original in the catalog, or of its class.
        architecture: a digest of the layers of the original.
        structure: a digest of the layers of this network before it was folded.
        maps: "channel", "full" or "identity".
        sites: the activation calls that were replaced, in this order.
        layers: those that can be built from plain values; the maps are among them.
        inputs: the shape and dtype of each tensor in a batch.
        outputs: for random inputs, see `probe`; empty where it does not run on such.
        merges: names of the merges of `fold`, which are made again; empty for none.
        versions: of sigmascope and torch.
        tensors: its state dict before it was folded.

    >>> import tempfile
    >>> import torch
    >>> from sigmascope import linearize
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    >>> plan = linearize.plan(network, torch.randn(256, 4), budget=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = linearize.save(linearize.apply(network, plan), folder, plan=plan)
    ...     saved = SavedNetwork.load(path)
    >>> saved.maps, [site.name for site in saved.sites]
    ('channel', ['1'])
    """

    name: str
    architecture: str
    structure: str
    maps: str
    sites: tuple[PlannedSite, ...]
    layers: tuple[Layer, ...]
    inputs: tuple[tuple[tuple[int, ...], str], ...]
    outputs: tuple[float, ...]
    merges: tuple[str, ...]
    versions: dict[str, str]
    tensors: dict[str, Tensor]

    def save(self, path: str | Path) -> Path:
        """Write FILE.json and FILE.safetensors, and return the path of the first."""
        return write_paired(path, KIND, VERSION, self, {"network": self.name})

    @classmethod
    def load(cls, path: str | Path) -> SavedNetwork:
        """Return what `save` wrote.

        Raises:
            FileNotFoundError: one of the two files is missing.
            FileFormatError: corrupt, not a linearized network, or newer than this version.
        """
        return cls(**read_paired(path, KIND, VERSION, cls))

    def __repr__(self) -> str:
        return (
            f"SavedNetwork(name={self.name!r}, {len(self.sites)} activations replaced, "
            f"{sum(tensor.numel() for tensor in self.tensors.values()):,} numbers)"
        )

    @randomness_kept()  # new layers draw their weights before they are filled
    def built(self, model: nn.Module) -> nn.Module:
        """Return the network, in evaluation mode, made of a copy of the original's layers.

        Args:
            model: a network of the original's class and settings, with any weights, on any device.

        Raises:
            NetworkError: another network.
            FileFormatError: weights or layers that do not fit.
        """
        original = unwrapped(model)
        if structure_of(original) != self.architecture:
            raise NetworkError(
                f"the network was made of a {self.name} whose layers differ from those of this "
                f"{type(original).__name__}. Pass the original architecture; it was saved with "
                f"torch {self.versions.get('torch', 'of unknown version')}."
            )
        made = copied(original)
        for site in self.sites:
            install(made, site, nn.Identity())  # until the map that the layers describe
        for layer in self.layers:
            _set(made, layer, self.tensors)
        _fill(made, self.tensors)
        if structure_of(made) != self.structure:
            raise FileFormatError(
                f"the layers of {self.name} in the file cannot be built again from this "
                "architecture. Write the network again."
            )
        if not are_close(probed(made, self.inputs), self.outputs):
            raise NetworkError(
                f"this {type(original).__name__} has the layers of the {self.name} that the "
                "network was made of, but computes something else. Pass the original architecture."
            )
        setattr(made, INPUTS, self.inputs)
        return self._folded(made.eval())

    def _folded(self, network: nn.Module) -> nn.Module:
        if not self.merges:
            return network
        try:
            return folded_again(network, self.merges)
        except (OptionError, InputError) as error:
            raise FileFormatError(
                f"the network in the file cannot be folded as it says: {error} Write it again."
            ) from error


def save(
    network: Any,
    directory: str | Path,
    *,
    plan: Plan,
    folded: Folded | Folding | None = None,
    name: str = "",
) -> Path:
    """Write a linearized network as network.json and network.safetensors, and return the first.

    Nothing in these files is code. `load` builds the network again from the original architecture.

    Args:
        network: from `apply`, after any tuning, before it is folded; or the result of `tune`.
        directory: is created. A name that ends in .json is that of the first file.
        plan: that the network was made with.
        folded: the result of `fold(network)`: the same merges are made again when it is loaded.
        name: of the original in the catalog, such as "sigmascope/resnet20", by which `load` finds
            it; by default that of its class.

    Raises:
        InputTypeError: not a network, or not a plan.
        InputError: a network that was folded, or that was made with another plan.

    >>> import tempfile
    >>> import torch
    >>> from sigmascope import linearize
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    >>> plan = linearize.plan(network, torch.randn(256, 4), budget=1)
    >>> shorter = linearize.apply(network, plan).eval()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = linearize.load(save(shorter, folder, plan=plan), network)
    >>> torch.equal(again[1].scale, shorter[1].scale)
    True
    """
    check_kind("plan", plan, Plan, "sigmascope.linearize.plan")
    if isinstance(network, Folded | Linearization):
        raise InputError(
            f"a {type(network).__name__} holds a network that was folded. Pass the network that "
            "fold was called with, and folded=fold(network)."
        )
    found = unwrapped(network.network if isinstance(network, Tuned) else network)
    _check_maps(found, plan)
    merges = () if folded is None else folded.merges
    _check_merges(found, plan, merges)
    saved = SavedNetwork(
        name=name or plan.network,
        architecture=plan.structure,
        structure=structure_of(found),
        maps=plan.maps,
        sites=tuple(plan.chosen),
        layers=tuple(layers_of(found)),
        inputs=plan.inputs,
        outputs=probed_twice(found, plan.inputs),
        merges=merges,
        versions={"sigmascope": __version__, "torch": str(torch.__version__)},
        tensors={
            key: value for key, value in found.state_dict().items() if isinstance(value, Tensor)
        },
    )
    return saved.save(file_of(directory))


def _check_maps(network: nn.Module, plan: Plan) -> None:
    """Raise an InputError unless a network has the maps of a plan, which `load` puts there."""
    if isinstance(network, fx.GraphModule) and type(network).__name__ != plan.network:
        raise InputError(
            f"the network is a torch.fx graph, as fold makes one, and not a {plan.network} as the "
            "plan was made for. Pass the network that fold was called with, and "
            "folded=fold(network)."
        )
    for site in plan.sites:
        if is_installed(network, site) != site.chosen:
            there = "no map" if site.chosen else "a map"
            raise InputError(
                f"the network has {there} in place of {site.name}, which this plan "
                f"{'replaces' if site.chosen else 'keeps'}. Pass the network that apply made with "
                "this plan, before it was folded."
            )


def _check_merges(network: nn.Module, plan: Plan, merges: tuple[str, ...]) -> None:
    """Raise an InputError unless `load` can make merges, for which it has random inputs only."""
    if not merges:
        return
    made = copied(network).eval()
    setattr(made, INPUTS, plan.inputs)
    try:
        folded_again(made, merges)
    except (OptionError, InputError) as error:
        raise InputError(
            f"the network could not be folded again when it is loaded: {error} Leave folded= out, "
            "and fold the network that load returns, with an example."
        ) from error


def file_of(path: str | Path) -> Path:
    """Return network.json in a directory, or a file itself."""
    check_path("path", path)
    given = Path(path)
    return given if given.suffix == ".json" else given / FILE


def _set(network: nn.Module, layer: Layer, tensors: dict[str, Tensor]) -> None:
    """Put a layer in its places, unless one like it is there."""
    if not layer.paths:
        raise FileFormatError(f"a layer of kind {layer.kind!r:.40} has no place. Write it again.")
    there = [_module_at(network, path) for path in layer.paths]
    if len({*map(id, there)}) == 1 and layer.is_like(describe(there[0])):
        return
    made = build(layer)
    prefix = layer.paths[0]
    for name, value in made.state_dict().items():
        given = tensors.get(f"{prefix}.{name}")
        if given is None or given.shape != value.shape:
            raise FileFormatError(_unlike(f"{prefix}.{name}", given, value))
    reference = next(network.parameters(), torch.zeros(()))
    made = made.to_empty(device=reference.device).to(reference.dtype)
    for path, old in zip(layer.paths, there, strict=True):
        around, _, name = path.rpartition(".")
        network.get_submodule(around)._modules[name] = made
        _reroute(network, old, made)


def _module_at(network: nn.Module, path: str) -> nn.Module:
    try:
        if not path:
            raise AttributeError
        return network.get_submodule(path)
    except AttributeError:
        raise FileFormatError(
            f"the network has no layer {path!r:.80}, which the file describes. Pass the original "
            "architecture, or write the network again."
        ) from None


def _reroute(network: nn.Module, old: nn.Module, made: nn.Module) -> None:
    """Let functions that called a map call another one."""
    for module in network.modules():
        route = module.__dict__.get(ROUTE)
        if isinstance(route, Route):
            for number, placed in route.maps.items():
                if placed is old:
                    route.maps[number] = made


@torch.no_grad()
def _fill(network: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Overwrite all parameters and buffers, in the dtypes of the file."""
    own = {key: value for key, value in network.state_dict().items() if isinstance(value, Tensor)}
    for name in sorted(own.keys() | tensors.keys()):
        here, there = own.get(name), tensors.get(name)
        if here is None or there is None or here.shape != there.shape:
            raise FileFormatError(_unlike(name, there, here))
    named = dict([*network.named_parameters(), *network.named_buffers()])
    for name, value in named.items():
        if name in tensors:
            value.data = tensors[name].to(value.device, copy=True)


def _unlike(name: str, there: Tensor | None, here: Tensor | None) -> str:
    shapes = ["nothing" if one is None else f"{list(one.shape)}" for one in (there, here)]
    return (
        f"{name!r:.120} is {shapes[0]} in the file and {shapes[1]} in the network. Pass the "
        "original architecture, or write the network again."
    )
