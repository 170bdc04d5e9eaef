"""Networks of transformers: `hf/TYPE` with random weights, or `hf/NAME`, a folder or a name on the hub, with its own.

The tokenizer or the preprocessing of images comes from beside the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from sigmascope.catalog.entry import Model
from sigmascope.catalog.names import guess
from sigmascope.catalog.optional import optional
from sigmascope.catalog.transforms import Transform, resize_and_crop
from sigmascope.catalog.weights import refused
from sigmascope.errors import FileFormatError, InputError, MissingExtraError

__all__ = ["of_transformers"]

T = TypeVar("T")
LONGEST = 512
HALF = (0.5, 0.5, 0.5)


def of_transformers(rest: str, name: str, pretrained: bool) -> Model:
    """Build a network of transformers."""
    library = optional("transformers")
    types: Iterable[str] = library.CONFIG_MAPPING.keys()
    is_type = rest in types and not Path(rest).is_dir()
    if pretrained:
        network: Any = _opened(lambda: library.AutoModel.from_pretrained(rest, trust_remote_code=False), rest, types)
    elif is_type:
        network = library.AutoModel.from_config(library.AutoConfig.for_model(rest))
    else:
        config = _opened(lambda: library.AutoConfig.from_pretrained(rest, trust_remote_code=False), rest, types)
        network = library.AutoModel.from_config(config)
    takes = _takes(network)
    # A type of network has no tokenizer and no preprocessing of its own.
    source = None if is_type and not pretrained else rest
    make = {"images": _pictures, "text": _sentences}.get(takes, _nothing)
    return Model(name, network, rest, _example(network), Transform(takes, make(library, source, network)))


def _opened(read: Callable[[], T], rest: str, types: Iterable[str]) -> T:
    """Read from a folder or fetch from the hub, or say what to place where."""
    try:
        with refused(f"hf/{rest}"):
            return read()
    except FileFormatError:
        raise
    except (OSError, ValueError) as error:
        told = " ".join(str(error).split())
        if Path(rest).is_dir():
            raise FileFormatError(f"{rest}: no folder that save_pretrained of transformers wrote ({told:.200}).") from error
        near = "" if rest in types else guess(rest, types, before="hf/")
        raise InputError(
            f"the weights of hf/{rest} are not here and cannot be fetched ({told:.200}).{near} Name a folder that "
            "save_pretrained wrote, as hf/FOLDER, or pass weights=None with a type such as hf/bert for random ones."
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
        inputs = {main: torch.zeros(1, getattr(config, "num_mel_bins", 80), 2 * getattr(config, "max_source_positions", 1500))}
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
        raise MissingExtraError('transformers needs torchvision for images: pip install "sigmascope[vision]".') from error
    return lambda images: processor(images=list(images), return_tensors="pt")["pixel_values"]


def _sentences(library: Any, source: str | None, network: nn.Module) -> Callable[[Any], Any]:
    """Tokenize with what stands beside the weights; padded to the longest of a batch, decoders read the sentence itself."""
    tokenizer = None if source is None else _tokenizer(library, source)
    if tokenizer is None:
        return _no_tokenizer
    config: Any = network.config
    # Some networks keep two positions for padding; tokenizers without a limit claim one of 10³⁰.
    positions = (getattr(config, "max_position_embeddings", None) or LONGEST + 2) - 2
    longest = min(tokenizer.model_max_length, positions, LONGEST)

    def make(sentences: list[str]) -> dict[str, Tensor]:
        found = dict(tokenizer(sentences, padding=True, truncation=True, max_length=longest, return_tensors="pt"))
        if config.is_encoder_decoder:
            found |= {"decoder_input_ids": found["input_ids"], "decoder_attention_mask": found["attention_mask"]}
        return found

    return make


def _tokenizer(library: Any, source: str) -> Any:
    """Read a tokenizer; None where there is none. Without files transformers makes one up that knows special tokens only."""
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
        "this network has no tokenizer, so it cannot read sentences. Name a folder with one, as hf/FOLDER "
        "(tokenizer.save_pretrained writes it beside the weights), or pass transform=FUNCTION, from sentences to a mapping "
        "with input_ids."
    )


def _nothing(library: Any, source: str | None, network: nn.Module) -> Callable[[Any], Any]:
    """No data of the catalog fits; `data` says so before this would be called."""
    return _no_tokenizer
