"""The repeated blocks of a transformer, and the feed-forward part of each."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from sigmascope.capture.guard import plain_path
from sigmascope.capture.walk import modules_of
from sigmascope.errors import InputTypeError, NoBlockError

ATTENTION = re.compile(r"att(n|ention)", re.IGNORECASE)
FEED_FORWARD = re.compile(r"mlp|ffn|^ff$|feed_?forward|dense.*dense", re.IGNORECASE)
# The first and the last layer of a feed-forward part that is not one module, below its block.
PAIRS = (
    ("intermediate", "output.dense"),
    ("linear1", "linear2"),
    ("fc1", "fc2"),
    ("fc_in", "fc_out"),
    ("ffn", "ffn_output"),
    ("dense_h_to_4h", "dense_4h_to_h"),
)
CONTAINERS = (nn.ModuleList, nn.Sequential, nn.ModuleDict)
LINEAR = ("Linear", "Conv1D", "NonDynamicallyQuantizableLinear")


@dataclass(frozen=True)
class BlockPart:
    """A block of a network.

    Attributes:
        path: of its module.
        kind: the class of its module.
        start, end: the paths of the modules whose input and output are those of the feed-forward
            part, the same one as a rule; empty where there is none.
    """

    path: str
    kind: str
    start: str = ""
    end: str = ""


def find_blocks(
    network: nn.Module, patterns: str | Sequence[str] | None = None, feed_forward: str | None = None
) -> list[BlockPart]:
    """Return the blocks of a network, in the order of its modules.

    By default a block is a member of a `ModuleList` or `Sequential` that contains an attention
    module, by the name of its class or of its attribute, and contains no other block. Its
    feed-forward part is the outermost module without attention that is called mlp, ffn, ff or
    feed_forward, or a known pair of layers such as fc1 and fc2.

    Args:
        network: any.
        patterns: of the paths of blocks, where `*` stands for one name: "model.layers.*".
        feed_forward: the feed-forward part below each block, such as "mlp", or its first and last
            layer, "fc1:fc2".

    Raises:
        NoBlockError: no block was found, or a pattern fits nothing.
        InputTypeError: patterns of another type.

    >>> layer = nn.TransformerEncoderLayer(8, 2, 16)
    >>> network = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    >>> [block.path for block in find_blocks(network)]
    ['layers.0', 'layers.1']
    """
    modules = {plain_path(path): module for path, module in modules_of(network)}
    paths = _matching(modules, patterns) if patterns is not None else _found(modules)
    if not paths:
        raise NoBlockError(
            f"{type(network).__name__} has no transformer blocks: no ModuleList or Sequential "
            "holds modules with attention inside. Name the blocks: blocks='layers.*'."
        )
    if feed_forward is not None and not isinstance(feed_forward, str):
        raise InputTypeError(
            f"feed_forward must be a path below a block, such as 'mlp' or 'fc1:fc2', got "
            f"{feed_forward!r:.80}."
        )
    return [_described(modules, path, feed_forward) for path in paths]


def _matching(modules: dict[str, nn.Module], patterns: str | Sequence[str]) -> list[str]:
    several = (patterns,) if isinstance(patterns, str) else tuple(patterns)
    chosen: set[str] = set()
    for pattern in several:
        if not isinstance(pattern, str) or not pattern:
            raise InputTypeError(
                f"blocks must be a pattern or several, such as 'model.layers.*', got "
                f"{patterns!r:.80}."
            )
        wanted = re.compile(re.escape(pattern).replace(r"\*", r"[^.]+"))
        fitting = {path for path in modules if wanted.fullmatch(path)}
        if not fitting:
            near = difflib.get_close_matches(pattern, modules, n=3, cutoff=0.4)
            told = f" The nearest are {', '.join(map(repr, near))}." if near else ""
            raise NoBlockError(
                f"blocks={pattern!r} fits none of the {len(modules)} modules; * stands for one "
                f"name between dots.{told}"
            )
        chosen |= fitting
    return [path for path in modules if path in chosen]


def _found(modules: dict[str, nn.Module]) -> list[str]:
    attentive = {path for path in modules if _is_attention(modules, path)}
    candidates = [
        path
        for path, module in modules.items()
        if path
        and isinstance(modules.get(path.rpartition(".")[0]), CONTAINERS)
        and not isinstance(module, CONTAINERS)
        and not any(_is_within(path, one) for one in (*attentive,))
        and any(_is_within(one, path) for one in attentive)
    ]
    return [
        path
        for path in candidates
        if not any(other != path and _is_within(other, path) for other in candidates)
    ]


def _is_within(path: str, around: str) -> bool:
    return path == around or path.startswith(f"{around}.")


def _is_attention(modules: dict[str, nn.Module], path: str) -> bool:
    """Return whether a module is an attention by its class, or by its name and what it holds."""
    module, name = modules[path], path.rpartition(".")[2]
    if not path or isinstance(module, CONTAINERS):
        return False
    if isinstance(module, nn.MultiheadAttention):
        return True
    named = ATTENTION.search(type(module).__name__) or ATTENTION.search(name)
    return bool(named) and any(type(one).__name__ in LINEAR for one in module.modules())


def _described(modules: dict[str, nn.Module], path: str, feed_forward: str | None) -> BlockPart:
    kind = type(modules[path]).__name__
    start, end = _feed_forward(modules, path, feed_forward)
    return BlockPart(path, kind, start, end)


def _feed_forward(modules: dict[str, nn.Module], block: str, given: str | None) -> tuple[str, str]:
    """Return the first and the last module of a feed-forward part; empty where there is none."""
    prefix = f"{block}." if block else ""
    if given is not None:
        first, _, last = given.partition(":")
        start, end = prefix + first, prefix + (last or first)
        for path in (start, end):
            if path not in modules:
                raise NoBlockError(
                    f"feed_forward={given!r}: there is no module {path!r}. Name a module below a "
                    "block, or leave it out."
                )
        return start, end
    for path in modules:
        if path.startswith(prefix) and _is_feed_forward(modules, path, prefix):
            return path, path
    for first, last in PAIRS:
        for path in modules:
            if not path.startswith(prefix) or ATTENTION.search(path[len(prefix) :]):
                continue
            around = path.removesuffix(first)
            if path == around + first and around + last in modules:
                return path, around + last
    return "", ""


def _is_feed_forward(modules: dict[str, nn.Module], path: str, prefix: str) -> bool:
    module, below = modules[path], path[len(prefix) :]
    name = below.rpartition(".")[2]
    if not (FEED_FORWARD.search(name) or FEED_FORWARD.search(type(module).__name__)):
        return False
    if ATTENTION.search(below):
        return False
    inside = [one for one in modules if one.startswith(f"{path}.")]
    if any(_is_attention(modules, one) for one in inside):
        return False
    return sum(type(modules[one]).__name__ in LINEAR for one in inside) > 1
