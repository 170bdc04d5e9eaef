"""Networks of torchvision and timm, with the preprocessing of their own weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sigmascope.catalog.entry import Model
from sigmascope.catalog.names import check_known
from sigmascope.catalog.optional import optional
from sigmascope.catalog.transforms import Transform
from sigmascope.catalog.weights import refused
from sigmascope.errors import InputError, OptionError

__all__ = ["of_timm", "of_torchvision"]


def of_torchvision(rest: str, name: str, pretrained: bool) -> Model:
    """Build a classification network of torchvision."""
    models = optional("torchvision.models")
    check_known(rest, models.list_models(module=models), "torchvision")
    best = models.get_model_weights(rest).DEFAULT
    if pretrained:
        _check_torchvision_file(best)
        network = models.get_model(rest, weights=best)
    else:
        settings = {"init_weights": True} if rest in ("googlenet", "inception_v3") else {}
        network = models.get_model(rest, weights=None, **settings)
    preset = best.transforms()
    accuracy = best.meta.get("_metrics", {}).get("ImageNet-1K", {}).get("acc@1")
    (side,) = preset.crop_size
    return Model(name, network, str(best), torch.zeros(1, 3, side, side), Transform("images", preset), accuracy)


def _check_torchvision_file(weights: Any) -> None:
    """Fetch a file of weights and read its tensors: torchvision itself would run whatever code is in it."""
    try:
        with refused(weights.url.rpartition("/")[2]):
            weights.get_state_dict(progress=False, check_hash=True, weights_only=True, map_location="cpu")
    except (OSError, RuntimeError) as error:  # the latter where the sum of a download is wrong
        folder = Path(torch.hub.get_dir()) / "checkpoints"
        raise InputError(
            f"the weights {weights.url.rpartition('/')[2]} are not in {folder} and cannot be fetched ({error}). Place the file "
            "there, pass weights=FILE, or weights=None for random ones."
        ) from error


def of_timm(rest: str, name: str, pretrained: bool) -> Model:
    """Build a network of timm, `NAME` or `NAME.TAG`."""
    timm = optional("timm")
    base, mark, _ = rest.partition(".")
    check_known(base, timm.list_models(), "timm")
    if mark:
        check_known(rest, timm.list_pretrained(), "timm")
    network = _pretrained_timm(timm, rest) if pretrained else timm.create_model(rest, pretrained=False)
    config = timm.data.resolve_model_data_config(network)
    transform = Transform("images", _one_by_one(timm.data.create_transform(**config)))
    tag: str = vars(network)["pretrained_cfg"].get("tag") or "default"
    return Model(name, network, f"timm's {base}.{tag}", torch.zeros(1, *config["input_size"]), transform)


def _pretrained_timm(timm: Any, rest: str) -> torch.nn.Module:
    try:
        with refused(rest):
            network: torch.nn.Module = timm.create_model(rest, pretrained=True)
    except OSError as error:
        raise InputError(
            f"the weights of timm/{rest} are not in the cache of the hub and cannot be fetched ({error}). Connect once, or "
            "pass weights=FILE with its model.safetensors, or weights=None for random ones."
        ) from error
    except RuntimeError as error:
        raise OptionError(f"timm has no weights for {rest!r} ({error}). Pass weights=FILE, or weights=None.") from error
    return network


def _one_by_one(preset: Callable[[Any], Tensor]) -> Callable[[Tensor], Tensor]:
    """Apply what was written for single pictures to images (n, 3, h, w) of 0 to 255."""
    picture = optional("PIL.Image").fromarray

    def transform(images: Tensor) -> Tensor:
        rows = images.to(torch.uint8).permute(0, 2, 3, 1).contiguous().cpu().numpy()
        return torch.stack([preset(picture(row)) for row in rows])

    return transform
