"""`sigmascope reproduce`: the figures and tables of the papers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sigmascope.cli import options
from sigmascope.cli.names import Name
from sigmascope.cli.output import complain, emit, inform, json_option, say
from sigmascope.cli.program import DONE, FAILED, PARTIAL

ALL = "all"
OUT: dict[str, Any] = {"default": "reproduced", "show_default": True}
WEIGHTS: dict[str, Any] = {"default": "zoo", "show_default": True}


def _items() -> list[str]:
    from sigmascope_papers.table import ITEMS

    return [ALL, *ITEMS]


EXAMPLES = (
    "sigmascope reproduce --list",
    "sigmascope reproduce fig7 table1 sym-fig1 -o reproduced",
)


@click.command(
    short_help="Reproduce figures and tables of the papers.", epilog=options.examples(*EXAMPLES)
)
@click.argument("names", nargs=-1, type=Name("items", _items))
@click.option("--list", "wanted_list", is_flag=True, help="Print the names, with what they show.")
@click.option("-o", "--out", type=click.Path(file_okay=False), help="Directory to write to.", **OUT)
@click.option("--from-scratch", is_flag=True, help="Measure again instead of reading results.")
@click.option("--smoke", is_flag=True, help="Run experiments in a tiny size: seconds, no verdict.")
@click.option("--data-root", metavar="DIR", type=click.Path(), help="Directory of the data sets.")
@click.option(
    "--weights",
    type=click.Choice(["zoo", "default", "none"]),
    help="Our networks, or the paper's own of torchvision with published or random weights.",
    **WEIGHTS,
)
@click.option("--data", help="Data for the paper's own networks, such as imagefolder:DIR.")
@click.option(
    "--limit", type=click.IntRange(min=2), help="Images for the paper's own networks; default all."
)
@click.option(
    "--network",
    "networks",
    multiple=True,
    metavar="NAME",
    help="Use only this network of the cast; repeatable.",
)
@json_option
def reproduce(
    names: tuple[str, ...], wanted_list: bool, out: str, as_json: bool, **manner: Any
) -> int:
    """Reproduce figures and tables by NAME, or all: expected, obtained, and a verdict.

    Writes pictures, their data as CSV, the verdicts as JSON, and one page, index.html and index.md,
    about all items in the directory. Measurements are kept there too, as in OUT/signatures, and the
    same command reads them again. --smoke is for the items of the paper on symmetries, sym-…; those
    without networks run in full.
    """
    from sigmascope_papers.table import ITEMS, prose

    if wanted_list:
        _list({name: prose(name).shows for name in ITEMS}, as_json)
        return DONE
    chosen = _chosen(names, smoke=manner["smoke"])
    from sigmascope.errors import SigmascopeError
    from sigmascope_papers.run import reproduce as run_item
    from sigmascope_papers.setting import Setting

    setting = Setting(keep=Path(out), **manner)
    outcomes, failures = [], {}
    for number, name in enumerate(chosen, 1):
        at = f"{number}/{len(chosen)} {name}"
        try:
            one = run_item(name, out, setting=setting)
        except SigmascopeError as error:  # the other items are still reproduced
            failures[name] = str(error)
            inform(f"{at}: could not be reproduced")
            continue
        outcomes.append(one)
        if len(chosen) > 1:
            inform(f"{at}: {one.counted}, {one.seconds:.0f} s")
        if not as_json:
            say(f"{one!r}\n")
    return _finish(out, outcomes, failures, as_json)


def _chosen(names: tuple[str, ...], *, smoke: bool) -> list[str]:
    """Return the names of the items to run; with --smoke only experiments on symmetries."""
    from sigmascope_papers.table import EXPERIMENTS, ITEMS, check_names

    if not names:
        raise click.UsageError("Name what to reproduce, or all; --list prints the names.")
    named = check_names([name for name in names if name != ALL])
    others = [name for name in named if name not in EXPERIMENTS]
    if smoke and others:
        told = f"--smoke is for items sym-…; {', '.join(others)} takes seconds without it."
        raise click.UsageError(told)
    return list(EXPERIMENTS if smoke else ITEMS) if ALL in names else named


def _finish(out: str, outcomes: list[Any], failures: dict[str, str], as_json: bool) -> int:
    """Write the pages about all items in the directory, and say which failed."""
    from sigmascope_papers.index import write_gallery, write_index
    from sigmascope_papers.run import outcomes_in

    page = None
    if everything := outcomes_in(out):
        page = write_index(everything, out)
        write_gallery(everything, Path(out) / "index.md", pictures=out)
    if as_json:
        told = {"outcomes": outcomes, "failures": failures, "page": page and str(page)}
        emit("reproductions", told)
    elif page:
        say(f"Written: {page}")
    for name, reason in failures.items():
        complain(reason, label=f"{name}: ")
    return DONE if not failures else PARTIAL if outcomes else FAILED


def _list(items: dict[str, str], as_json: bool) -> None:
    if as_json:
        emit("names", {"of": "reproductions", "groups": {"items": items}})
        return
    width = max(map(len, items))
    say("\n".join(f"{name:<{width}}  {shows}" for name, shows in items.items()))
