"""Networks of transformers: `hf/TYPE` with random weights, or `hf/NAME`, a folder or a name on the
hub, with its own.

The tokenizer or the preprocessing of images comes from beside the weights.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from sigmascope.catalog.entry import Model
from sigmascope.catalog.hub import hub_cache, is_kept, quiet, unreachable
from sigmascope.catalog.names import guess
from sigmascope.catalog.optional import optional
from sigmascope.catalog.transforms import Transform, resize_and_crop
from sigmascope.catalog.weights import refused
from sigmascope.errors import FileFormatError, InputError, MissingExtraError, OptionError

__all__ = ["of_transformers"]

T = TypeVar("T")
LONGEST = 512
HALF = (0.5, 0.5, 0.5)


def of_transformers(rest: str, name: str, pretrained: bool) -> Model:
    """Build a network of transformers."""
    library = optional("transformers")
    types: Iterable[str] = library.CONFIG_MAPPING.keys()
    is_type = rest in types and not Path(rest).is_dir()
    _check_name(rest, types)
    if pretrained:
        network: Any = _trained(library, rest)
    elif is_type:
        network = library.AutoModel.from_config(library.AutoConfig.for_model(rest))
    else:
        config = _opened(
            lambda: library.AutoConfig.from_pretrained(rest, trust_remote_code=False), rest
        )
        network = library.AutoModel.from_config(config)
    takes = _takes(network)
    # A type of network has no tokenizer and no preprocessing of its own.
    source = None if is_type and not pretrained else rest
    make = {"images": _pictures, "text": _sentences}.get(takes, _nothing)
    example = _example(network)
    size = tuple(example["pixel_values"].shape[1:]) if takes == "images" else None
    return Model(
        name, network, rest, example, Transform(takes, make(library, source, network), size)
    )


def _check_name(rest: str, types: Iterable[str]) -> None:
    """Raise, before anything is looked for on the hub, where a name is none: those of the hub have
    an owner.
    """
    if rest not in types and "/" not in rest and not Path(rest).is_dir():
        near = guess(rest, types, before="hf/")
        raise OptionError(
            f"hf/{rest}: transformers has no type {rest!r}, and there is no such "
            f"folder.{near} Write hf/TYPE, hf/FOLDER, or "
            "hf/OWNER/NAME for a name of the hub."
        )


def _trained(library: Any, rest: str) -> Any:
    """Read a network with all of its weights.

    A pooler that the file does not have is left out: what transformers would draw in its place is
    not trained.
    """

    def read(**more: Any) -> tuple[Any, dict[str, Any]]:
        given = {
            "trust_remote_code": False,
            "output_loading_info": True,
            "ignore_mismatched_sizes": True,
        }
        found: tuple[Any, dict[str, Any]] = _opened(
            lambda: library.AutoModel.from_pretrained(rest, **given, **more), rest
        )
        return found

    network, found = read()
    missing, other = sorted(found["missing_keys"]), sorted(found["mismatched_keys"])
    poolless = bool(missing) and all(key.startswith("pooler.") for key in missing) and not other
    if poolless and "add_pooling_layer" in inspect.signature(type(network).__init__).parameters:
        network, found = read(add_pooling_layer=False)
        missing, other = sorted(found["missing_keys"]), sorted(found["mismatched_keys"])
    remedy = "Save it again with save_pretrained, or pass weights=None for random ones."
    if missing:
        raise FileFormatError(f"hf/{rest}: its file lacks {_some(missing)}. {remedy}")
    if other:
        shapes = [f"{key} of {tuple(stored)} for {tuple(wanted)}" for key, stored, wanted in other]
        raise FileFormatError(
            f"hf/{rest}: its file has other shapes than config.json asks for: "
            f"{_some(shapes)}. {remedy}"
        )
    return network


def _some(items: list[str]) -> str:
    more = len(items) - 3
    return ", ".join(items[:3]) + (f" and {more} more" if more > 0 else "")


def _opened(read: Callable[[], T], rest: str) -> T:
    """Read from a folder or fetch from the hub, or say what to place where."""
    is_folder = Path(rest).is_dir()
    place = (
        "Place its config.json, model.safetensors and tokenizer files in a folder and name "
        "that, as hf/FOLDER; connect once, "
        f"which fills {hub_cache()}; or pass weights=None with a type such as hf/bert for "
        "random ones."
    )
    if not is_folder and not is_kept(rest, "config.json") and (reason := unreachable()):
        raise InputError(
            f"the weights of hf/{rest} are not here and cannot be fetched ({reason}). {place}"
        )
    try:
        with refused(f"hf/{rest}"), quiet():
            return read()
    except FileFormatError:
        raise
    except (OSError, ValueError) as error:
        told = " ".join(str(error).split())
        if is_folder:
            raise FileFormatError(
                f"{rest}: no folder that save_pretrained of transformers wrote "
                f"({told:.200}). Write it again."
            ) from error
        raise InputError(
            f"the weights of hf/{rest} are not here and cannot be fetched ({told:.200}). {place}"
        ) from error


def _takes(network: Any) -> str:
    main = network.main_input_name
    if main == "pixel_values":
        return "images"
    if main == "input_ids":
        return "images and text" if hasattr(network.config, "vision_config") else "text"
    return "sound"


def _example(network: nn.Module) -> dict[str, Tensor]:
    """Make inputs that the network accepts."""
    config: Any = network.config
    ids = torch.ones(1, 8, dtype=torch.long)
    main = str(network.main_input_name)
    if main == "pixel_values":
        return {main: torch.zeros(1, getattr(config, "num_channels", 3), *_size(config))}
    if main == "input_values":
        return {main: torch.zeros(1, 16_000)}
    inputs = {"input_ids": ids}
    if main == "input_features":
        inputs = {
            main: torch.zeros(
                1,
                getattr(config, "num_mel_bins", 80),
                2 * getattr(config, "max_source_positions", 1500),
            )
        }
    if hasattr(config, "vision_config"):
        inputs["pixel_values"] = torch.zeros(1, 3, *_size(config.vision_config))
    return inputs | ({"decoder_input_ids": ids} if config.is_encoder_decoder else {})


def _size(config: Any) -> tuple[int, int]:
    size = getattr(config, "image_size", None) or 224
    return (size, size) if isinstance(size, int) else (size[0], size[1])


def _pictures(library: Any, source: str | None, network: nn.Module) -> Callable[[Any], Any]:
    """Prepare images as the file beside the weights says, otherwise for values of -1 to 1."""
    usual = resize_and_crop(_size(network.config), HALF, HALF)
    if source is None:
        return usual
    try:
        processor = library.AutoImageProcessor.from_pretrained(source, trust_remote_code=False)
    except OSError:
        return usual
    except ImportError as error:
        raise MissingExtraError(
            'transformers needs torchvision for images: pip install "sigmascope[vision]".'
        ) from error
    return lambda images: processor(images=list(images), return_tensors="pt")["pixel_values"]


def _sentences(library: Any, source: str | None, network: nn.Module) -> Callable[[Any], Any]:
    """Tokenize with what stands beside the weights; padded to the longest of a batch, decoders read
    the sentence itself.
    """
    tokenizer = None if source is None else _tokenizer(library, source)
    if tokenizer is None:
        return _no_tokenizer
    config: Any = network.config
    # Some networks keep two positions for padding; tokenizers without a limit claim one of 10³⁰.
    positions = (getattr(config, "max_position_embeddings", None) or LONGEST + 2) - 2
    longest = min(tokenizer.model_max_length, positions, LONGEST)

    def make(sentences: list[str]) -> dict[str, Tensor]:
        found = dict(
            tokenizer(
                sentences, padding=True, truncation=True, max_length=longest, return_tensors="pt"
            )
        )
        if config.is_encoder_decoder:
            found |= {
                "decoder_input_ids": found["input_ids"],
                "decoder_attention_mask": found["attention_mask"],
            }
        return found

    return make


def _tokenizer(library: Any, source: str) -> Any:
    """Read a tokenizer; None where there is none. Without files transformers makes one up that
    knows special tokens only.
    """
    try:
        tokenizer = library.AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    except (OSError, ValueError):
        return None
    if len(tokenizer) <= len(tokenizer.all_special_ids):
        return None
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def _no_tokenizer(sentences: object) -> Any:
    raise InputError(
        "this network has no tokenizer, so it cannot read sentences. Name a folder with one, "
        "as hf/FOLDER "
        "(tokenizer.save_pretrained writes it beside the weights), or pass "
        "transform=FUNCTION, from sentences to a mapping "
        "with input_ids."
    )


def _nothing(library: Any, source: str | None, network: nn.Module) -> Callable[[Any], Any]:
    """No data of the catalog fits; `data` says so before this would be called."""
    return _no_tokenizer
