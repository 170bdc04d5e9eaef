"""`sigmascope measure`: networks by name, measured, printed and stored."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sigmascope.cli.choices import COVARIANCES, METRICS, POOLS, SAMPLES
from sigmascope.cli.output import complain, emit, inform, json_option, say, written
from sigmascope.cli.program import DONE, FAILED, PARTIAL, Stopped, is_debugging

if TYPE_CHECKING:
    from sigmascope.runs import Outcome, Request

__all__ = ["measure"]

COUNT = click.IntRange(min=1)
OPTIONS = ("samples", "metrics", "covariance", "pool", "max_batches", "seed")
STATES = {
    "measured": "measured in {seconds:.1f} s",
    "kept": "already there",
    "failed": "failed",
    "busy": "another process is at it",
}


def _shard(
    context: click.Context, option: click.Parameter, value: str | None
) -> tuple[int, int] | None:
    """Read I/N."""
    if value is None:
        return None
    found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", value)
    index, count = map(int, found.groups()) if found else (0, 0)
    if not 1 <= index <= count:
        raise click.BadParameter(
            f"{value!r} is no shard. Write I/N with I from 1 to N, such as 1/4."
        )
    return index, count


def _metrics(
    context: click.Context, option: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...] | str:
    return "all" if "all" in value else value


@click.command(short_help="Measure networks, print and store their signatures.")
@click.argument("names", nargs=-1, required=True, metavar="NETWORK...")
@click.option("--data", required=True, metavar="NAME", help="Data, see `sigmascope list data`.")
@click.option(
    "--data-root",
    metavar="DIR",
    help="Folder with the files of the data.  [default: $SIGMASCOPE_DATA, or data]",
)
@click.option("--split", default="test", show_default=True, help="Part of the data.")
@click.option("--limit", type=COUNT, metavar="N", help="Use only N samples, drawn evenly.")
@click.option(
    "--weights",
    default="default",
    show_default=True,
    metavar="default|none|FILE",
    help="none: random ones.",
)
@click.option(
    "--batch-size",
    default=512,
    show_default=True,
    type=COUNT,
    metavar="N",
    help="Samples that are scored together.",
)
@click.option("--max-batches", type=COUNT, metavar="N", help="Stop after N batches.")
@click.option(
    "--samples",
    default="batch",
    show_default=True,
    type=click.Choice(SAMPLES),
    help="What counts as a sample.",
)
@click.option(
    "--metrics",
    multiple=True,
    type=click.Choice(METRICS),
    callback=_metrics,
    help="Beside the score; repeat for several.",
)
@click.option(
    "--covariance",
    default="ledoit-wolf",
    show_default=True,
    type=click.Choice(COVARIANCES),
    help="Its estimator.",
)
@click.option(
    "--pool",
    default="channels",
    show_default=True,
    type=click.Choice(POOLS),
    help="How feature maps become rows.",
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
    "--shard",
    metavar="I/N",
    callback=_shard,
    help="Only every N-th network from the I-th on; the folder is shared.",
)
@click.option(
    "--resume/--no-resume",
    default=True,
    show_default=True,
    help="Keep what is there and go on, or measure again.",
)
@click.option(
    "-o",
    "--out",
    metavar="OUT",
    type=click.Path(),
    help="Folder to write to; or FILE.json, for one network.",
)
@json_option
def measure(names: tuple[str, ...], out: str | None, as_json: bool, **given: Any) -> int:
    """Measure the signatures of networks, by their names in the catalog; see `sigmascope list models`.

    With a folder as OUT this may be killed at any moment: the same command goes on where it
    stopped. Several processes or machines may share the folder. A network that fails does not stop
    the others.

    A FILE.json that is stopped goes on too, but a finished one is measured anew and replaced;
    FILE.facts.json, with accuracy and size, is written beside it. A file that holds no signature is
    never replaced.
    """
    _check_usage(names, out, given)
    from sigmascope.runs import Selection, Shard, measure_runs, request_for

    chosen = Selection(
        given["data"], given["data_root"], given["split"], given["limit"], given["batch_size"]
    )
    request = request_for(
        names, chosen, weights=given["weights"], options={name: given[name] for name in OPTIONS}
    )
    shard = Shard(*given["shard"]) if given["shard"] else Shard()
    with_settings = {"shard": shard, "resume": given["resume"], "device": given["device"]}
    try:
        outcomes = list(
            _followed(measure_runs(request, out, **with_settings), len(shard.of(names)))
        )
    except Stopped as stopped:
        stopped.remedy = (
            "What was scored is kept: the same command goes on from there."
            if out
            else "Nothing was written: no -o was given."
        )
        raise
    if as_json:
        emit("measurement", _document(request, out, outcomes))
    else:
        _print(outcomes, out)
    _complain_of(outcomes, out)
    return _code(outcomes)


def _check_usage(names: tuple[str, ...], out: str | None, given: dict[str, Any]) -> None:
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice:
        raise click.UsageError(f"{twice} is named twice.")
    if len(names) > 1 and given["weights"] not in ("default", "none"):
        raise click.UsageError(
            "--weights FILE fits one network. Measure one at a time, or use default or none."
        )
    is_file = out is not None and Path(out).suffix == ".json"
    if is_file and len(names) > 1:
        raise click.UsageError(
            f"{out} is one file, and there are {len(names)} networks. Give a folder."
        )
    if given["shard"] and (out is None or is_file):
        raise click.UsageError("--shard needs a folder to share: give one with -o.")


def _followed(outcomes: Iterable[Outcome], total: int) -> Iterator[Outcome]:
    """Tell what becomes of each network as soon as it is known."""
    for number, outcome in enumerate(outcomes, 1):
        inform(
            f"{number}/{total} {outcome.name}: "
            f"{STATES[outcome.state].format(seconds=outcome.seconds)}"
        )
        yield outcome


def _print(outcomes: list[Outcome], out: str | None) -> None:
    found = [outcome.signature for outcome in outcomes if outcome.signature]
    if len(outcomes) == 1 and found:
        say(repr(found[0]))
    elif found:
        say("\n".join(_summary(outcomes)))
    paths = [outcome.path for outcome in outcomes if outcome.state == "measured" and outcome.path]
    if paths:
        say("")
        written(paths if len(paths) == 1 else [f"{len(paths)} signatures in {out}"])


def _summary(outcomes: list[Outcome]) -> list[str]:
    """Lay out one line per network that has a signature."""
    from sigmascope.tables import as_lines

    found = [outcome.signature for outcome in outcomes if outcome.signature]
    columns: dict[str, list[Any]] = {
        "network": [one.name for one in found],
        "sites": [len(one) for one in found],
    }
    columns["scored"] = [one.coverage.scored for one in found]
    summaries = [one.summary() for one in found]
    return as_lines(
        columns
        | {
            name: [one[name] for one in summaries]
            for name in ("min", "median", "max", "mean", "std")
        }
    )


def _complain_of(outcomes: list[Outcome], out: str | None) -> None:
    """List at the end what failed, and what another process is at."""
    failures = [outcome.failure for outcome in outcomes if outcome.failure]
    if len(outcomes) > 1 and failures:
        complain(
            f"{len(failures)} of {len(outcomes)} networks failed; the same command tries "
            "them again:"
        )
    for failure in failures:
        if is_debugging():
            click.echo(failure.traceback, err=True)
        is_of_files = failure.error == "ResumeError" or (
            out and failure.error == "FileFormatError" and out in failure.message
        )
        again = " Or measure it again with --no-resume." if is_of_files else ""
        complain(
            f"{failure.name}: {failure.message}{again}",
            label="Error: " if len(outcomes) == 1 else "  ",
        )
    for outcome in outcomes:
        if outcome.state == "busy":
            inform(
                f"Note: another process is measuring {outcome.name}. The same command picks "
                "it up, if that one stops."
            )


def _code(outcomes: list[Outcome]) -> int:
    done = sum(outcome.signature is not None for outcome in outcomes)
    if done == len(outcomes):
        return DONE
    busy = any(outcome.state == "busy" for outcome in outcomes)
    return PARTIAL if done or busy else FAILED


def _document(request: Request, out: str | None, outcomes: list[Outcome]) -> dict[str, object]:
    networks = [
        {
            "name": outcome.name,
            "state": outcome.state,
            "path": str(outcome.path) if outcome.path else None,
            "facts": outcome.facts,
            "failure": outcome.failure,
            "signature": outcome.signature,
        }
        for outcome in outcomes
    ]
    return {"request": request, "out": out, "networks": networks}
