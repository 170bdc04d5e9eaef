"""Networks by name, such as `torchvision/resnet50`, `timm/convnext_atto`, `hf/bert`, `onnx:FILE` or `sigmascope/resnet20`."""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.error import URLError

import torch
from torch import Tensor, nn

from sigmascope.capture.depth import activation_depth
from sigmascope.catalog.cifar import NETWORKS
from sigmascope.catalog.embedded import EMBEDDED, embedded_weights
from sigmascope.catalog.images import normalise, resize_and_crop
from sigmascope.catalog.optional import optional
from sigmascope.catalog.weights import load_weights
from sigmascope.errors import InputError, InputTypeError, MissingExtraError, OptionError

__all__ = ["Model", "model", "model_names"]

Transform = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Model:
    """A network with what is known of it.

    Attributes:
        name: under which it was asked for.
        network: in evaluation mode.
        weights: where its weights come from.
        inputs: an example of what it takes: a tensor, or a mapping of arguments by name.
        transform: images (n, 3, h, w) of 0 to 255 -> what the network takes; None where it takes no images.
        accuracy: top-1 on its own test data in percent, where it is known.
    """

    name: str
    network: nn.Module = field(repr=False)
    weights: str
    inputs: Any = field(repr=False)
    transform: Transform | None = field(default=None, repr=False)
    accuracy: float | None = None

    @cached_property
    def parameters(self) -> int:
        """How many numbers it has learnt."""
        return sum(parameter.numel() for parameter in self.network.parameters())

    @cached_property
    def flops(self) -> int:
        """Floating-point operations of one sample, a multiplication and an addition counted as two."""
        from torch.utils.flop_counter import FlopCounterMode

        with FlopCounterMode(display=False) as counter:
            self._run()
        return int(counter.get_total_flops())

    @cached_property
    def depth(self) -> int:
        """Activation calls on the longest path from input to output."""
        return activation_depth(self._run)

    def _run(self) -> object:
        with torch.no_grad():
            return self.network(**self.inputs) if isinstance(self.inputs, dict) else self.network(self.inputs)


def model(name: str, *, weights: str | Path | None = "default", seed: int = 0) -> Model:
    """Build a network by name.

    Args:
        name: `torchvision/NAME`, `timm/NAME`, `hf/TYPE` or `hf/FOLDER` (transformers), `onnx:FILE`, `py:FILE:FACTORY` (a
            function in a Python file that returns the network; its code is run) or `sigmascope/NAME`, see `model_names`.
        weights: "default" for the library's own, None for random ones, or a file: safetensors, or a state dict of tensors.
        seed: of the random ones.

    Raises:
        OptionError: an unknown name; the nearest ones are named.
        MissingExtraError: a package is missing; the extra is named.
        InputError: weights that are not here and cannot be fetched; the message says which file to place where.
        FileFormatError: a file that does not fit, or that would have to run code.
    """
    if not isinstance(name, str):
        raise InputTypeError(f"name is a {type(name).__name__}. Pass a name such as 'torchvision/resnet50'.")
    kind, mark, rest = name.partition("/") if name.partition("/")[0] in SOURCES else name.partition(":")
    if kind not in SOURCES or not mark or not rest:
        raise OptionError(f"{name!r} is no name of a network. Names begin with {', '.join(BEGINNINGS)}.")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        found = SOURCES[kind](rest, name, weights == "default")
    origin = found.weights
    if weights is not None and weights != "default":
        load_weights(found.network, weights)
        origin = str(weights)
    elif weights is None:
        origin = f"random (seed {seed})"
    found.network.eval()
    accuracy = found.accuracy if weights == "default" else None
    return Model(name, found.network, origin, found.inputs, found.transform, accuracy)


def _check_known(name: str, known: Iterable[str], source: str) -> None:
    names = list(known)
    if name not in names:
        near = difflib.get_close_matches(name, names, n=3)
        guess = f" Did you mean {' or '.join(repr(f'{source}/{one}') for one in near)}?" if near else ""
        raise OptionError(f"{source} has no network {name!r}.{guess} `sigmascope list models` prints all names.")


