"""`sigmascope linearize`: a network with fewer activations, tuned, folded and saved, and a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sigmascope import choices
from sigmascope.cli import options
from sigmascope.cli.output import emit, inform, json_option, say, written
from sigmascope.cli.program import keeping

if TYPE_CHECKING:
    from sigmascope.catalog.entry import Model
    from sigmascope.linearize import Linearization, Split

PAGE = "linearization.html"
AUGMENTED = ("cifar10", "cifar100", "embedded")
# option -> keyword of fit; only options that are given are passed on
TUNING = {
    "optimizer": "optimizer",
    "rate": "rate",
    "batch_size": "batch",
    "distill": "distill",
    "temperature": "temperature",
}
BUDGET = (
    "How many activations to replace: 8, 50%, '50% elements', '4096 elements', or loss+0.02 for as "
    "many as the held-out loss allows."
)


EXAMPLES = ("sigmascope linearize sigmascope/resnet20 --data cifar10 --budget 4 -o linearized",)


@click.command(
    short_help="Replace activations that a network hardly uses.", epilog=options.examples(*EXAMPLES)
)
@options.network("network")
@options.data()
@options.option("--budget", BUDGET, required=True, metavar="BUDGET")
@options.choice("--by", choices.LinearizeBy, "What ranks the activations.", "affinity")
@options.choice("--maps", choices.LinearizeMaps, "Affine maps that replace them.", "channel")
@click.option("--iterative", is_flag=True, help="Measure again after every replacement.")
@click.option("--sites", multiple=True, metavar="PATTERN", help="Replace only these; repeatable.")
@options.count("--epochs", "Epochs of tuning; 0 for none.", 5, minimum=0)
@options.count("--points", "Tune for N numbers of replaced activations, up to the budget.", 1)
@click.option("--baseline", is_flag=True, help="Tune the original equally long, too.")
@options.choice("--optimizer", choices.TuningOptimizer, "Optimizer of the tuning.")
@options.number("--rate", "Highest learning rate.")
@options.count("--batch-size", "Batch size of the tuning.")
@options.number("--distill", "Share of the loss from the original; 0 for labels only.")
@options.number("--temperature", "Temperature of that part of the loss.")
@options.choice("--augment", choices.Augmentation, "Augmentation.  [default: flip-shift for CIFAR]")
@click.option("--no-fold", is_flag=True, help="Do not merge what became linear.")
@options.count("--limit", "Use only N training samples, drawn at random.")
@options.count("--test-limit", "Use only N test samples, drawn at random.")
@options.option("--weights", "File of weights.  [default: those of the network]", metavar="FILE")
@options.device
@options.seed
@options.out("DIR", f"Directory for the network, the results and the page {PAGE}.")
@json_option
def linearize(network: str, out: str | None, as_json: bool, **given: Any) -> None:
    """Replace activations of NETWORK that it hardly uses by affine maps, tune and fold it.

    Sites are ranked, maps fitted and the curve of accuracy against activations left measured on
    held-out training data: a tenth of the split "train", at most 5,000 samples. The rest is what
    the network is tuned on. The test data is used once, for the original and the result. Data
    without splits is divided: 60 % to tune on, 20 % held out, 20 % for the test.

    With -o this may be killed at any moment: the same command continues from the last epoch, and
    shows a finished one again. sigmascope.linearize.load(DIR) returns the network.
    """
    from sigmascope import catalog
    from sigmascope.runs.network import checked_device

    _check_budget(given["budget"])
    device = checked_device(given["device"])
    weights = {} if given["weights"] is None else {"weights": given["weights"]}
    model = catalog.model(network, **weights)
    data = _data(model, given)
    model.network.to(device)
    done = out is not None and (Path(out) / "linearization.json").is_file()
    result = _fitted(model, data, out, given)
    paths: list[Path] = []
    if out is not None:
        from sigmascope.reporting.linearization import linearization_page

        if done:
            inform(f"{out}: already there")
        page = linearization_page(result, Path(out) / PAGE)
        paths = [page, *(Path(out) / f"{name}.json" for name in ("network", "linearization"))]
    _show(result, [] if done else paths, as_json)


def _check_budget(text: str) -> None:
    """Raise before anything is read if the budget is not one."""
    from sigmascope.linearize.budgets import parse_budget

    parse_budget(text)


def _fitted(model: Model, data: Split, out: str | None, given: dict[str, Any]) -> Linearization:
    from sigmascope.linearize import fit
    from sigmascope.linearize.budgets import parse_budget
    from sigmascope.linearize.split import in_batches

    tuning = {name: given[option] for option, name in TUNING.items() if given[option] is not None}
    with keeping("The plan and finished epochs are kept" if out else None):
        return fit(
            model.network,
            data,
            budget=parse_budget(given["budget"], in_batches(data.held_out)),
            folder=out,
            augment=_augment(given),
            name=model.name,
            data_name=given["data"],
            fold=not given["no_fold"],
            **{
                name: given[name]
                for name in (
                    *("by", "epochs", "maps", "iterative", "sites"),
                    *("points", "baseline", "seed"),
                )
            },
            **tuning,
        )


def _augment(given: dict[str, Any]) -> Any:
    return given["augment"] or ("flip-shift" if given["data"] in AUGMENTED else "none")


def _data(model: Model, given: dict[str, Any]) -> Split:
    """Return the three parts of the data, read into memory, with labels that fit the network."""
    from sigmascope import catalog
    from sigmascope.catalog.datasets import UNDIVIDED
    from sigmascope.linearize import Split
    from sigmascope.training import evaluation
    from sigmascope.training.data import read_data

    name, seed = given["data"], given["seed"]
    common = {"root": given["data_root"], "transform": model.transform, "seed": seed}
    test = catalog.data(name, split="test", limit=given["test_limit"], **common)
    if name.partition(":")[0] in UNDIVIDED:
        if given["test_limit"] is not None:
            raise click.UsageError(f"--test-limit: {name} has no splits. Use --limit.")
        every = catalog.data(name, limit=given["limit"], **common)
        read = read_data(every, every)
        split = Split.divided(read.test, seed=seed)
    else:
        train = catalog.data(name, split="train", limit=given["limit"], **common)
        read = read_data(train, test)
        split = Split.of(read.train, read.test, seed=seed)
    few = read.test[0][:2]
    classes = evaluation.classes_of(model.network, few)
    for _, labels in (read.train, read.test):
        evaluation.check_labels(labels, classes)
    return split


def _show(result: Linearization, paths: list[Path], as_json: bool) -> None:
    if as_json:
        emit(
            "linearization-summary", {**summary_of(result), "written": [str(one) for one in paths]}
        )
        return
    say(repr(result))
    if paths:
        say("")
        written(paths)


def summary_of(result: Linearization) -> dict[str, Any]:
    """Return a linearization for other programs."""
    from sigmascope.store import encode

    chosen = result.plan.chosen
    return {
        "network": result.name,
        "data": result.data,
        "budget": result.plan.budget,
        "by": result.plan.by,
        "replaced": [site.name for site in chosen],
        "activations": len(result.plan.sites),
        "elements": result.plan.elements,
        "elements_saved": result.plan.saved,
        "points": encode(result.points),
        "test_before": encode(result.before),
        "test_after": encode(result.after),
        "folding": encode(result.folding),
    }
