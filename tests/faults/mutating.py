"""Files changed at random: what a disk, a network or an enemy does to them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

INTERESTING = b'\x00\xff\x7f\x80\n"\\{}[],:0919-eE.ut \x1b\xc3\xe2'


def flipped(data: bytes, place: int, bit: int) -> bytes:
    """Return the data with one bit inverted."""
    return data[:place] + bytes([data[place] ^ (1 << bit)]) + data[place + 1 :]


def _flip(data: bytes, draw: random.Random) -> bytes:
    return flipped(data, draw.randrange(len(data)), draw.randrange(8))


def _replace(data: bytes, draw: random.Random) -> bytes:
    start, end = _block(data, draw, 4)
    return data[:start] + bytes(draw.choices(INTERESTING, k=end - start)) + data[end:]


def _truncate(data: bytes, draw: random.Random) -> bytes:
    return data[: draw.randrange(len(data))]


def _insert(data: bytes, draw: random.Random) -> bytes:
    start = draw.randrange(len(data) + 1)
    return data[:start] + bytes(draw.choices(INTERESTING, k=draw.randint(1, 9))) + data[start:]


def _duplicate(data: bytes, draw: random.Random) -> bytes:
    start, end = _block(data, draw)
    return data[:end] + data[start:]


def _remove(data: bytes, draw: random.Random) -> bytes:
    start, end = _block(data, draw)
    return data[:start] + data[end:]


def _swap(data: bytes, draw: random.Random) -> bytes:
    a, b, c, d = sorted(draw.randrange(len(data) + 1) for _ in range(4))
    return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


def _zero(data: bytes, draw: random.Random) -> bytes:
    start, end = _block(data, draw)
    return data[:start] + bytes(end - start) + data[end:]


def _lines(data: bytes, draw: random.Random) -> bytes:
    """Repeat, remove or swap whole lines."""
    lines = data.splitlines(keepends=True)
    one, other = draw.randrange(len(lines)), draw.randrange(len(lines))
    kind = draw.randrange(3)
    if kind == 0:
        lines.insert(other, lines[one])
    elif kind == 1:
        del lines[one]
    else:
        lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


def _block(data: bytes, draw: random.Random, most: int = 64) -> tuple[int, int]:
    start = draw.randrange(len(data))
    return start, min(len(data), start + draw.randint(1, most))


MUTATIONS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _flip,
    _replace,
    _truncate,
    _insert,
    _duplicate,
    _remove,
    _swap,
    _zero,
    _lines,
)


def mutations(data: bytes, count: int, seed: int) -> Iterator[bytes]:
    """Yield so many changed versions of a file, one in four of them changed twice."""
    draw = random.Random(seed)
    for _ in range(count):
        changed = draw.choice(MUTATIONS)(data, draw)
        if changed and draw.random() < 0.25:
            changed = draw.choice(MUTATIONS)(changed, draw)
        yield changed
