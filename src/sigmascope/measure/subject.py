"""The network that is measured, identified by its weights, and where it runs."""

from __future__ import annotations

import hashlib
import platform
import re
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn

from sigmascope import __version__
from sigmascope.capture.activations import chosen_kinds, kind_of_layer, kind_of_module
from sigmascope.capture.call_site import is_chosen
from sigmascope.capture.compiled import compiled_notes
from sigmascope.capture.guard import plain_path
from sigmascope.capture.sharded import original_class
from sigmascope.capture.walk import modules_of, parameters_of
from sigmascope.errors import InputError
from sigmascope.measure.batches import fingerprint, place_of
from sigmascope.measure.options import Options

HIDDEN: dict[type[nn.Module], str] = {
    nn.RNNBase: "the gates of {path} ({kind}) run in one fused kernel and are not seen",
    nn.RNNCellBase: "the gates of {path} ({kind}) run in one fused kernel and are not seen",
    nn.TransformerEncoderLayer: "the fused path of {path} ({kind}), if it would be taken, is off "
    "while it is watched",
}
ADDRESS = re.compile(" at 0x[0-9a-fA-F]+")


@dataclass(frozen=True)
class Subject:
    """A network as it is measured.

    Attributes:
        name: of the network.
        model: a fingerprint of its layers, weights and buffers; empty until it is `identified`.
        parameters: the number of parameters.
        device: where it runs.
        versions: of Python and the packages that the scores may depend on.
        expected: paths of the modules that are activations.
        notes: calls that are not seen, or run differently while they are watched.
    """

    name: str
    model: str
    parameters: int
    device: str
    versions: dict[str, str]
    expected: tuple[str, ...]
    notes: tuple[str, ...]


def check_device(network: nn.Module) -> None:
    """Raise an error for a network without numbers."""
    if place_of(network)[0].type == "meta":
        raise InputError(
            "the network is on the meta device, without numbers. Build it on a real device and "
            "load its weights."
        )


def subject_of(network: nn.Module, options: Options, name: str | None) -> Subject:
    """Return the description of a network, not yet identified by its weights."""
    kinds = chosen_kinds(options.activations)
    walked = modules_of(network)
    modules = [(plain_path(path), module) for path, module in walked]
    device = place_of(network)[0]
    return Subject(
        name=name or original_class(network).__name__,
        model="",
        parameters=sum(parameter.numel() for parameter in parameters_of(walked)),
        device=torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
        versions=current_versions(),
        expected=_expected(modules, kinds, options.sites),
        notes=(*notes_of(network), *compiled_notes(network)),
    )


def current_versions() -> dict[str, str]:
    """Return the versions that a result may depend on."""
    return {
        "sigmascope": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
    }


def identified(subject: Subject, network: nn.Module) -> Subject:
    """Return the description with the fingerprint of the weights as they are now."""
    return replace(subject, model=_fingerprint(network))


def _expected(
    modules: list[tuple[str, nn.Module]], kinds: frozenset[str], sites: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the paths of the modules that are activations, but not of those inside another one.

    Of the sites that were chosen, if any.
    """
    composite = tuple(f"{path}." for path, module in modules if kind_of_module(module) in kinds)
    return tuple(
        path
        for path, module in modules
        if (kind := kind_of_layer(module)) in kinds
        and not path.startswith(composite)
        and (not sites or is_chosen(path, kind or "", sites))
    )


def _fingerprint(network: nn.Module) -> str:
    tensors = [*network.parameters(), *network.buffers()]
    values = fingerprint(tensors, values_each=256)
    return hashlib.sha256(f"{digest_of_layers(network)}{values}".encode()).hexdigest()[:32]


def digest_of_layers(network: nn.Module) -> str:
    """Return a digest of the layers of a network and the names of its weights, not their values."""
    tensors = dict([*network.named_parameters(), *network.named_buffers()])
    # Parameters that are not tensors, such as a slope; without addresses in memory.
    layers = [
        ADDRESS.sub("", f"{original_class(module).__qualname__}({module.extra_repr()})")
        for module in network.modules()
    ]
    return hashlib.sha256(" ".join([*map(plain_path, tensors), *layers]).encode()).hexdigest()


def notes_of(network: nn.Module) -> tuple[str, ...]:
    """Return what cannot be seen in the layers of a network, once for each kind of layer."""
    notes = {}
    for path, module in ((plain_path(path), module) for path, module in modules_of(network)):
        for kind, text in HIDDEN.items():
            if isinstance(module, kind) and kind not in notes:
                notes[kind] = text.format(path=path or "the network", kind=type(module).__name__)
    return tuple(notes.values())
