"""Networks of torchvision and timm, with the preprocessing of their own weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sigmascope.catalog.entry import Model
from sigmascope.catalog.hub import hub_cache, is_kept, quiet, unreachable
from sigmascope.catalog.names import check_known
from sigmascope.catalog.optional import optional
from sigmascope.catalog.transforms import Transform
from sigmascope.catalog.weights import refused
from sigmascope.errors import InputError, OptionError

__all__ = ["of_timm", "of_torchvision"]

# Under which names the hub has the weights of timm.
TIMM_FILES = (
    "model.safetensors",
    "pytorch_model.bin",
    "open_clip_model.safetensors",
    "open_clip_pytorch_model.bin",
)


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
    return Model(
        name,
        network,
        str(best),
        torch.zeros(1, 3, side, side),
        Transform("images", preset, (3, side, side)),
        accuracy,
    )


def _check_torchvision_file(weights: Any) -> None:
    """Fetch a file of weights and read its tensors: torchvision itself would run whatever code is
    in it.
    """
    try:
        with refused(weights.url.rpartition("/")[2]):
            weights.get_state_dict(
                progress=False, check_hash=True, weights_only=True, map_location="cpu"
            )
    except (OSError, RuntimeError) as error:  # the latter where the sum of a download is wrong
        folder = Path(torch.hub.get_dir()) / "checkpoints"
        raise InputError(
            f"the weights {weights.url.rpartition('/')[2]} are not in {folder} and cannot be "
            f"fetched ({error}). Place the file "
            "there, pass weights=FILE, or weights=None for random ones."
        ) from error


def of_timm(rest: str, name: str, pretrained: bool) -> Model:
    """Build a network of timm, `NAME` or `NAME.TAG`."""
    timm = optional("timm")
    base, mark, _ = rest.partition(".")
    check_known(base, timm.list_models(), "timm")
    if mark:
        check_known(rest, timm.list_pretrained(), "timm")
    network = (
        _pretrained_timm(timm, rest) if pretrained else timm.create_model(rest, pretrained=False)
    )
    config = timm.data.resolve_model_data_config(network)
    transform = Transform(
        "images", _one_by_one(timm.data.create_transform(**config)), tuple(config["input_size"])
    )
    tag: str = vars(network)["pretrained_cfg"].get("tag") or "default"
    return Model(
        name, network, f"timm's {base}.{tag}", torch.zeros(1, *config["input_size"]), transform
    )


def _pretrained_timm(timm: Any, rest: str) -> torch.nn.Module:
    found = timm.get_pretrained_cfg(rest)
    repository: str = getattr(found, "hf_hub_id", None) or ""
    place = _place(repository, getattr(found, "url", None) or "")
    if (
        repository
        and not any(
            is_kept(repository, file) for file in (found.hf_hub_filename, *TIMM_FILES) if file
        )
        and (reason := unreachable())
    ):
        raise InputError(
            f"the weights of timm/{rest} are not here and cannot be fetched ({reason}). {place}"
        )
    try:
        with refused(rest), quiet():
            network: torch.nn.Module = timm.create_model(rest, pretrained=True)
    except OSError as error:
        told = " ".join(str(error).split())
        raise InputError(
            f"the weights of timm/{rest} are not here and cannot be fetched ({told:.200}). {place}"
        ) from error
    except RuntimeError as error:
        raise OptionError(
            f"timm has no weights for {rest!r} ({error}). Pass weights=FILE, or weights=None."
        ) from error
    return network


def _place(repository: str, url: str) -> str:
    """Say which file to place where."""
    others = "or pass weights=None for random ones"
    if repository:
        return (
            f"Fetch model.safetensors of {repository} from the hub and pass weights=FILE, "
            "connect once, which fills "
            f"{hub_cache()}, {others}."
        )
    folder = Path(torch.hub.get_dir()) / "checkpoints"
    return f"Place {url.rpartition('/')[2] or 'its file'} in {folder}, pass weights=FILE, {others}."


def _one_by_one(preset: Callable[[Any], Tensor]) -> Callable[[Tensor], Tensor]:
    """Apply what was written for single pictures to images (n, 3, h, w) of 0 to 255."""
    picture = optional("PIL.Image").fromarray

    def transform(images: Tensor) -> Tensor:
        rows = images.to(torch.uint8).permute(0, 2, 3, 1).contiguous().cpu().numpy()
        return torch.stack([preset(picture(row)) for row in rows])

    return transform
