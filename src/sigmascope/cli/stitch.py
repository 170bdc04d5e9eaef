"""`sigmascope stitch`: the front of one network joined to the back of another, and what that costs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sigmascope.cli.output import emit, inform, json_option, say, written
from sigmascope.cli.program import Stopped
from sigmascope.cli.stitch_file import checked_file, finished_stitch, request_of, write_stitch

if TYPE_CHECKING:
    from sigmascope.catalog.entry import Model
    from sigmascope.stitching import StitchData, StitchResult

__all__ = ["AUGMENT", "FAMILIES", "OF_FAMILY", "PRESETS", "STYLES", "stitch"]

# The tables of the library come with torch; a test compares them.
FAMILIES = (
    "full",
    "low-rank",
    "lasso",
    "relu-group",
    "softsort",
    "identity",
    "least-squares",
    "permutation",
)
PRESETS = ("paper", "as-run", "fast")
AUGMENT = ("none", "flip-shift")
STYLES = ("auto", "conv", "linear")
# option -> the only family that reads it
OF_FAMILY = {"rank": "low-rank", "strength": "lasso", "alpha": "relu-group"}
AUGMENTED = ("cifar10", "cifar100")  # as in the paper, unless the front is cached

COUNT = click.IntRange(min=1)
NOT_NEGATIVE = click.FloatRange(min=0, max=math.inf, max_open=True)
# Option -> setting; only those that are given change the preset.
SETTINGS = {
    "rank": "rank",
    "strength": "strength",
    "alpha": "alpha",
    "epochs": "epochs",
    "head_start": "head_start",
    "batch_size": "batch",
    "rate": "rate",
    "select_on": "select_on",
    "front_mode": "front_mode",
}


def _finite(text: str) -> float:
    """Read a number; others are left to the settings, which refuse them."""
    if not math.isfinite(number := float(text)):
        raise ValueError(text)
    return number


# Type of a setting -> how its text is read.
READERS: dict[str, Callable[[str], Any]] = {
    "str": str,
    "int": int,
    "float": _finite,
    "bool": lambda text: {"true": True, "false": False}[text.lower()],
    "None": lambda text: {"none": None}[text.lower()],
}


@click.command(short_help="Stitch the front of one network to the back of another.")
@click.argument("front")
@click.argument("back")
@click.option(
    "--at",
    required=True,
    metavar="SITE",
    help="Where: an activation or module; a wrong name lists the choices.",
)
@click.option(
    "--data",
    required=True,
    metavar="NAME",
    help="Data with splits train and test, see `sigmascope list data`.",
)
@click.option(
    "--family",
    default="relu-group",
    show_default=True,
    type=click.Choice(FAMILIES),
    help="What the stitch may be.",
)
@click.option(
    "--preset",
    default="paper",
    show_default=True,
    type=click.Choice(PRESETS),
    help="How it is trained.",
)
@click.option("--rank", type=COUNT, metavar="N", help="Of low-rank.")
@click.option("--strength", type=NOT_NEGATIVE, metavar="X", help="Of lasso.")
@click.option(
    "--alpha",
    type=NOT_NEGATIVE,
    metavar="X",
    help="Of relu-group: how strongly it is drawn to permutations.",
)
@click.option(
    "--style",
    default="auto",
    show_default=True,
    type=click.Choice(STYLES),
    help="Channels: conv on axis 1, linear on the last.",
)
@click.option("--epochs", type=COUNT, metavar="N", help="Instead of those of the preset.")
@click.option(
    "--head-start", type=click.IntRange(min=0), metavar="N", help="Epochs without scales, of all."
)
@click.option("--batch-size", type=COUNT, metavar="N", help="Instead of that of the preset.")
@click.option(
    "--rate", type=NOT_NEGATIVE, metavar="X", help="Learning rate, instead of that of the preset."
)
@click.option(
    "--select-on",
    type=click.Choice(["validation", "test"]),
    help="What the best epoch is chosen by.",
)
@click.option(
    "--front-mode",
    type=click.Choice(["train", "eval"]),
    help="Whether batch norms of the front see the batch.",
)
@click.option(
    "--set",
    "others",
    multiple=True,
    metavar="NAME=VALUE",
    help="Any other setting; repeat for several. A wrong name lists them.",
)
@click.option(
    "--cache-front",
    metavar="memory|DIR",
    help="Keep what the front puts out; needs --front-mode eval.",
)
@click.option(
    "--augment",
    type=click.Choice(AUGMENT),
    help="Of training images.  [default: flip-shift for CIFAR]",
)
@click.option(
    "--data-root",
    metavar="DIR",
    help="Folder with the files of the data.  [default: $SIGMASCOPE_DATA, or data]",
)
@click.option("--limit", type=COUNT, metavar="N", help="Use only N training samples, drawn evenly.")
@click.option(
    "--test-limit", type=COUNT, metavar="N", help="Use only N test samples, drawn evenly."
)
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
    help="Of everything that is drawn.",
)
@click.option(
    "-o",
    "--out",
    metavar="FILE",
    type=click.Path(),
    help="FILE.json to write to; the stitch goes beside it.",
)
@json_option
def stitch(front: str, back: str, out: str | None, as_json: bool, **given: Any) -> None:
    """Stitch the front of network FRONT to the back of network BACK, both by their names in the
    catalog.

    Prints the stitching penalty: the mean accuracy of the two networks minus that of the stitched
    one. With a FILE.json as OUT this may be killed at any moment: the same command, on the same
    kind of device, goes on from the last epoch, and shows a finished stitch again. A file of
    another run is never replaced.
    """
    _check_family(given)
    target = checked_file(out) if out else None
    from sigmascope import catalog
    from sigmascope.runs.measuring import checked_device
    from sigmascope.stitching.settings import settings_for

    changes = _changes(given)
    settings = settings_for(given["preset"], given["family"], changes)
    given["device"] = checked_device(given["device"])
    models = catalog.model(front), catalog.model(back)
    request = request_of(models, given, settings=settings, augment=_augment(given))
    checkpoint = target.with_name(f".{target.stem}.checkpoint") if target else None
    result, paths = finished_stitch(target, request) if target else None, list[Path]()
    if result:
        inform(f"{target}: already there")
    else:
        result = _stitched(models, given, changes, checkpoint)
        paths = write_stitch(result, target, request) if target else []
    _show(result, paths, as_json)
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)


def _stitched(
    models: tuple[Model, Model],
    given: dict[str, Any],
    changes: dict[str, Any],
    checkpoint: Path | None,
) -> StitchResult:
    """Train, or go on where a run was stopped."""
    from sigmascope.stitching import stitch as stitched

    front, back = models
    try:
        return stitched(
            front.network.to(given["device"]),
            back.network.to(given["device"]),
            data=_data(front, given),
            cache_front={None: False, "memory": True}.get(
                given["cache_front"], given["cache_front"]
            ),
            checkpoint=checkpoint,
            names=(front.name, back.name),
            **{name: given[name] for name in ("at", "family", "preset", "style", "seed")},
            **changes,
        )
    except Stopped as stopped:
        kept = "Finished epochs are kept: the same command goes on from there."
        stopped.remedy = kept if checkpoint else "Nothing was written: no -o was given."
        raise


def _check_family(given: dict[str, Any]) -> None:
    """Refuse an option that the family would ignore."""
    for option, family in OF_FAMILY.items():
        if given[option] is not None and given["family"] != family:
            raise click.UsageError(
                f"--{option} belongs to --family {family}, and the family is {given['family']}."
            )


def _changes(given: dict[str, Any]) -> dict[str, Any]:
    """Return setting -> value, of the settings that are asked for."""
    found = {
        setting: given[option] for option, setting in SETTINGS.items() if given[option] is not None
    }
    return found | dict(map(_setting, given["others"]))


def _setting(text: str) -> tuple[str, Any]:
    """Read NAME=VALUE by the type of the setting; a value that is none of it is left as it is, to
    be refused by name.
    """
    from sigmascope.checks import check_choice
    from sigmascope.stitching.settings import Settings

    name, _, value = text.partition("=")
    own = next((option for option, setting in SETTINGS.items() if setting == name), None)
    if own or not value:
        raise click.UsageError(
            f"--set {text}: " + (f"use --{own.replace('_', '-')}." if own else "write NAME=VALUE.")
        )
    kinds = {field.name: str(field.type).split(" | ") for field in dataclasses.fields(Settings)}
    check_choice("--set", name, [one for one in kinds if one not in SETTINGS.values()])
    for kind in kinds[name]:
        with suppress(KeyError, ValueError):
            return name, READERS[kind](value)
    return name, value


def _data(model: Model, given: dict[str, Any]) -> StitchData:
    """Read both splits into memory."""
    from sigmascope import catalog
    from sigmascope.errors import OptionError
    from sigmascope.stitching import read_data

    common = {"root": given["data_root"], "transform": model.transform, "seed": given["seed"]}
    test = catalog.data(given["data"], split="test", limit=given["test_limit"], **common)
    try:
        train = catalog.data(given["data"], split="train", limit=given["limit"], **common)
    except (
        OptionError
    ) as error:  # the same words have opened the test data: it is the split that is not there
        raise OptionError(
            f"{given['data']} has no split 'train'. Stitching needs data with the splits "
            "train and test, such as cifar10."
        ) from error
    return read_data(train, test, augment=_augment(given))


def _augment(given: dict[str, Any]) -> str:
    """Return how training images are augmented."""
    usual = "flip-shift" if given["data"] in AUGMENTED and given["cache_front"] is None else "none"
    return given["augment"] or usual


def _show(result: StitchResult, paths: list[Path], as_json: bool) -> None:
    if as_json:
        from sigmascope.store import encode

        derived = {"penalty": encode(result.penalty), "sparsity": encode(result.sparsity)}
        emit("stitch", {**derived, **result.record(), "written": [str(path) for path in paths]})
        return
    say(repr(result))
    if paths:
        say("")
        written(paths)
