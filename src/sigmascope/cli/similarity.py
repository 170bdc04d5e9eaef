"""`sigmascope similarity`: two networks by name, compared layer by layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sigmascope.cli.output import emit, inform, json_option, say, written
from sigmascope.cli.program import DONE, PARTIAL

if TYPE_CHECKING:
    from sigmascope.catalog.datasets import Data
    from sigmascope.catalog.entry import Model
    from sigmascope.symmetry.layer_similarity import LayerSimilarity

__all__ = ["similarity"]

# They stand here too, since those of the library come with torch; a test compares them.
MEASURES, GROUPS, PAIRS = ("procrustes", "cka"), ("relu", "orthogonal"), ("all", "diagonal")
NORMALISERS, KERNELS, NORMALISE, DTYPES = (
    ("authors", "live"),
    ("max", "median"),
    ("channels", "none"),
    ("float64", "float32"),
)
# What goes to the library only if it is given: not every measure has all of them.
OWN = ("normaliser", "kernel", "normalise", "centered", "dtype")
COUNT = click.IntRange(min=1)
NAME = "similarity"


@click.command(short_help="Compare two networks layer by layer.")
@click.argument("one", metavar="A")
@click.argument("other", metavar="B")
@click.option(
    "--data",
    default="embedded",
    show_default=True,
    metavar="NAME",
    help="Data, see `sigmascope list data`.",
)
@click.option(
    "--data-root",
    metavar="DIR",
    help="Folder with the files of the data.  [default: $SIGMASCOPE_DATA, or data]",
)
@click.option("--split", default="test", show_default=True, help="Part of the data.")
@click.option("--limit", type=COUNT, metavar="N", help="Use only N samples, drawn evenly.")
@click.option(
    "--batch-size",
    default=500,
    show_default=True,
    type=COUNT,
    metavar="N",
    help="Samples that are run together.",
)
@click.option(
    "--measure",
    default="procrustes",
    show_default=True,
    type=click.Choice(MEASURES),
    help="Of similarity.",
)
@click.option(
    "--group",
    default="relu",
    show_default=True,
    type=click.Choice(GROUPS),
    help="What it does not see.",
)
@click.option(
    "--pairs",
    default="all",
    show_default=True,
    type=click.Choice(PAIRS),
    help="diagonal: layers at the same place.",
)
@click.option(
    "--normaliser",
    type=click.Choice(NORMALISERS),
    help="Of procrustes: how channels that are zero count.",
)
@click.option("--kernel", type=click.Choice(KERNELS), help="Of cka: over the channels.")
@click.option(
    "--normalise", type=click.Choice(NORMALISE), help="Of cka: each channel to norm 1, or not."
)
@click.option(
    "--centered/--uncentered",
    default=None,
    help="Of cka: whether the mean of each channel is taken off.",
)
@click.option("--dtype", type=click.Choice(DTYPES), help="Of the products.")
@click.option(
    "--device",
    default="auto",
    show_default=True,
    help="Where the networks run; auto: a GPU if there is one.",
)
@click.option(
    "--seed",
    default=0,
    show_default=True,
    type=click.IntRange(min=0),
    metavar="N",
    help="Of what is drawn.",
)
@click.option(
    "-o",
    "--out",
    metavar="OUT",
    type=click.Path(file_okay=False),
    help="Folder for the result and its figure.",
)
@json_option
def similarity(one: str, other: str, out: str | None, as_json: bool, **given: Any) -> int:
    """Compare every activation of network A with every activation of network B, by their names in
    the catalog.

    Prints similarities: 1 is alike, up to the symmetries of the group. Writes similarity.json, and
    the matrix as a figure, similarity.svg and similarity.png, with its data, similarity.csv; older
    ones are replaced.

    Ends with 3 where a pair of layers has no similarity, and says why.
    """
    _check_target(out)
    found = _compared(one, other, given)
    paths = _write(found, Path(out)) if out else []
    if as_json:
        emit(
            NAME,
            {
                "request": {"networks": [one, other], **given},
                "written": list(map(str, paths)),
                "similarity": found,
            },
        )
    else:
        say(repr(found))
        if paths:
            say("")
            written(paths)
    return PARTIAL if found.missing else DONE


def _compared(one: str, other: str, given: dict[str, Any]) -> LayerSimilarity:
    from sigmascope.catalog.models import model
    from sigmascope.symmetry.layers import compare

    entries = [_placed(model(name, seed=given["seed"]), given["device"]) for name in (one, other)]
    pairs = Pairs(*(_data(entry, given) for entry in entries))
    inform(f"Comparing {one} and {other} on {pairs.one.size} samples of {given['data']}")
    first, second = (entry.network for entry in entries)
    return compare(
        first,
        second,
        pairs,
        measure=given["measure"],
        group=given["group"],
        pairs=given["pairs"],
        names=(one, other),
        seed=given["seed"],
        **{name: given[name] for name in OWN if given[name] is not None},
        forward=lambda network, content: _run(
            network, content, "one" if network is first else "other"
        ),
    )


def _placed(entry: Model, device: str) -> Model:
    """Move a network to where it is to run."""
    import torch

    from sigmascope.errors import OptionError

    try:
        entry.network.to(
            ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
        )
    except (RuntimeError, AssertionError) as error:  # torch raises either, by how it was built
        told = str(error).partition("\n")[0]
        raise OptionError(
            f"device={device!r} cannot be used here ({told}). Choose 'auto' or 'cpu'."
        ) from error
    return entry


def _data(entry: Model, given: dict[str, Any]) -> Data:
    from sigmascope.catalog.datasets import data

    options = {name: given[name] for name in ("split", "batch_size", "limit", "seed")}
    return data(given["data"], root=given["data_root"], transform=entry.transform, **options)


@dataclass(frozen=True)
class Pairs:
    """The same samples as each of two networks takes them: they may ask for other sizes or colors."""

    one: Data
    other: Data

    def __len__(self) -> int:
        return len(self.one)

    def __iter__(self) -> Iterator[Any]:
        for one, other in zip(self.one, self.other, strict=True):
            if isinstance(one, Mapping) or isinstance(other, Mapping):
                _check_tokens(one, other)
                yield one
            else:
                yield {"one": one, "other": other}


def _check_tokens(one: Any, other: Any) -> None:
    """Refuse sentences that two networks cut into different tokens, which have no partners."""
    from sigmascope.errors import InputError
    from sigmascope.measure.batches import fingerprint_of_batch

    if fingerprint_of_batch(one) != fingerprint_of_batch(other):
        raise InputError(
            "the two networks read the samples as different tokens. Choose networks with one "
            "tokenizer."
        )


def _run(network: Any, content: Any, side: str) -> object:
    from sigmascope.measure.batches import run_forward

    return run_forward(network, content[side] if set(content) == {"one", "other"} else content)


def _check_target(out: str | None) -> None:
    """Refuse, before any work, to replace a file of somebody else."""
    path = Path(out or "") / f"{NAME}.json"
    if not out or not path.exists():
        return
    from sigmascope.errors import FileFormatError
    from sigmascope.symmetry.layer_similarity import LayerSimilarity

    try:
        LayerSimilarity.load(path)
    except FileFormatError as error:
        raise click.ClickException(
            f"{path} is there and holds no similarity of sigmascope. Give another folder "
            "with -o, or remove it first."
        ) from error


def _write(found: LayerSimilarity, folder: Path) -> list[Path]:
    from sigmascope.figures import draw_similarity

    folder.mkdir(parents=True, exist_ok=True)
    drawn = draw_similarity(found)
    pictures = [drawn.save(folder / f"{NAME}.{ending}") for ending in ("svg", "png")]
    return [found.save(folder / f"{NAME}.json"), *pictures, folder / f"{NAME}.csv"]
