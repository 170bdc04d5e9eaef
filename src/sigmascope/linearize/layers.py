"""Layers as plain values: what it takes to build them again, without code from a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import nn

from sigmascope.errors import FileFormatError
from sigmascope.linearize.maps import Affine, Identity

CONVOLUTIONS: dict[str, type[nn.Module]] = {
    "Conv1d": nn.Conv1d,
    "Conv2d": nn.Conv2d,
    "Conv3d": nn.Conv3d,
}
WHOLE = ("kernel_size", "stride", "dilation")


@dataclass(frozen=True)
class Layer:
    """A layer without its weights.

    Attributes:
        kind: a row of `KINDS`.
        paths: where it is in the network; more than one for a layer that is shared.
        sizes: name -> whole numbers, such as "kernel_size" -> (3, 3).
        words: name -> text, such as "padding_mode" -> "zeros".
        parts: layers inside it.
    """

    kind: str
    paths: tuple[str, ...] = ()
    sizes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    parts: tuple[Layer, ...] = ()

    def is_like(self, other: Layer | None) -> bool:
        """Return whether two layers differ at most in their places and weights."""
        if other is None:
            return False
        mine = (self.kind, self.sizes, self.words, len(self.parts))
        theirs = (other.kind, other.sizes, other.words, len(other.parts))
        pairs = zip(self.parts, other.parts, strict=False)
        return mine == theirs and all(one.is_like(two) for one, two in pairs)


class Kind(NamedTuple):
    """How a class of layers is described and built."""

    is_one: Callable[[Any], bool]
    describe: Callable[[Any], Layer]
    build: Callable[[Layer], nn.Module]


def describe(module: nn.Module) -> Layer | None:
    """Return a layer as plain values; None for one of another class.

    >>> describe(nn.Linear(3, 2, bias=False))
    Layer(kind='Linear', paths=(), sizes={'features': (3, 2), 'bias': (0,)}, words={}, parts=())
    """
    for kind in KINDS.values():
        if kind.is_one(module):
            return kind.describe(module)
    return None


def build(layer: Layer) -> nn.Module:
    """Return a layer of this description, on the meta device, without numbers.

    Raises:
        FileFormatError: values that describe no layer.

    >>> build(describe(nn.Conv2d(3, 4, 3, padding=1)))
    Conv2d(3, 4, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))
    """
    where = f"the layer {layer.paths[0] if layer.paths else ''!r}"
    if layer.kind not in KINDS:
        raise FileFormatError(
            f"{where} is of kind {layer.kind!r:.40}, which this version cannot build. Upgrade "
            "sigmascope, or write the network again."
        )
    try:
        with torch.device("meta"):
            return KINDS[layer.kind].build(layer)
    except (KeyError, TypeError, ValueError, RuntimeError, IndexError, OverflowError) as error:
        raise FileFormatError(
            f"{where} cannot be built as a {layer.kind}: {error}. Write the network again."
        ) from error


def layers_of(network: nn.Module) -> Iterator[Layer]:
    """Yield the layers of a network that can be described, each once, with all of its places."""
    places: dict[int, list[str]] = {}
    found: dict[int, nn.Module] = {}
    inside: set[str] = set()
    for path, module in network.named_modules(remove_duplicate=False):
        around = path.rpartition(".")[0]
        if around in inside:  # a part of a layer that is described as a whole
            inside.add(path)
            continue
        if describe(module) is not None:
            inside.add(path)
            places.setdefault(id(module), []).append(path)
            found[id(module)] = module
    for key, module in found.items():
        layer = describe(module)
        assert layer is not None
        yield Layer(layer.kind, tuple(places[key]), layer.sizes, layer.words, layer.parts)


def _is_exactly(kind: type[nn.Module]) -> Callable[[Any], bool]:
    return lambda module: type(module) is kind


def _convolution(module: Any) -> Layer:
    padding = module.padding
    words = {"padding_mode": module.padding_mode}
    sizes = {
        "channels": (module.in_channels, module.out_channels),
        **{name: _whole(getattr(module, name)) for name in WHOLE},
        "groups": (module.groups,),
        "bias": (int(module.bias is not None),),
    }
    if isinstance(padding, str):
        words["padding"] = padding
    else:
        sizes["padding"] = _whole(padding)
    return Layer(type(module).__name__, sizes=sizes, words=words)


def _built_convolution(layer: Layer) -> nn.Module:
    padding: Any = layer.words.get("padding") or layer.sizes["padding"]
    return CONVOLUTIONS[layer.kind](
        *layer.sizes["channels"],
        **{name: layer.sizes[name] for name in WHOLE},
        padding=padding,
        groups=layer.sizes["groups"][0],
        bias=bool(layer.sizes["bias"][0]),
        padding_mode=layer.words["padding_mode"],
    )


def _linear(module: Any) -> Layer:
    features = (module.in_features, module.out_features)
    sizes = {"features": features, "bias": (int(module.bias is not None),)}
    return Layer("Linear", sizes=sizes)


def _built_linear(layer: Layer) -> nn.Module:
    inputs, outputs = layer.sizes["features"]
    return nn.Linear(inputs, outputs, bias=bool(layer.sizes["bias"][0]))


def _affine(module: Any) -> Layer:
    axis = () if module.axis is None else (module.axis,)
    flags = (int(module.weight is not None), int(module.inplace))
    return Layer("Affine", sizes={"channels": (module.channels,), "axis": axis, "flags": flags})


def _built_affine(layer: Layer) -> nn.Module:
    [channels], axis = layer.sizes["channels"], layer.sizes["axis"]
    is_full, inplace = map(bool, layer.sizes["flags"])
    shift = torch.empty(channels)
    if is_full:
        return Affine.full(torch.empty(channels, channels), shift, axis[0], inplace=inplace)
    return Affine(torch.empty(channels), shift, axis[0] if axis else None, inplace=inplace)


def _whole(values: Any) -> tuple[int, ...]:
    return tuple(int(value) for value in values)


KINDS: dict[str, Kind] = {
    **{
        name: Kind(_is_exactly(kind), _convolution, _built_convolution)
        for name, kind in CONVOLUTIONS.items()
    },
    "Linear": Kind(_is_exactly(nn.Linear), _linear, _built_linear),
    "Affine": Kind(lambda module: isinstance(module, Affine), _affine, _built_affine),
    "Identity": Kind(
        _is_exactly(nn.Identity), lambda _: Layer("Identity"), lambda _: nn.Identity()
    ),
    "Copy": Kind(_is_exactly(Identity), lambda _: Layer("Copy"), lambda _: Identity()),
}
"""Kind -> how to recognize, describe and build it."""
