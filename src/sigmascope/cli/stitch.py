"""`sigmascope stitch`: the front of one network stitched to the back of another."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sigmascope import choices
from sigmascope.cli import options
from sigmascope.cli.output import emit, inform, json_option, say, written
from sigmascope.cli.program import keeping
from sigmascope.cli.stitch_file import files_for, identity_of

if TYPE_CHECKING:
    from sigmascope.catalog.entry import Model
    from sigmascope.stitching import StitchData, StitchResult

# "fixed" needs an element
FAMILIES = [name for name in choices.values_of(choices.Family) if name != "fixed"]
# option -> the only family that reads it
OF_FAMILY = {"rank": "low-rank", "strength": "lasso", "alpha": "relu-group"}
AUGMENTED = ("cifar10", "cifar100")  # as in the paper, unless the front is cached
# option -> setting; only options that are given change the preset
SETTINGS = {"batch_size": "batch"} | {
    name: name for name in (*OF_FAMILY, "epochs", "head_start", "rate", "select_on", "front_mode")
}


def _finite(text: str) -> float:
    """Return a finite number; other values are left to the settings, which reject them."""
    if not math.isfinite(number := float(text)):
        raise ValueError(text)
    return number


# type of a setting -> how its text is read
READERS: dict[str, Callable[[str], Any]] = {
    "str": str,
    "int": int,
    "float": _finite,
    "bool": lambda text: {"true": True, "false": False}[text.lower()],
    "None": lambda text: {"none": None}[text.lower()],
}


EXAMPLES = ("sigmascope stitch sigmascope/myrtle:0 sigmascope/myrtle:1 --site 9 --data cifar10",)


@click.command(
    short_help="Stitch the front of one network to the back of another.",
    epilog=options.examples(*EXAMPLES),
)
@options.network("front")
@options.network("back")
@options.option("--site", "Where to stitch; a wrong name lists the choices.", required=True)
@options.data()
@options.choice("--family", FAMILIES, "Family of matrices the stitch is from.", "relu-group")
@options.choice("--preset", choices.Preset, "Training settings to start from.", "paper")
@options.count("--rank", "Rank of a low-rank stitch.")
@options.number("--strength", "Strength of the lasso penalty.")
@options.number("--alpha", "How strongly a relu-group stitch is drawn to permutations.")
@options.choice("--style", choices.Style, "Channel axis: 1 for conv, the last for linear.", "auto")
@options.count("--epochs", "Epochs, instead of those of the preset.")
@options.count("--head-start", "Epochs without scales, out of all epochs.", minimum=0)
@options.count("--batch-size", "Batch size, instead of that of the preset.")
@options.number("--rate", "Learning rate, instead of that of the preset.")
@options.choice("--select-on", choices.Selection, "Data that the best epoch is chosen on.")
@options.choice("--front-mode", choices.FrontMode, "Mode of the batch norms of the front.")
@click.option(
    "--set",
    "others",
    multiple=True,
    metavar="NAME=VALUE",
    help="Any other setting; repeat for several. A wrong name lists them.",
)
@options.option(
    "--cache-front", "Cache of the front; needs --front-mode eval.", metavar="memory|DIR"
)
@options.choice(
    "--augment", choices.Augmentation, "Augmentation in training.  [default: flip-shift for CIFAR]"
)
@options.count("--limit", "Use only N training samples, drawn at random.")
@options.count("--test-limit", "Use only N test samples, drawn at random.")
@options.device
@options.seed
@options.out("FILE", "FILE.json to write to; the tensors go beside it.")
@json_option
def stitch(front: str, back: str, out: str | None, as_json: bool, **given: Any) -> None:
    """Stitch the front of network FRONT to the back of network BACK, by their catalog names.

    Prints the stitching penalty: the mean accuracy of the two networks minus that of the stitched
    one. With a FILE.json as OUT this may be killed at any moment: the same command, on the same
    type of device, continues from the last epoch, and shows a finished stitch again. A file of
    another run is never replaced.
    """
    _check_family(given)
    files = files_for(out) if out else None
    from sigmascope import catalog
    from sigmascope.runs.network import checked_device
    from sigmascope.stitching.settings import settings_for

    changes = _changes(given)
    settings = settings_for(given["preset"], given["family"], changes)
    given["device"] = checked_device(given["device"])
    models = catalog.model(front), catalog.model(back)
    if files is None:
        _show(_trained(models, given, changes), [], as_json)
        return
    identity = identity_of(models, given, settings=settings, augment=_augment(given))
    with files.claim() as free:
        if not free:
            raise click.ClickException(f"another process is writing {out}. Wait for it to end.")
        result, paths = files.load(identity), list[Path]()
        if result:
            inform(f"{out}: already there")
        else:
            result = _trained(models, given, changes, files.partial)
            paths = files.save(result, identity)
        files.partial.unlink(missing_ok=True)
    _show(result, paths, as_json)


def _trained(
    models: tuple[Model, Model],
    given: dict[str, Any],
    changes: dict[str, Any],
    checkpoint: Path | None = None,
) -> StitchResult:
    """Return a stitch, trained from the start or from a checkpoint."""
    from sigmascope.stitching import stitch as train

    front, back = models
    cache = given["cache_front"]
    with keeping("Finished epochs are kept" if checkpoint else None):
        return train(
            front.network.to(given["device"]),
            back.network.to(given["device"]),
            _data(front, given),
            site=given["site"],
            cache_front={None: False, "memory": True}.get(cache, cache),
            checkpoint=checkpoint,
            names=(front.name, back.name),
            **{name: given[name] for name in ("family", "preset", "style", "seed")},
            **changes,
        )


def _check_family(given: dict[str, Any]) -> None:
    """Raise if an option belongs to another family, which would ignore it."""
    for option, family in OF_FAMILY.items():
        if given[option] is not None and given["family"] != family:
            raise click.UsageError(
                f"--{option} belongs to --family {family}, and the family is {given['family']}."
            )


def _changes(given: dict[str, Any]) -> dict[str, Any]:
    """Return setting -> value for the settings that are given."""
    own = {name: given[option] for option, name in SETTINGS.items() if given[option] is not None}
    return own | dict(map(_setting, given["others"]))


def _setting(text: str) -> tuple[str, Any]:
    """Return a setting from NAME=VALUE; a value of another type stays text, to be rejected."""
    from sigmascope.checks import check_choice
    from sigmascope.stitching.settings import Settings

    given, _, value = text.partition("=")
    name = options.current_name(given)
    own = next((option for option, setting in SETTINGS.items() if setting == name), None)
    if own or not value:
        raise click.UsageError(
            f"--set {text}: " + (f"use --{own.replace('_', '-')}." if own else "write NAME=VALUE.")
        )
    kinds = {field.name: str(field.type).split(" | ") for field in dataclasses.fields(Settings)}
    check_choice("--set", name, [kind for kind in kinds if kind not in SETTINGS.values()])
    for kind in kinds[name]:
        with suppress(KeyError, ValueError):
            return name, READERS[kind](value)
    return name, value


def _data(model: Model, given: dict[str, Any]) -> StitchData:
    """Return both splits, read into memory."""
    from sigmascope import catalog
    from sigmascope.errors import OptionError
    from sigmascope.stitching import read_data

    common = {"root": given["data_root"], "transform": model.transform, "seed": given["seed"]}
    test = catalog.data(given["data"], split="test", limit=given["test_limit"], **common)
    try:
        train = catalog.data(given["data"], split="train", limit=given["limit"], **common)
    except OptionError as error:  # the test split was opened by the same name
        raise OptionError(
            f"{given['data']} has no split 'train'. Stitching needs data with the splits "
            "train and test, such as cifar10."
        ) from error
    return read_data(train, test, augment=_augment(given))


def _augment(given: dict[str, Any]) -> str:
    """Return how training images are augmented."""
    is_usual = given["data"] in AUGMENTED and given["cache_front"] is None
    return given["augment"] or ("flip-shift" if is_usual else "none")


def _show(result: StitchResult, paths: list[Path], as_json: bool) -> None:
    if as_json:
        from sigmascope.store import encode

        derived = {"penalty": encode(result.penalty), "sparsity": encode(result.sparsity)}
        content = {**derived, **result.record(), "written": [str(path) for path in paths]}
        emit("stitch-summary", content)  # no stitch file: it lacks the matrix
        return
    say(repr(result))
    if paths:
        say("")
        written(paths)
