"""`sigmascope similarity`: two networks by name, compared layer by layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sigmascope import choices
from sigmascope.cli import options
from sigmascope.cli.output import counted, directory, emit, inform, json_option, say, written
from sigmascope.cli.program import DONE, PARTIAL

if TYPE_CHECKING:
    from sigmascope.catalog.datasets import Data
    from sigmascope.catalog.entry import Model
    from sigmascope.symmetry.layer_similarity import LayerSimilarity

# Passed to the library only if given: each belongs to one of the measures.
OWN = ("normalizer", "kernel", "normalize", "centered", "dtype")
COMMON = ("measure", "group", "pairs", "seed")
NAME = "similarity"


EXAMPLES = ("sigmascope similarity sigmascope/resnet20 sigmascope/plain20 --measure cka",)


@click.command(
    short_help="Compare two networks layer by layer.", epilog=options.examples(*EXAMPLES)
)
@options.network("a", metavar="A")
@options.network("b", metavar="B")
@options.data("embedded")
@options.split
@options.limit
@options.count("--batch-size", "Samples per forward pass.", 500)
@options.choice("--measure", choices.Measure, "Measure of similarity.", "procrustes")
@options.choice("--group", choices.SimilarityGroup, "Symmetries to disregard.", "relu")
@options.choice("--pairs", choices.Pairs, "Pairs of layers; diagonal: same depth.", "all")
@options.choice("--normalizer", choices.Normalizer, "How Procrustes treats channels that are zero.")
@options.choice("--kernel", choices.Kernel, "Kernel used by CKA.")
@options.choice("--normalize", choices.ChannelNorm, "Whether CKA scales each channel to norm 1.")
@click.option(
    "--centered/--uncentered", default=None, help="Whether CKA subtracts the mean of each channel."
)
@options.choice("--dtype", choices.Precision, "Precision of the products.")
@options.device
@options.seed
@options.out("OUT", "Directory for the result and its figure.")
@json_option
def similarity(a: str, b: str, out: str | None, as_json: bool, **given: Any) -> int:
    """Compare every activation of network A with every activation of network B.

    Networks are given by their names in the catalog. Prints similarities: 1 means equal up to the
    symmetries of the group. Writes similarity.json, and the matrix as a figure, similarity.svg and
    similarity.png, with its data, similarity.csv; older ones are replaced.

    Exits with 3 if a pair of layers has no similarity, and says why.
    """
    folder = _checked_folder(out) if out else None
    found = _compared((a, b), given)
    paths = _write(found, folder) if folder else []
    if as_json:
        request, files = {"networks": [a, b], **given}, list(map(str, paths))
        emit(NAME, {"request": request, "written": files, "similarity": found})
    else:
        say(repr(found))
        if paths:
            say("")
            written(paths)
    return PARTIAL if found.missing else DONE


def _compared(names: tuple[str, str], given: dict[str, Any]) -> LayerSimilarity:
    from sigmascope.catalog.models import model
    from sigmascope.runs.network import checked_device
    from sigmascope.symmetry.layers import compare

    device = checked_device(given["device"])
    models = [model(name, seed=given["seed"]) for name in names]
    data = PairedData(*(_data(entry, given) for entry in models))
    samples = counted(data.a.size, "sample")
    inform(f"Comparing {names[0]} and {names[1]} on {samples} of {given['data']}")
    first, second = (entry.network.to(device) for entry in models)
    return compare(
        first,
        second,
        data,
        names=names,
        forward=lambda network, batch: _run(network, batch, "a" if network is first else "b"),
        **{name: given[name] for name in COMMON},
        **{name: given[name] for name in OWN if given[name] is not None},
    )


def _data(entry: Model, given: dict[str, Any]) -> Data:
    from sigmascope.catalog.datasets import data

    options = {name: given[name] for name in ("split", "batch_size", "limit", "seed")}
    return data(given["data"], root=given["data_root"], transform=entry.transform, **options)


@dataclass(frozen=True)
class PairedData:
    """The same samples as each of two networks takes them, which may differ in size or color."""

    a: Data
    b: Data

    def __len__(self) -> int:
        return len(self.a)

    def __iter__(self) -> Iterator[Any]:
        for a, b in zip(self.a, self.b, strict=True):
            if isinstance(a, Mapping) or isinstance(b, Mapping):
                _check_tokens(a, b)
                yield a
            else:
                yield {"a": a, "b": b}


def _check_tokens(a: Any, b: Any) -> None:
    """Raise if two networks split a sentence into different tokens, which cannot be paired."""
    from sigmascope.errors import InputError
    from sigmascope.measure.batches import fingerprint_of_batch

    if fingerprint_of_batch(a) != fingerprint_of_batch(b):
        raise InputError(
            "the two networks read the samples as different tokens. Choose networks that share a "
            "tokenizer."
        )


def _run(network: Any, batch: Any, side: str) -> object:
    from sigmascope.measure.batches import run_forward

    return run_forward(network, batch[side] if set(batch) == {"a", "b"} else batch)


def _checked_folder(out: str) -> Path:
    """Return a directory to write to, if no file of another program would be replaced."""
    from sigmascope.store import kind_of
    from sigmascope.symmetry.layer_similarity import KIND

    folder = directory(out)
    path = folder / f"{NAME}.json"
    if path.exists() and kind_of(path) != KIND:
        raise click.ClickException(
            f"{path} exists and is not a similarity file. Pass another directory with -o, or "
            "remove it first."
        )
    return folder


def _write(found: LayerSimilarity, folder: Path) -> list[Path]:
    from sigmascope.figures import draw_similarity

    drawn = draw_similarity(found)
    pictures = [drawn.save(folder / f"{NAME}.{ending}") for ending in ("svg", "png")]
    return [found.save(folder / f"{NAME}.json"), *pictures, folder / f"{NAME}.csv"]
