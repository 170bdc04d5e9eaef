"""`sigmascope align`: two networks by name, brought into the same coordinates."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sigmascope import choices
from sigmascope.cli import options
from sigmascope.cli.output import counted, directory, emit, inform, json_option, say, written
from sigmascope.cli.program import DONE

if TYPE_CHECKING:
    from torch import nn

    from sigmascope.catalog.entry import Model
    from sigmascope.symmetry.aligning.result import Alignment
    from sigmascope.symmetry.barriers import Barrier

NAME = "align"
WEIGHTS = "aligned.safetensors"
EXAMPLES = (
    "sigmascope align sigmascope/myrtle:0 sigmascope/myrtle:1 --data embedded -o aligned",
    "sigmascope align torchvision/resnet18 torchvision/resnet18 --weights a.pt b.pt --data cifar10",
)


@click.command(
    short_help="Align two networks and draw the barrier between them.",
    epilog=options.examples(*EXAMPLES),
)
@options.network("a", metavar="A")
@options.network("b", metavar="B")
@options.option(
    "--weights",
    "Weights of A and of B, each default, none (random, of B with the next seed) or FILE.",
    ("default", "default"),
    nargs=2,
    metavar="A B",
)
@options.data("embedded")
@options.split
@options.limit
@options.count("--batch-size", "Samples per forward pass.", 128)
@options.choice("--by", choices.Matching, "What channels are matched by.", "weights")
@options.count("--points", "Points on the line between the networks.", 11, minimum=3)
@options.count("--controls", "Shuffled networks to align too, as a control.", 1, minimum=0)
@options.device
@options.seed
@options.out("OUT", "Directory for the tables, the figure and the aligned weights.")
@json_option
def align(a: str, b: str, out: str | None, as_json: bool, **given: Any) -> int:
    """Bring network B onto network A by its symmetries, and measure the barrier between them.

    Networks are given by their names in the catalog and must have one architecture; two files with
    weights of the same network by --weights. Prints the
    similarity of each layer before and after, and loss and accuracy along the straight line between
    the networks. Writes barrier.svg and barrier.png with the data in barrier.csv, the table of
    layers, layers.csv, and the weights of B after aligning, aligned.safetensors.
    """
    folder = directory(out) if out else None
    found, line, network = _aligned((a, b), given)
    paths = _write(found, line, network, folder) if folder else []
    if as_json:
        request, files = {"networks": [a, b], **given}, list(map(str, paths))
        content = {
            "alignment": {**found.to_dict(), "objectives": found.objective, "alike": found.alike},
            "barrier": {"points": line.points, "curves": line.curves},
        }
        emit(NAME, {"request": request, "written": files, **content})
    else:
        say(f"{found!r}\n\n{line!r}")
        if paths:
            say("")
            written(paths)
    return DONE


def _aligned(names: tuple[str, str], given: dict[str, Any]) -> tuple[Alignment, Barrier, nn.Module]:
    from dataclasses import replace

    from sigmascope.catalog.datasets import data
    from sigmascope.runs.network import checked_device
    from sigmascope.symmetry import UnmovableError, align as bring, barrier

    device = checked_device(given["device"])
    (first, second), titles = _networks(names, given["weights"], given["seed"])
    chosen = {name: given[name] for name in ("split", "batch_size", "limit", "seed")}
    samples = data(given["data"], root=given["data_root"], transform=first.transform, **chosen)
    inform(f"Aligning {titles[1]} to {titles[0]} by {given['by']}")
    a, b = (entry.network.to(device) for entry in (first, second))
    try:
        found = bring(a, b, samples, by=given["by"], controls=given["controls"])
    except UnmovableError as refusal:
        raise UnmovableError(
            f"networks such as {names[0]} cannot be aligned, as their channels cannot be followed: "
            f"{refusal}"
        ) from None
    found = replace(found, networks=titles)
    inform(f"Following the line between them on {counted(samples.size, 'sample')}")
    line = barrier(a, b, samples, alignment=found, points=given["points"])
    return found, line, found.apply(b)


def _networks(
    names: tuple[str, str], weights: tuple[str, str], seed: int
) -> tuple[tuple[Model, Model], tuple[str, str]]:
    """Return two networks, and what to call them."""
    from sigmascope.catalog.models import model

    found, titles = [], []
    for number, (name, own) in enumerate(zip(names, weights, strict=True)):
        random = own == "none"
        found.append(model(name, weights=None if random else own, seed=seed + number * random))
        titles.append(name if own == "default" else f"{name} ({Path(own).name})")
    return (found[0], found[1]), (titles[0], titles[1])


def _write(found: Alignment, line: Barrier, network: nn.Module, folder: Path) -> list[Path]:
    from safetensors.torch import save

    from sigmascope.figures import draw_barrier
    from sigmascope.store.files import write_atomic

    drawn = draw_barrier(line)
    paths = [drawn.save(folder / f"barrier.{ending}") for ending in ("svg", "png")]
    table, weights = folder / "layers.csv", folder / WEIGHTS
    rows = [
        f'"{layer}",{found.similarity_before[layer]!r},{value!r}'
        for layer, value in found.similarity.items()
    ]
    write_atomic(table, "\n".join(["layer,before,aligned", *rows, ""]).encode())
    tensors = {name: one.detach().cpu().contiguous() for name, one in network.state_dict().items()}
    write_atomic(weights, save(tensors))
    return [*paths, folder / "barrier.csv", table, weights]