def _torchvision(rest: str, name: str, pretrained: bool) -> Model:
    models = optional("torchvision.models")
    _check_known(rest, models.list_models(module=models), "torchvision")
    choices = models.get_model_weights(rest)
    best = getattr(choices, "DEFAULT", None)
    settings = {"init_weights": True} if rest in ("googlenet", "inception_v3") else {}
    if pretrained and best is not None:
        network = _fetched(lambda: models.get_model(rest, weights=best), best.url)
    else:
        network = models.get_model(rest, weights=None, **settings)
    side = 299 if rest == "inception_v3" else 224
    transform: Transform = resize_and_crop(side, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    accuracy = None
    if best is not None:
        preset = best.transforms()
        side = preset.crop_size[0]
        transform = resize_and_crop(side, preset.mean, preset.std, resize=preset.resize_size[0])
        accuracy = best.meta.get("_metrics", {}).get("ImageNet-1K", {}).get("acc@1")
    return Model(name, network, str(best), torch.zeros(1, 3, side, side), transform, accuracy)


def _fetched(fetch: Callable[[], nn.Module], url: str) -> nn.Module:
    """Fetch weights, or say where to put them."""
    try:
        return fetch()
    except (URLError, OSError) as error:
        folder = Path(torch.hub.get_dir()) / "checkpoints"
        raise InputError(
            f"the weights {url.rpartition('/')[2]} are not in {folder} and cannot be fetched ({error}). Place the file there, "
            "pass weights=FILE, or weights=None for random ones."
        ) from error


def _timm(rest: str, name: str, pretrained: bool) -> Model:
    timm = optional("timm")
    base = rest.partition(".")[0]
    _check_known(base, timm.list_models(), "timm")
    if pretrained:
        network = _fetched(lambda: timm.create_model(rest, pretrained=True), f"{rest}/model.safetensors")
    else:
        network = timm.create_model(rest, pretrained=False)
    settings: dict[str, Any] = vars(network)["pretrained_cfg"]
    side = settings["input_size"][-1]
    transform = resize_and_crop(side, settings["mean"], settings["std"], resize=round(side / settings.get("crop_pct", 0.875)))
    return Model(name, network, "timm's default", torch.zeros(1, *settings["input_size"]), transform)


def _transformers(rest: str, name: str, pretrained: bool) -> Model:
    library = optional("transformers")
    if pretrained:
        network = _fetched(lambda: library.AutoModel.from_pretrained(rest), rest)
    else:
        _check_known(rest, library.CONFIG_MAPPING.keys(), "hf")
        network = library.AutoModel.from_config(library.AutoConfig.for_model(rest))
    return Model(name, network, rest, _example(network), _hf_transform(network))


def _example(network: Any) -> dict[str, Tensor]:
    """Make inputs that a network of transformers accepts."""
    if "pixel_values" in network.main_input_name:
        side = getattr(network.config, "image_size", 224)
        return {"pixel_values": torch.zeros(1, getattr(network.config, "num_channels", 3), side, side)}
    ids = torch.ones(1, 8, dtype=torch.long)
    return {"input_ids": ids} | ({"decoder_input_ids": ids} if network.config.is_encoder_decoder else {})


def _hf_transform(network: Any) -> Transform | None:
    if "pixel_values" not in network.main_input_name:
        return None
    return resize_and_crop(getattr(network.config, "image_size", 224), (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))


def _onnx(rest: str, name: str, pretrained: bool) -> Model:
    if not Path(rest).is_file():
        raise InputError(f"{rest}: no such ONNX file.")
    optional("torchvision")  # onnx2torch imports it, and it may need help
    onnx = optional("onnx")
    network: nn.Module = optional("onnx2torch").convert(rest)
    dims = onnx.load(rest, load_external_data=False).graph.input[0].type.tensor_type.shape.dim
    shape = [dim.dim_value or (1 if axis == 0 else 224) for axis, dim in enumerate(dims)]
    transform = normalise((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)) if len(shape) == 4 else None
    return Model(name, network, rest, torch.zeros(*shape), transform)


def _python(rest: str, name: str, pretrained: bool) -> Model:
    path, mark, factory = rest.rpartition(":")
    if not mark or not Path(path).is_file():
        raise InputError(f"{name!r} names no Python file and function: write py:FILE:FUNCTION.")
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path}: not a Python file.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    build = getattr(module, factory, None)
    network = build() if callable(build) else None
    if not isinstance(network, nn.Module):
        raise InputTypeError(f"{path}: {factory} is no function that returns an nn.Module.")
    return Model(name, network, "as the function returns it", torch.zeros(1, 3, 32, 32), None)


def _own(rest: str, name: str, pretrained: bool) -> Model:
    _check_known(rest, NETWORKS, "sigmascope")
    network, accuracy, origin = NETWORKS[rest](), None, "random"
    if pretrained:
        if rest not in EMBEDDED:
            raise InputError(f"{name} has no embedded weights; {', '.join(EMBEDDED)} have. Pass weights=FILE or weights=None.")
        accuracy = embedded_weights(rest, network)
        origin = "embedded"
    transform = normalise((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010))
    return Model(name, network, origin, torch.zeros(1, 3, 32, 32), transform, accuracy)


SOURCES: dict[str, Callable[[str, str, bool], Model]] = {
    "torchvision": _torchvision,
    "timm": _timm,
    "hf": _transformers,
    "onnx": _onnx,
    "py": _python,
    "sigmascope": _own,
}
"""Beginning of a name -> function of the rest, the whole name, and whether the default weights are wanted."""
BEGINNINGS = ("torchvision/", "timm/", "hf/", "onnx:", "py:", "sigmascope/")


def model_names() -> dict[str, list[str]]:
    """List the names of all networks, by library; libraries that are not installed are missing."""
    listing: dict[str, list[str]] = {"sigmascope": [f"sigmascope/{name}" for name in NETWORKS]}
    sources: dict[str, Callable[[], Iterable[str]]] = {
        "torchvision": lambda: optional("torchvision.models").list_models(module=optional("torchvision.models")),
        "timm": lambda: optional("timm").list_models(),
        "hf": lambda: optional("transformers").CONFIG_MAPPING.keys(),
    }
    for source, names in sources.items():
        try:
            listing[source] = [f"{source}/{name}" for name in names()]
        except MissingExtraError:
            continue
    return listing
