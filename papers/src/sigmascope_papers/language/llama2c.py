"""Reading the model and the vocabulary of llama2.c, which are two files of plain numbers.

`model.bin` (version 0): seven int32 (width, hidden width, layers, heads, key-value heads,
vocabulary, longest sequence), then the weights in float32 in a fixed order; a negative vocabulary
says that the output layer is not the embedding. `tokenizer.bin`: the length of the longest piece,
then for each piece its score (float32), its length (int32) and its bytes.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sigmascope.errors import FileFormatError

HEADER = struct.Struct("<7i")
BOS = 1
WORD = re.compile(r" *[^ ]+| +")
FIRST_BYTE = 3  # the pieces <0x00> to <0xFF> come after <unk>, <s> and </s>


@dataclass(frozen=True)
class Shape:
    """The sizes of a network."""

    width: int
    hidden: int
    layers: int
    heads: int
    groups: int
    vocabulary: int
    longest: int
    tied: bool


def split_files(content: bytes, length: int) -> tuple[bytes, bytes]:
    """Return the model and the vocabulary that a bundle holds one after the other."""
    if not HEADER.size < length < len(content):
        raise FileFormatError(
            f"the bundle has {len(content)} bytes, and its model should have {length}."
        )
    return content[:length], content[length:]


def read_model(content: bytes) -> tuple[Shape, dict[str, Tensor]]:
    """Return the shape and the tensors of a network, by the names used in transformers.

    Raises:
        FileFormatError: sizes that cannot be, or another number of weights.
    """
    if len(content) < HEADER.size:
        raise FileFormatError(f"a model of llama2.c has at least {HEADER.size} bytes.")
    width, hidden, layers, heads, groups, vocabulary, longest = HEADER.unpack_from(content)
    shape = Shape(width, hidden, layers, heads, groups, abs(vocabulary), longest, vocabulary > 0)
    sizes = (width, hidden, layers, heads, groups, abs(vocabulary), longest)
    if min(sizes) < 1 or width % heads or heads % groups or (len(content) - HEADER.size) % 4:
        raise FileFormatError(f"not a model of llama2.c: it begins with the sizes {sizes}.")
    values = torch.from_numpy(np.frombuffer(content, "<f4", offset=HEADER.size).copy())
    return shape, _named(values, shape)


def _named(values: Tensor, shape: Shape) -> dict[str, Tensor]:
    head = shape.width // shape.heads
    narrow = shape.groups * head
    layers, width = shape.layers, shape.width
    rows: list[tuple[str, tuple[int, ...]]] = [
        ("embed", (shape.vocabulary, width)),
        ("input_layernorm", (layers, width)),
        ("self_attn.q_proj", (layers, width, width)),
        ("self_attn.k_proj", (layers, narrow, width)),
        ("self_attn.v_proj", (layers, narrow, width)),
        ("self_attn.o_proj", (layers, width, width)),
        ("post_attention_layernorm", (layers, width)),
        ("mlp.gate_proj", (layers, shape.hidden, width)),
        ("mlp.down_proj", (layers, width, shape.hidden)),
        ("mlp.up_proj", (layers, shape.hidden, width)),
        ("norm", (width,)),
        # tables of the rotation, which every reader computes again
        ("angles", (2, shape.longest, head // 2)),
    ]
    rows += [] if shape.tied else [("head", (shape.vocabulary, width))]
    expected = sum(int(np.prod(size)) for _, size in rows)
    if expected != len(values):
        raise FileFormatError(
            f"a model of llama2.c of this shape has {expected} weights; the file has {len(values)}."
        )
    parts = torch.split(values, [int(np.prod(size)) for _, size in rows])
    found = {name: part.view(size) for (name, size), part in zip(rows, parts, strict=True)}
    tensors = {"model.embed_tokens.weight": found["embed"], "model.norm.weight": found["norm"]}
    tensors["lm_head.weight"] = found["embed"] if shape.tied else found["head"]
    for name, stack in found.items():
        if "layernorm" in name or "proj" in name:
            for number, one in enumerate(stack):
                tensors[f"model.layers.{number}.{name}.weight"] = one
    return tensors


class Vocabulary:
    """Pieces with scores, which are merged greedily, the best pair first.

    Raises:
        FileFormatError: cut off.

    >>> pieces = [b"<unk>", b"<s>", b"</s>", *(b"<%d>" % n for n in range(256)), b" ", b"a", b" a"]
    >>> content = struct.pack("<i", 5)
    >>> for number, piece in enumerate(pieces):
    ...     content += struct.pack("<fi", number, len(piece)) + piece
    >>> vocabulary = Vocabulary(content, len(pieces))
    >>> vocabulary.encode("aé"), vocabulary.decode([1, 261, 198, 172])
    ([1, 261, 198, 172], 'aé')
    """

    def __init__(self, content: bytes, size: int) -> None:
        self._pieces: list[bytes] = []
        self._scores: list[float] = []
        self._known: dict[str, list[int]] = {}
        at = 4
        for _ in range(size):
            if len(content) < at + 8:
                raise FileFormatError("the vocabulary of llama2.c is cut off.")
            score, length = struct.unpack_from("<fi", content, at)
            piece = content[at + 8 : at + 8 + length]
            if length < 0 or len(piece) != length:
                raise FileFormatError("the vocabulary of llama2.c is cut off.")
            self._pieces.append(piece)
            self._scores.append(score)
            at += 8 + length
        self._numbers = {piece: number for number, piece in enumerate(self._pieces)}

    def encode(self, text: str) -> list[int]:
        """Return the numbers of the pieces of a text, after that of its beginning.

        Words are merged one by one: no piece has a space behind another letter.
        """
        words = WORD.findall(f" {text}")
        return [BOS, *(number for word in words for number in self._word(word))]

    def _word(self, word: str) -> list[int]:
        if word in self._known:
            return self._known[word]
        found: list[int] = []
        for letter in word:
            number = self._numbers.get(letter.encode())
            found += [FIRST_BYTE + byte for byte in letter.encode()] if number is None else [number]
        while (best := self._best(found)) is not None:
            place, merged = best
            found[place : place + 2] = [merged]
        self._known[word] = found
        return found

    def _best(self, numbers: list[int]) -> tuple[int, int] | None:
        """Return where two neighbors form the piece with the highest score, and its number."""
        pairs = (
            (self._scores[merged], -place, merged)
            for place in range(len(numbers) - 1)
            if (merged := self._merged(numbers[place], numbers[place + 1])) is not None
        )
        best = max(pairs, default=None)
        return None if best is None else (-best[1], best[2])

    def _merged(self, one: int, other: int) -> int | None:
        return self._numbers.get(self._pieces[one] + self._pieces[other])

    def decode(self, numbers: list[int]) -> str:
        """Return the text of pieces."""
        raw = b"".join(
            bytes([number - FIRST_BYTE])
            if FIRST_BYTE <= number < FIRST_BYTE + 256
            else self._pieces[number]
            for number in numbers
            if number >= FIRST_BYTE
        )
        return raw.decode("utf-8", errors="replace").removeprefix(" ")
