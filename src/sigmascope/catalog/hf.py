"""Networks of transformers: `hf/TYPE` with random weights, `hf/FOLDER` or a name of the hub.

The tokenizer or the preprocessing of images is read from beside the weights.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from sigmascope.catalog.entry import Model
from sigmascope.catalog.floors import check_floor, installed_version, is_below_floor
from sigmascope.catalog.hub import hub_cache, is_kept, quiet, unreachable
from sigmascope.catalog.optional import one_line, optional
from sigmascope.catalog.transforms import Transform, resize_and_crop
from sigmascope.catalog.weights import tensors_only
from sigmascope.checks import suggestion
from sigmascope.errors import FileFormatError, InputError, MissingExtraError, OptionError

T = TypeVar("T")
LONGEST = 512
HALF = (0.5, 0.5, 0.5)


def of_transformers(rest: str, name: str, pretrained: bool) -> Model:
    """Return a network of transformers."""
    library = optional("transformers")
    types: Iterable[str] = library.CONFIG_MAPPING.keys()
    is_type = rest in types and not Path(rest).is_dir()
    _check_name(rest, types)
    if pretrained or not is_type:
        check_floor("transformers", f"hf/{rest}", "A type such as hf/bert reads no file.")
    if pretrained:
        network: Any = _trained(library, rest)
    elif is_type:
        network = library.AutoModel.from_config(library.AutoConfig.for_model(rest))
    else:
        config, build = _config(library, rest), library.AutoModel.from_config
        network = _opened(lambda: build(config), rest)
    takes = _takes(network)
    # A type of network has no tokenizer and no preprocessing of its own.
    source = None if is_type and not pretrained else rest
    make = {"images": _pictures, "text": _sentences}.get(takes, _nothing)
    try:
        example = _example(network)
    except Exception as error:  # sizes in config.json that are none
        raise _unusable(rest, error) from error
    size = tuple(example["pixel_values"].shape[1:]) if takes == "images" else None
    transform = Transform(takes, make(library, source, network), size)
    return Model(name, network, rest, example, transform)


def _check_name(rest: str, types: Iterable[str]) -> None:
    """Raise on an invalid name before the hub is asked; names of the hub have an owner."""
    if rest not in types and "/" not in rest and not Path(rest).is_dir():
        near = suggestion(rest, types, most=3, before="hf/")
        raise OptionError(
            f"hf/{rest} is neither a type of transformers nor a directory.{near} "
            "Write hf/TYPE, hf/FOLDER, or hf/OWNER/NAME for a name of the hub."
        )


def _config(library: Any, rest: str) -> Any:
    """Return the configuration of a network, which computes attention as transformers itself does.

    A config.json can name a kernel instead, which transformers would download and run.
    """
    read = library.AutoConfig.from_pretrained
    config = _opened(lambda: read(rest, trust_remote_code=False), rest)
    config._attn_implementation = None  # also in its parts
    return config


def _trained(library: Any, rest: str) -> Any:
    """Return a network with all of its weights.

    A pooler that the file does not have is left out: transformers would draw it at random.
    """
    given = dict.fromkeys(("output_loading_info", "ignore_mismatched_sizes"), True)
    if is_below_floor("torch", installed_version("torch")):
        given["use_safetensors"] = True

    def read(**more: Any) -> tuple[Any, list[str], list[Any]]:
        options = given | {"trust_remote_code": False, "config": _config(library, rest)} | more
        load = library.AutoModel.from_pretrained
        network, info = _opened(lambda: load(rest, **options), rest)
        return network, sorted(info["missing_keys"]), sorted(info["mismatched_keys"])

    network, missing, other = read()
    poolless = bool(missing) and all(key.startswith("pooler.") for key in missing) and not other
    if poolless and "add_pooling_layer" in inspect.signature(type(network).__init__).parameters:
        network, missing, other = read(add_pooling_layer=False)
    remedy = "Save it again with save_pretrained, or pass weights=None for random weights."
    if missing:
        raise FileFormatError(f"hf/{rest}: its file lacks {_some(missing)}. {remedy}")
    if other:
        shapes = [f"{key} of {tuple(stored)} for {tuple(wanted)}" for key, stored, wanted in other]
        raise FileFormatError(
            f"hf/{rest}: shapes in its file differ from config.json: {_some(shapes)}. {remedy}"
        )
    return network


def _some(items: list[str]) -> str:
    more = len(items) - 3
    return ", ".join(items[:3]) + (f" and {more} more" if more > 0 else "")


def _opened(read: Callable[[], T], rest: str) -> T:
    """Return what is read from a directory or the hub, or raise what to put where."""
    is_folder = Path(rest).is_dir()
    failure = f"the weights of hf/{rest} are not on this machine and cannot be downloaded"
    remedy = (
        "Put its config.json, model.safetensors and tokenizer files in a directory and pass "
        f"hf/FOLDER; connect once, which fills {hub_cache()}; or pass weights=None with a type "
        "such as hf/bert for random weights."
    )
    if not is_folder and not is_kept(rest, "config.json") and (reason := unreachable()):
        raise InputError(f"{failure} ({reason}). {remedy}")
    try:
        with tensors_only(f"hf/{rest}"), quiet():
            return read()
    except (FileFormatError, ImportError):
        raise
    except Exception as error:  # of transformers, by what is in config.json
        if is_folder:
            raise _unusable(rest, error) from error
        raise InputError(f"{failure} ({one_line(error)}). {remedy}") from error


def _unusable(rest: str, error: Exception) -> FileFormatError:
    return FileFormatError(
        f"{rest}: not a directory written by save_pretrained of transformers "
        f"({one_line(error)}). Write it again."
    )


def _takes(network: Any) -> str:
    main = network.main_input_name
    if main == "pixel_values":
        return "images"
    if main == "input_ids":
        return "images and text" if hasattr(network.config, "vision_config") else "text"
    return "sound"


def _example(network: nn.Module) -> dict[str, Tensor]:
    """Return inputs that the network accepts."""
    config: Any = network.config
    ids = torch.ones(1, 8, dtype=torch.long)
    main = str(network.main_input_name)
    if main == "pixel_values":
        return {main: torch.zeros(1, getattr(config, "num_channels", 3), *_size(config))}
    if main == "input_values":
        return {main: torch.zeros(1, 16_000)}
    inputs = {"input_ids": ids}
    if main == "input_features":
        length = 2 * getattr(config, "max_source_positions", 1500)
        inputs = {main: torch.zeros(1, getattr(config, "num_mel_bins", 80), length)}
    if hasattr(config, "vision_config"):
        inputs["pixel_values"] = torch.zeros(1, 3, *_size(config.vision_config))
    return inputs | ({"decoder_input_ids": ids} if config.is_encoder_decoder else {})


def _size(config: Any) -> tuple[int, int]:
    size = getattr(config, "image_size", None) or 224
    return (size, size) if isinstance(size, int) else (size[0], size[1])


def _pictures(library: Any, source: str | None, network: nn.Module) -> Callable[[Any], Any]:
    """Return the preprocessing beside the weights, otherwise one to values of -1 to 1."""
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
    except Exception as error:  # of transformers, by what is in preprocessor_config.json
        raise _unusable(source, error) from error
    return lambda images: processor(images=list(images), return_tensors="pt")["pixel_values"]


def _sentences(library: Any, source: str | None, network: nn.Module) -> Callable[[Any], Any]:
    """Return the tokenizer beside the weights, padding to the longest sentence of a batch.

    Decoders read the sentence itself.
    """
    tokenizer = None if source is None else _tokenizer(library, source)
    if tokenizer is None:
        return _no_tokenizer
    config: Any = network.config
    # Some networks keep two positions for padding; tokenizers without a limit claim one of 10³⁰.
    positions = (getattr(config, "max_position_embeddings", None) or LONGEST + 2) - 2
    longest = min(tokenizer.model_max_length, positions, LONGEST)
    how = {"padding": True, "truncation": True, "max_length": longest, "return_tensors": "pt"}

    def make(sentences: list[str]) -> dict[str, Tensor]:
        found = dict(tokenizer(sentences, **how))
        if config.is_encoder_decoder:
            found |= {f"decoder_{key}": found[key] for key in ("input_ids", "attention_mask")}
        return found

    return make


def _tokenizer(library: Any, source: str) -> Any:
    """Return a tokenizer, or None: without files transformers makes one of special tokens only."""
    try:
        tokenizer = library.AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    except (OSError, ValueError):
        return None
    except Exception as error:  # of tokenizers, by what is in tokenizer.json
        raise _unusable(source, error) from error
    if len(tokenizer) <= len(tokenizer.all_special_ids):
        return None
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def _no_tokenizer(sentences: object) -> Any:
    raise InputError(
        "this network has no tokenizer for sentences. Pass a directory that has one, as hf/FOLDER "
        "(tokenizer.save_pretrained writes it beside the weights), or transform=FUNCTION, from "
        "sentences to a mapping with input_ids."
    )


def _nothing(library: Any, source: str | None, network: nn.Module) -> Callable[[Any], Any]:
    """Return a function that `data` never calls, since no data of the catalog fits."""
    return _no_tokenizer
