"""What is measured on the language models, or read: blocks, and what replacing them costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sigmascope.capture.block_finding import find_blocks
from sigmascope.errors import InputError
from sigmascope.maths.linear_map import LinearMap
from sigmascope.measure.batches import run_forward
from sigmascope.measure.block_passes import BlockPasses
from sigmascope.measure.block_result import Blocks
from sigmascope.measure.blocks import blocks_and_maps
from sigmascope.measure.options import Options
from sigmascope.measure.signature import signature
from sigmascope.store import decode, encode, read_json, write_json
from sigmascope_papers.language.models import LanguageModel, language_model
from sigmascope_papers.language.perplexity import losses_of, perplexity
from sigmascope_papers.language.stories import stories
from sigmascope_papers.language.texts import Batch, batches, interleaved, sequences, shuffled, texts
from sigmascope_papers.setting import NOWHERE, Setting

LENGTH, ROUNDS, BATCH = 128, 4, 16
SCORED = 2  # batches of which the activations are scored
JUDGED = 16  # held-out sequences on which replacements are judged
KIND, VERSION = "block-replacements", 1
FOLDER = "language"
CAST: dict[str, tuple[str, str]] = {
    "MiniLM-L6 on documentation": ("minilm", "documentation"),
    "SmolLM2-135M on documentation": ("smollm2", "documentation"),
    "TinyStories-15M on documentation": ("tinystories", "documentation"),
    "TinyStories-15M on stories": ("tinystories", "stories"),
}
"""What is measured -> the model and the text."""


@dataclass(frozen=True)
class Replacements:
    """The loss of a language model with each block replaced by its linear map.

    Attributes:
        name: of the measurement.
        blocks: the names of the blocks, in order.
        predictions: tokens that were predicted in each sequence.
        loss: sums over each sequence of the loss in nats, of the network as it is.
        replaced: the same with each block replaced.
        shuffled: the perplexity of the network where tokens are shuffled.
    """

    name: str
    blocks: tuple[str, ...]
    predictions: tuple[float, ...]
    loss: tuple[float, ...]
    replaced: tuple[tuple[float, ...], ...]
    shuffled: float

    def rises(self) -> Tensor:
        """Return the rise of the mean loss per token for each block (k,)."""
        change = torch.tensor(self.replaced) - torch.tensor(self.loss)
        return change.sum(dim=1) / sum(self.predictions)

    @property
    def mean_loss(self) -> float:
        """The mean loss per token of the network as it is."""
        return sum(self.loss) / sum(self.predictions)


def data_of(name: str) -> list[list[int]]:
    """Return the token sequences of a measurement."""
    model, source = CAST[name]
    if source == "stories":
        return stories(language_model(model), count=32 * ROUNDS, length=LENGTH)
    used = language_model(model)
    pages = [
        [one for one in sequences(used, [page], LENGTH) if len(one) == LENGTH]
        for page in texts(source)
    ]
    return interleaved(pages)[: 32 * ROUNDS]


ABSENT = "SmolLM2-135M is not in the store. Measure it: sigmascope reproduce NAME --from-scratch"


def available(setting: Setting) -> dict[str, tuple[Blocks, Replacements | None]]:
    """Return all measurements that are stored, or all, measured.

    Raises:
        InputError: none is stored, or the setting asks for other networks or data.
    """
    setting.refuse_others("language-…")
    names = [name for name in CAST if setting.from_scratch or _place(setting, name).is_file()]
    if not names:
        raise InputError(
            f"{setting.results / FOLDER} has no measurement. Measure them with --from-scratch."
        )
    return {name: measured(setting, name) for name in names}


def _place(setting: Setting, name: str) -> Path:
    """Return the file of a measurement, of which there is none without a directory to keep it."""
    home = setting.keep if setting.from_scratch else setting.results
    return (home or NOWHERE) / FOLDER / f"{name.replace(' ', '-')}.json"


def measured(setting: Setting, name: str) -> tuple[Blocks, Replacements | None]:
    """Return both results of a measurement, read or measured; None where nothing is predicted.

    Raises:
        InputError: it is not stored.
    """
    place = _place(setting, name)
    beside = place.with_name(f"{place.stem}-replaced.json")
    if place.is_file():
        return Blocks.load(place), _read(beside) if beside.is_file() else None
    if not setting.from_scratch:
        raise InputError(f"{place} is missing. Measure it again with --from-scratch.")
    found, replaced = measure(name, language_model(CAST[name][0]), data_of(name))
    if setting.keep is not None:
        place.parent.mkdir(parents=True, exist_ok=True)
        if replaced is not None:
            write_json(beside, KIND, VERSION, encode(replaced))
        found.save(place)  # last: with it both are complete
    return found, replaced


def _read(path: Path) -> Replacements:
    return decode(Replacements, read_json(path, KIND, VERSION), f"{path}: content")


def measure(
    name: str, model: LanguageModel, numbers: Sequence[list[int]]
) -> tuple[Blocks, Replacements | None]:
    """Return how linear the blocks of a model are, and what replacing each of them costs."""
    items = batches(numbers, BATCH)
    parts = find_blocks(model.network, model.blocks)
    options = Options(samples="tokens", estimator="population")
    body: Any = model.network.model if model.predicts else model.network
    # the output layer takes a fifth of the time, and has no block
    forward = partial(_run_body, body=body)
    scored = signature(model.network, items[:SCORED], options=options, forward=forward)
    passes = BlockPasses(model.network, parts, forward, options)
    found, maps = blocks_and_maps(passes, items, name=name, signature=scored)
    if not model.predicts:
        return found, None
    held_out = [*numbers[1::2]][:JUDGED]
    return found, replacements(name, model, maps, held_out)


def _run_body(network: object, batch: Batch, *, body: Any) -> object:
    return run_forward(body, batch)


def replacements(
    name: str, model: LanguageModel, maps: dict[str, LinearMap], numbers: Sequence[list[int]]
) -> Replacements:
    """Return the loss on sequences with each block replaced by its map, one at a time."""
    items = batches(numbers, BATCH)
    rows = {block: list[Tensor]() for block in maps}
    whole, counts = [], []
    for batch in items:
        before, states = _run_kept(model, batch, maps)
        whole.append(before)
        counts.append(batch["attention_mask"][:, 1:].sum(dim=1).double())
        for block, fitted in maps.items():
            rows[block].append(_run_replaced(model, batch, block, fitted, states[block]))
    mixed = perplexity(model, batches(shuffled(numbers, keep=1), BATCH))
    return Replacements(
        name,
        tuple(maps),
        tuple(torch.cat(counts).tolist()),
        tuple(torch.cat(whole).tolist()),
        tuple(tuple(torch.cat(one).tolist()) for one in rows.values()),
        mixed,
    )


def _run_kept(
    model: LanguageModel, batch: Batch, maps: dict[str, LinearMap]
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the losses (n,) of a batch, and what each block was given."""
    states: dict[str, Tensor] = {}

    def keep(block: str) -> Callable[..., None]:
        return lambda module, args: states.update({block: args[0].clone()})

    handles = [
        model.network.get_submodule(block).register_forward_pre_hook(keep(block)) for block in maps
    ]
    try:
        with torch.no_grad():
            losses = losses_of(model.network(**batch, use_cache=False).logits, batch)
    finally:
        for handle in handles:
            handle.remove()
    return losses, states


def _run_replaced(
    model: LanguageModel, batch: Batch, block: str, fitted: LinearMap, state: Tensor
) -> Tensor:
    """Return the losses (n,) with one block replaced; the blocks before it are not run again."""
    network: Any = model.network
    layers = network.model.layers
    number = int(block.rpartition(".")[2])
    image = fitted(state.double().flatten(0, 1)).view_as(state).to(state.dtype)
    network.model.layers = torch.nn.ModuleList([Given(image), *layers[number + 1 :]])
    try:
        with torch.no_grad():
            return losses_of(network(**batch, use_cache=False).logits, batch)
    finally:
        network.model.layers = layers


class Given(torch.nn.Module):
    """A block that returns the same whatever it is given."""

    def __init__(self, output: Tensor) -> None:
        super().__init__()
        self.output = output

    def forward(self, hidden: Tensor, **_: object) -> Tensor:
        """Return the output."""
        return self.output
