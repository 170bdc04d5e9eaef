"""`sigmascope measure`: networks by name, measured, printed and stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from sigmascope import choices
from sigmascope.cli import options, splitting, surveying
from sigmascope.cli.output import complain, emit, inform, json_option, say, written
from sigmascope.cli.program import DONE, FAILED, PARTIAL, is_debugging, keeping

if TYPE_CHECKING:
    from sigmascope.measure.result import Signature
    from sigmascope.runs import Isolation, Outcome, Request

OPTIONS = (
    "estimator",
    "samples",
    "max_positions",
    "gates",
    "metrics",
    "covariance",
    "eps",
    "pool",
    "max_batches",
    "seed",
)
DEFAULT_ESTIMATOR = "both; population with --samples positions"
STATISTICS = ("min", "median", "max", "mean", "std")
STATES = {
    "measured": "measured in {seconds:.1f} s",
    "kept": "already there",
    "failed": "failed",
    "busy": "another process is measuring it",
    "skipped": "left out",
}


EXAMPLES = (
    "sigmascope measure sigmascope/resnet20 --data embedded",
    "sigmascope measure torchvision/resnet18 py:net.py:build --data imagefolder:val -o runs",
    "sigmascope measure @names.txt --data cifar10 -o runs --on slurm",
)


@click.command(
    short_help="Measure networks, print and store their signatures.",
    epilog=options.examples(*EXAMPLES),
)
@options.network(
    "names", nargs=-1, required=True, metavar="NETWORK...", callback=surveying.listed_names
)
@options.data()
@options.split
@options.limit
@options.option("--weights", "Weights; none: random.", "default", metavar="default|none|FILE")
@options.count("--batch-size", "Samples that are scored together.", 512)
@options.count("--max-batches", "Stop after N batches.")
@options.choice("--estimator", choices.Estimator, f"Which scores.  [default: {DEFAULT_ESTIMATOR}]")
@options.choice("--samples", choices.Samples, "What counts as a sample.", "batch")
@options.count("--max-positions", "Positions per image with --samples positions.", 64)
@options.choice("--gates", choices.Gates, "How gates count, as in SwiGLU.", "alone")
@options.choice("--metrics", choices.MetricChoice, "Further metric; repeatable.", multiple=True)
@options.choice("--covariance", choices.Covariance, "Covariance estimator.", "ledoit-wolf")
@options.number(
    "--eps", "Added to the diagonals of covariances.  [default: 1e-6 of their mean variance]"
)
@options.choice("--pool", choices.Pool, "How feature maps become rows.", "channels")
@options.device
@options.seed
@options.option(
    "--shard",
    "Measure every N-th network, from the I-th on; auto: as the job array says.",
    metavar="I/N|auto",
    callback=surveying.read_shard,
)
@surveying.survey_options
@splitting.part_option
@options.option("--resume/--no-resume", "Continue what is there, or measure again.", True)
@options.option("--isolate", "Measure in a child process: a crash fails one network.", is_flag=True)
@options.number("--time-limit", "Seconds per network; implies --isolate.", metavar="SECONDS")
@options.option("--skip", "Leave this network out; repeatable.", metavar="NETWORK", multiple=True)
@options.out("OUT", "Directory to write to; or FILE.json, for one network.")
@json_option
def measure(names: tuple[str, ...], out: str | None, as_json: bool, **given: Any) -> int:
    """Measure the signatures of networks, by their names in `sigmascope list models`.

    With a directory as OUT this may be killed at any moment: the same command continues where it
    stopped. Several processes or machines may share the directory. A network that fails does not
    stop the others; with --isolate, not even one that crashes, exits or hangs. That costs the start
    of a process, some seconds. Exits with 3 if a network failed, with 1 if all did; also with 3 if
    none has a score, or if another process is still measuring one.

    With --on, networks are measured by tasks of Ray, Slurm or local processes, several at a time,
    each in a child process of its task; see docs/cluster.md. @FILE stands for the names in a file,
    one per line. With --parts N, the data of each network is divided among N tasks, and the result
    is that of one process; see docs/one-network-many-workers.md.

    An interrupted FILE.json is continued too, but a finished one is measured again and replaced;
    FILE.facts.json, with accuracy and size, is written beside it. A file that is not a signature
    file is never replaced.
    """
    given = splitting.with_parts(given)
    _check_usage(names, out, given)
    from sigmascope.runs import Selection, measure_runs, request_for

    chosen = Selection(
        given["data"], given["data_root"], given["split"], given["limit"], given["batch_size"]
    )
    given["metrics"] = "all" if "all" in given["metrics"] else given["metrics"]
    asked = {name: given[name] for name in OPTIONS}
    request = request_for(names, chosen, weights=given["weights"], options=asked)
    shard = surveying.shard_of(given["shard"])
    if given["plan"]:
        return surveying.plan(request, out, shard, given | {"as_json": as_json})
    total = len(shard.of(names))
    with keeping("What was scored is kept" if out else None):
        if given["parts"]:
            outcomes = list(_followed(splitting.outcomes(request, out, given), total))
        elif given["on"] and out:
            follower = surveying.Follower(total, partial(_told, total))
            outcomes = surveying.survey(request, out, shard, given, follower)
            if as_json or total <= surveying.MANY:
                outcomes = [*map(partial(_with_signature, out), outcomes)]
        else:
            how = {name: given[name] for name in ("resume", "device", "skip")}
            measured = measure_runs(request, out, shard=shard, isolate=_isolation(given), **how)
            outcomes = list(_followed(measured, total))
    places = {name: place for place, name in enumerate(names)}
    outcomes.sort(key=lambda outcome: places[outcome.name])
    if as_json:
        emit("measurement", _document(request, out, outcomes), version=2)
    else:
        _print(outcomes, out)
    _complain_of(outcomes, out)
    return _code(outcomes)


def _check_usage(names: tuple[str, ...], out: str | None, given: dict[str, Any]) -> None:
    twice = next((name for name, times in Counter(names).items() if times > 1), None)
    if twice:
        raise click.UsageError(f"{twice} is listed twice.")
    if len(names) > 1 and given["weights"] not in ("default", "none"):
        raise click.UsageError(
            "--weights FILE fits one network. Measure one at a time, or use default or none."
        )
    is_file = out is not None and Path(out).suffix == ".json"
    if is_file and len(names) > 1:
        raise click.UsageError(
            f"{out} is one file, and there are {len(names)} networks. Pass a directory."
        )
    for option, kind in (("shard", "shared "), ("isolate", ""), ("time_limit", "")):
        if given[option] and (out is None or is_file) and not given["plan"]:
            flag = f"--{option.replace('_', '-')}"
            raise click.UsageError(f"{flag} needs a {kind}directory: pass one with -o.")
    surveying.check_survey(out, given)
    unknown = next((name for name in given["skip"] if name not in names), None)
    if unknown:
        raise click.UsageError(f"--skip {unknown}: it is not one of the networks to measure.")


def _isolation(given: dict[str, Any]) -> bool | Isolation:
    from sigmascope.runs import Isolation

    limit = given["time_limit"]
    return given["isolate"] if limit is None else Isolation(limit)


def _followed(outcomes: Iterable[Outcome], total: int) -> Iterator[Outcome]:
    """Report what becomes of each network as soon as it is known."""
    for number, outcome in enumerate(outcomes, 1):
        inform(_told(total, number, outcome))
        yield outcome


def _told(total: int, number: int, outcome: Outcome) -> str:
    state = STATES[outcome.state].format(seconds=outcome.seconds)
    return f"{number}/{total} {outcome.name}: {state}"


def _with_signature(out: str, outcome: Outcome) -> Outcome:
    """Return an outcome with what its file holds, if it has one."""
    from sigmascope.runs import outcome_in

    if outcome.state not in ("measured", "kept"):
        return outcome
    found = outcome_in(out, outcome.name)
    return outcome if found is None else replace(found, state=outcome.state)


def _print(outcomes: list[Outcome], out: str | None) -> None:
    found = [outcome.signature for outcome in outcomes if outcome.signature]
    if len(outcomes) == 1 and found:
        say(repr(found[0]))
    elif found:
        say("\n".join(_summary(found)))
    elif any(outcome.path for outcome in outcomes):
        states = Counter(outcome.state for outcome in outcomes)
        say(", ".join(f"{count} {state}" for state, count in states.items()))
    paths = [outcome.path for outcome in outcomes if outcome.state == "measured" and outcome.path]
    if paths:
        say("")
        written(paths if len(paths) == 1 else [f"{len(paths)} signatures in {out}"])


def _summary(found: list[Signature]) -> list[str]:
    """Return a table with one line per signature."""
    from sigmascope.tables import as_lines

    summaries = [signature.summary() for signature in found]
    columns: dict[str, list[Any]] = {
        "network": [signature.name for signature in found],
        "sites": [len(signature) for signature in found],
        "scored": [signature.coverage.scored for signature in found],
    }
    return as_lines(
        columns | {name: [summary[name] for summary in summaries] for name in STATISTICS}
    )


def _complain_of(outcomes: list[Outcome], out: str | None) -> None:
    """List what failed, has no score, or is measured by another process."""
    failures = [
        outcome.failure for outcome in outcomes if outcome.failure and outcome.state != "skipped"
    ]
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
        named = failure.message.lstrip("'").startswith(failure.name)
        complain(
            f"{'' if named else failure.name + ': '}{failure.message}{again}",
            label="Error: " if len(outcomes) == 1 else "  ",
        )
    command = next((failure.command for failure in failures if failure.command), "")
    if command and len(outcomes) > 1:
        inform(f"To see why, try one alone: {command}")
    some = any(map(_is_scored, outcomes))
    for outcome in outcomes:
        new = outcome.state == "measured"
        if outcome.signature and not _is_scored(outcome) and (new or not some):
            inform(f"Note: {outcome.name} has no score at all{_reason(outcome.signature)}.")
        if outcome.state == "busy":
            inform(
                f"Note: another process is measuring {outcome.name}. The same command picks "
                "it up, if that one stops."
            )


def _is_scored(outcome: Outcome) -> bool:
    from sigmascope.compare.networks import has_scores

    if outcome.signature is None:
        return False
    return any(has_scores(outcome.signature, kind) for kind in get_args(choices.ScoreKind))


def _reason(signature: Signature) -> str:
    """Return why the first site has no score, after a colon."""
    reasons = [site.reason or site.population_reason for site in signature.sites]
    return f": {reasons[0]}" if reasons and reasons[0] else ""


def _code(outcomes: list[Outcome]) -> int:
    wanted = [outcome for outcome in outcomes if outcome.state != "skipped"]
    if not wanted:
        return DONE
    if all(outcome.state == "failed" for outcome in wanted):
        return FAILED
    if any(outcome.state not in ("measured", "kept") for outcome in wanted):
        return PARTIAL
    known = [outcome for outcome in wanted if outcome.signature]  # of very many, none is read
    return DONE if not known or any(map(_is_scored, known)) else PARTIAL


def _document(request: Request, out: str | None, outcomes: list[Outcome]) -> dict[str, object]:
    networks = [
        {
            **{name: getattr(outcome, name) for name in ("name", "state")},
            "path": str(outcome.path) if outcome.path else None,
            **{name: getattr(outcome, name) for name in ("facts", "failure", "signature")},
        }
        for outcome in outcomes
    ]
    return {"request": request, "out": out, "networks": networks}
