"""How linear the blocks of a transformer are: one row per block, printed as a table."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sigmascope.capture.block_watching import BLOCK, Key
from sigmascope.checks import check_choice
from sigmascope.errors import UnknownSiteError
from sigmascope.maths.estimate import Estimate
from sigmascope.store import decode, encode, read_json, write_json
from sigmascope.tables import Columns, Table, Tabular, number

if TYPE_CHECKING:
    from sigmascope.figures.drawn import Drawn

KIND, VERSION = "blocks", 1
MEASURES = (
    "activation",
    "feed_forward",
    "increment",
    "stream",
    "procrustes",
    "procrustes_increment",
    "influence",
)
"""The measures of a block, in the order of the table."""
MEANING = (
    "activation: population affinity score of the activation in the feed-forward part",
    "feed_forward, increment, stream: R² of the best linear map with intercept, fitted to one half "
    "of the sequences, on the other half: of the feed-forward part from its own input; of the "
    "block's y - x, and of y, from x. The stream y contains x, which raises its R²",
    "procrustes, procrustes_increment: 1 - min ‖XA - Y‖² of centered, normalized X and Y, on the "
    "half that was fitted to (arXiv:2405.12250)",
    "influence: 1 - mean cosine of x and y (arXiv:2403.03853)",
)
FEW = 5
"""Tokens per channel below which a held-out R² is noticeably too low."""
LISTED = 6


@dataclass(frozen=True)
class Block:
    """One block of a network, and how linear it is on data.

    Attributes:
        path: of its module.
        call: which call of the module in a pass, from 0.
        kind: the class of its module.
        width: channels of its input.
        site: the activation whose score is given; empty where there is none.
        fitted, held_out: tokens that maps were fitted to, and tokens of the R².
        ridge, feed_forward_ridge: added to the variance of each input in the fit of the block and
            of the feed-forward part, as a share of it; 0 for plain least squares.
        activation: the population score of the activation, see `Site.population`.
        feed_forward: R² of the feed-forward part, held out.
        increment: R² of y - x from x, held out.
        stream: R² of y from x, held out.
        procrustes, procrustes_increment: the linearity of y, and of y - x, with x where the map was
            fitted.
        influence: 1 - the mean cosine of x and y, on all tokens.

    >>> import torch
    >>> import sigmascope as sg
    >>> _ = torch.manual_seed(0)
    >>> layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> network = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    >>> block = sg.blocks(network, torch.randn(64, 10, 8))["layers.1"]
    >>> block.kind, block.width, block.site, block.fitted + block.held_out
    ('TransformerEncoderLayer', 8, 'layers.1', 640)
    """

    path: str
    call: int
    kind: str
    width: int
    site: str
    fitted: int
    held_out: int
    ridge: float
    feed_forward_ridge: float
    activation: Estimate
    feed_forward: Estimate
    increment: Estimate
    stream: Estimate
    procrustes: Estimate
    procrustes_increment: Estimate
    influence: Estimate

    @property
    def name(self) -> str:
        """The path, followed by `#1` for the second call of the module."""
        return f"{self.path}#{self.call}" if self.call else self.path

    @property
    def key(self) -> Key:
        """By which the passes know it."""
        return self.path, self.call, BLOCK


@dataclass(frozen=True, repr=False)
class Blocks(Tabular):
    """How linear the blocks of a network are; see `sigmascope.blocks`.

    It prints itself as a table, iterates over its blocks, and `blocks["model.layers.3"]` is the
    block of that name.

    Attributes:
        name: of the network.
        blocks: in order of execution.
        sequences: how many the data has.
        notes: what a reader should know.
        device: where the network ran.
        versions: of Python and the packages that the numbers may depend on.

    >>> import torch
    >>> import sigmascope as sg
    >>> _ = torch.manual_seed(0)
    >>> layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> network = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    >>> found = sg.blocks(network, torch.randn(64, 10, 8))
    >>> [block.name for block in found], found.values("stream").shape
    (['layers.0', 'layers.1'], (2,))
    """

    name: str
    blocks: tuple[Block, ...]
    sequences: int
    notes: tuple[str, ...]
    device: str
    versions: dict[str, str]

    def __len__(self) -> int:
        return len(self.blocks)

    def __iter__(self) -> Iterator[Block]:
        return iter(self.blocks)

    def __getitem__(self, name: str) -> Block:
        """Return a block by its name.

        Raises:
            UnknownSiteError: no such block; the message suggests the nearest names.
        """
        known = {block.name: block for block in self.blocks}
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=3, cutoff=0.4) or list(known)[:3]
            raise UnknownSiteError(
                f"{name!r} is not one of the {len(known)} blocks of {self.name}. The nearest names "
                f"are {', '.join(map(repr, near))}."
            )
        return known[name]

    def values(self, measure: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return one measure of all blocks, in order; NaN where there is none.

        Args:
            measure: one of `MEASURES`, such as "increment".
        """
        check_choice("measure", measure, MEASURES)
        return np.array([float(getattr(block, measure)) for block in self.blocks])

    def plot(self) -> Drawn:
        """Draw the measures by depth, with intervals; see `sigmascope.figures.draw_blocks`."""
        from sigmascope.figures.blocks import draw_blocks

        return draw_blocks(self)

    def save(self, path: str | Path) -> Path:
        """Write the result to a JSON file, atomically, and return its path; see `load`."""
        write_json(path, KIND, VERSION, encode(self))
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> Blocks:
        """Return what `save` wrote.

        Raises:
            FileNotFoundError: no such file.
            FileFormatError: not a file of blocks, corrupt, or newer than this version.
        """
        return decode(cls, read_json(path, KIND, VERSION), f"{path}: content")

    def _columns(self) -> Columns:
        columns: dict[str, Sequence[Any]] = {"block": [block.name for block in self.blocks]}
        for measure in MEASURES:
            found = [getattr(block, measure) for block in self.blocks]
            columns[measure] = [one.value for one in found]
            columns[f"{measure}_low"] = [one.low for one in found]
            columns[f"{measure}_high"] = [one.high for one in found]
        for name in ("width", "fitted", "held_out", "ridge", "feed_forward_ridge"):
            columns[name] = [getattr(block, name) for block in self.blocks]
        columns["site"] = [block.site for block in self.blocks]
        return columns

    def _tables(self) -> list[Table]:
        columns: dict[str, Sequence[Any]] = {"block": [block.name for block in self.blocks]}
        for measure in MEASURES:
            columns[measure] = [_with_half_width(getattr(one, measure)) for one in self.blocks]
        count = len(self.blocks)
        title = (
            f"{self.name}: {count} block{'s' * (count != 1)}, {self.sequences} sequences; "
            "± half the width of the 95 % interval"
        )
        return [Table(columns, title, [*self._tokens(), *MEANING, *self._warnings()])]

    def _tokens(self) -> list[str]:
        if not self.blocks:
            return []
        fitted, held_out = (
            sorted({getattr(block, name) for block in self.blocks})
            for name in ("fitted", "held_out")
        )
        told = [f"{_range(fitted)} tokens to fit, {_range(held_out)} held out"]
        ridged = [one.name for one in self.blocks if one.ridge or one.feed_forward_ridge]
        if ridged:
            ridge = max(max(one.ridge, one.feed_forward_ridge) for one in self.blocks)
            told.append(
                f"a ridge of {ridge:g} of the variance of each input, where inputs are linearly "
                f"dependent: {_some(ridged)}"
            )
        return told

    def _warnings(self) -> list[str]:
        notes = [*self.notes]
        few = [one.name for one in self.blocks if one.fitted < FEW * one.width]
        if few:
            notes.append(
                f"fewer than {FEW} tokens per channel to fit, so that R² is too low and Procrustes "
                f"linearity too high: {_some(few)}"
            )
        reasons: dict[str, list[str]] = {}
        for block in self.blocks:
            for measure in MEASURES:
                found: Estimate = getattr(block, measure)
                if math.isnan(found.value) and found.reason:
                    reasons.setdefault(f"no {measure}: {found.reason}", []).append(block.name)
        notes += [f"{reason} ({_some(names)})" for reason, names in reasons.items()]
        return [f"note: {note}" for note in notes]


def _with_half_width(found: Estimate) -> str:
    if math.isnan(found.value):
        return "–"
    if math.isnan(found.low):
        return number(found.value)
    return f"{number(found.value)} ± {number((found.high - found.low) / 2)}"


def _range(counts: list[int]) -> str:
    return f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"


def _some(names: list[str]) -> str:
    more = len(names) - LISTED
    return ", ".join(names[:LISTED]) + (f" and {more} more" if more > 0 else "")
