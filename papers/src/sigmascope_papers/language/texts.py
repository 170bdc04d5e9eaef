"""Real text: sentences of vaderSentiment, the documentation of Flask, and stories; as batches."""

from __future__ import annotations

import functools
import re
import tarfile
from collections.abc import Sequence

import torch
from torch import Tensor

from sigmascope.checks import check_choice
from sigmascope.errors import InputError
from sigmascope_papers.language.models import LanguageModel
from sigmascope_papers.language.packages import FLASK, VADER
from sigmascope_papers.real.packages import file, unpacked

SENTENCES = ("nytEditorialSnippets", "movieReviewSnippets", "amazonReviewSnippets")
"""The collections of vaderSentiment that are prose: newspapers, reviews of films and of goods."""
SOURCES = ("sentences", "documentation")


@functools.cache
def texts(source: str) -> tuple[str, ...]:
    """Return texts in a fixed order: "sentences", or pages of "documentation" without markup.

    Sentences of the three collections take turns, so that any number of the first ones is mixed.

    Raises:
        OptionError: another source.
    """
    check_choice("source", source, SOURCES)
    if source == "documentation":
        pages = sorted(unpacked(FLASK).rglob("*.rst"), key=lambda path: path.as_posix())
        return tuple(filter(None, (plain(page.read_text(encoding="utf-8")) for page in pages)))
    with tarfile.open(file(VADER, "hutto_ICWSM_2014.tar.gz")) as archive:
        collections = [_snippets(archive, name) for name in SENTENCES]
    turns = max(map(len, collections))
    return tuple(
        collection[turn]
        for turn in range(turns)
        for collection in collections
        if turn < len(collection)
    )


def _snippets(archive: tarfile.TarFile, name: str) -> list[str]:
    member = archive.extractfile(f"hutto_ICWSM_2014/{name}_GroundTruth.txt")
    if member is None:
        raise InputError(f"vaderSentiment has no collection {name}.")
    lines = member.read().decode("utf-8", errors="replace").splitlines()
    rows = [line.split("\t") for line in lines]
    return [row[-1].strip() for row in rows if len(row) > 2 and len(row[-1].split()) > 3]


def plain(page: str) -> str:
    r"""Return the paragraphs of a reStructuredText page that are prose.

    >>> plain("Title\n=====\n\nUse :func:`run` and *this*,\nplease do it.\n\n.. code::\n\n    x\n")
    'Use run and this, please do it.'
    """
    kept = []
    for paragraph in re.split(r"\n\s*\n", page):
        prose = " ".join(paragraph.split())
        is_code = paragraph.startswith((" ", "\t", "..")) or not re.search(r"[a-z]{2}", prose)
        if is_code or not prose.endswith((".", "!", "?", ":")) or len(prose.split()) < 6:
            continue
        prose = re.sub(r":\w+(?::\w+)?:`([^`<]*)(?: <[^`]*>)?`", r"\1", prose)
        prose = re.sub(r"`([^`<]*)(?: <[^`]*>)?`_{0,2}", r"\1", prose)
        kept.append(re.sub(r"``|\*+", "", prose).replace("~", ""))
    return "\n".join(kept)


Batch = dict[str, Tensor]


def sequences(model: LanguageModel, source: Sequence[str], length: int) -> list[list[int]]:
    """Return token sequences of at most this length: a short text is one, a long one several.

    Consecutive texts are not joined: a sequence is one text or one part of a text.
    """
    found = []
    for text in source:
        numbers = model.encode(text)
        room = length - (model.start is not None)
        for at in range(0, len(numbers), room):
            part = numbers[at : at + room]
            if len(part) > 1:
                found.append(part if model.start is None else [model.start, *part])
    return found


def batches(numbers: Sequence[Sequence[int]], size: int = 32) -> list[Batch]:
    """Return batches of sequences, padded on the right, with their attention masks."""
    found = []
    for at in range(0, len(numbers), size):
        some = numbers[at : at + size]
        longest = max(map(len, some))
        ids = torch.zeros(len(some), longest, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, one in enumerate(some):
            ids[row, : len(one)] = torch.tensor(one)
            mask[row, : len(one)] = 1
        found.append({"input_ids": ids, "attention_mask": mask})
    return found


def shuffled(numbers: Sequence[Sequence[int]], *, keep: int, seed: int = 0) -> list[list[int]]:
    """Return each sequence with its tokens in random order, behind the first `keep` ones."""
    generator = torch.Generator().manual_seed(seed)
    return [
        [*one[:keep], *(one[keep + int(place)] for place in order)]
        for one in numbers
        for order in [torch.randperm(len(one) - keep, generator=generator)]
    ]


def interleaved(pages: Sequence[Sequence[list[int]]], *, groups: int = 16) -> list[list[int]]:
    """Return the sequences of pages in an order in which halves and groups share no page.

    `sigmascope.blocks` fits to sequences with even numbers, and leaves out groups of sequences for
    its intervals: those with equal numbers modulo twice the number of groups. Each page is given to
    one of these places, the place with the fewest sequences so far. As many rounds are made as all
    places have sequences for.

    >>> interleaved([[[1], [1]], [[2], [2], [2]], [[3]]], groups=1)
    [[1], [2], [1], [2], [3], [2]]
    """
    places: list[list[list[int]]] = [[] for _ in range(2 * groups)]
    for page in pages:
        min(places, key=len).extend(page)
    return [place[turn] for turn in range(min(map(len, places))) for place in places]
