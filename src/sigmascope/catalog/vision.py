"""Networks of torchvision and timm, with the preprocessing of their own weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sigmascope.catalog.entry import Model, check_known
from sigmascope.catalog.floors import check_floor
from sigmascope.catalog.hub import hub_cache, is_kept, quiet, unreachable
from sigmascope.catalog.optional import one_line, optional
from sigmascope.catalog.transforms import Transform
from sigmascope.catalog.vision_tasks import TASKS, torchvision_names
from sigmascope.catalog.weights import tensors_only
from sigmascope.errors import InputError, OptionError

OWN_WEIGHTS = "Or pass weights=FILE in safetensors, or weights=None for random weights."
FEATURES = ":features"  # behind the name of a network of timm
# The names of timm's weights on the hub.
TIMM_FILES = (
    "model.safetensors",
    "pytorch_model.bin",
    "open_clip_model.safetensors",
    "open_clip_pytorch_model.bin",
)


def of_torchvision(rest: str, name: str, pretrained: bool) -> Model:
    """Return a network of torchvision."""
    models = optional("torchvision.models")
    names = torchvision_names(models)
    check_known(rest, names, "torchvision")
    task = TASKS[names[rest]]
    best = models.get_model_weights(rest).DEFAULT
    if pretrained:
        _check_torchvision_file(best)
        network = models.get_model(rest, weights=best)
    else:
        own = {"init_weights": True} if rest in ("googlenet", "inception_v3") else {}
        settings = {**task.settings, **own}
        network = models.get_model(rest, weights=None, **settings)
    preset = best.transforms()
    accuracy = best.meta.get("_metrics", {}).get("ImageNet-1K", {}).get("acc@1")
    return Model(name, network, str(best), task.inputs(preset), task.transform(preset), accuracy)


def _check_torchvision_file(weights: Any) -> None:
    """Download a file of weights and read its tensors; torchvision would run code in it."""
    file, kind = weights.url.rpartition("/")[2], {"weights_only": True, "map_location": "cpu"}
    check_floor("torch", file, OWN_WEIGHTS)
    try:
        with tensors_only(file):
            weights.get_state_dict(progress=False, check_hash=True, **kind)
    except (OSError, RuntimeError) as error:  # RuntimeError: the checksum of a download is wrong
        raise InputError(
            f"the weights {file} are not in {_checkpoints()} and cannot be downloaded ({error}). "
            "Put the file there, pass weights=FILE, or weights=None for random weights."
        ) from error


def _checkpoints() -> Path:
    return Path(torch.hub.get_dir()) / "checkpoints"


def of_timm(rest: str, name: str, pretrained: bool) -> Model:
    """Return a network of timm, `NAME` or `NAME.TAG`, or `NAME:features` without its head."""
    timm = optional("timm")
    rest, features, _ = rest.partition(FEATURES)
    settings = {"features_only": True} if features else {}
    base, mark, _ = rest.partition(".")
    check_known(base, timm.list_models(), "timm")
    if mark:
        check_known(rest, timm.list_pretrained(), "timm")
    try:
        network = (
            _pretrained_timm(timm, rest, settings)
            if pretrained
            else timm.create_model(rest, pretrained=False, **settings)
        )
    except (AttributeError, TypeError, AssertionError, NotImplementedError) as error:
        if not features:
            raise
        raise OptionError(
            f"timm does not return the features of {base} ({one_line(error)}). Pass timm/{rest}."
        ) from error
    config = timm.data.resolve_model_data_config(network)
    size = tuple(config["input_size"])
    transform = Transform("images", _one_by_one(timm.data.create_transform(**config)), size)
    tag: str = vars(network)["pretrained_cfg"].get("tag") or "default"
    return Model(name, network, f"timm's {base}.{tag}", torch.zeros(1, *size), transform)


def _pretrained_timm(timm: Any, rest: str, settings: dict[str, Any]) -> torch.nn.Module:
    config = timm.get_pretrained_cfg(rest)
    repository: str = getattr(config, "hf_hub_id", None) or ""
    remedy = _remedy(repository, getattr(config, "url", None) or "")
    failure = f"the weights of timm/{rest} are not on this machine and cannot be downloaded"
    if repository:
        files = (config.hf_hub_filename, *TIMM_FILES)
        kept = any(is_kept(repository, file) for file in files if file)
        if not kept and (reason := unreachable()):
            raise InputError(f"{failure} ({reason}). {remedy}")
    if not is_kept(repository, TIMM_FILES[0]):  # otherwise it may be a file of torch
        check_floor("torch", f"the file of timm/{rest}", OWN_WEIGHTS)
    try:
        with tensors_only(rest), quiet():
            network: torch.nn.Module = timm.create_model(rest, pretrained=True, **settings)
    except OSError as error:
        raise InputError(f"{failure} ({one_line(error)}). {remedy}") from error
    except RuntimeError as error:
        raise OptionError(
            f"timm has no weights for {rest!r} ({error}). Pass weights=FILE, or weights=None."
        ) from error
    return network


def _remedy(repository: str, url: str) -> str:
    """Return a sentence that says which file to put where."""
    others = "or pass weights=None for random weights"
    if repository:
        return (
            f"Download model.safetensors of {repository} from the hub and pass weights=FILE, "
            f"connect once, which fills {hub_cache()}, {others}."
        )
    file = url.rpartition("/")[2] or "its file"
    return f"Put {file} in {_checkpoints()}, pass weights=FILE, {others}."


def _one_by_one(preset: Callable[[Any], Tensor]) -> Callable[[Tensor], Tensor]:
    """Return a transform of images (n, 3, h, w) of 0 to 255 from one of single pictures."""
    picture = optional("PIL.Image").fromarray

    def transform(images: Tensor) -> Tensor:
        rows = images.to(torch.uint8).permute(0, 2, 3, 1).contiguous().cpu().numpy()
        return torch.stack([preset(picture(row)) for row in rows])

    return transform
