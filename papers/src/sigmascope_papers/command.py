"""`sigmascope reproduce`: the figures and tables of the papers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sigmascope.cli.output import complain, emit, inform, json_option, say
from sigmascope.cli.program import DONE, FAILED, PARTIAL

__all__ = ["reproduce"]

ALL = "all"


@click.command(short_help="Reproduce figures and tables of the papers.")
@click.argument("names", nargs=-1)
@click.option("--list", "wanted_list", is_flag=True, help="Print the names, with what they show.")
@click.option(
    "-o",
    "--out",
    default="reproduced",
    show_default=True,
    type=click.Path(file_okay=False),
    help="Folder to write to.",
)
@click.option(
    "--from-scratch",
    is_flag=True,
    help="Measure the networks of the zoo again, instead of reading what is stored.",
)
@click.option(
    "--smoke",
    is_flag=True,
    help="Try an experiment on networks in a tiny size: seconds each, no verdict.",
)
@click.option(
    "--data-root",
    metavar="DIR",
    type=click.Path(),
    help="Folder with the data sets, to measure from scratch.",
)
@click.option(
    "--weights",
    type=click.Choice(["zoo", "default", "none"]),
    default="zoo",
    show_default=True,
    help="Our networks, or the paper's own of torchvision with published or random weights.",
)
@click.option(
    "--data", metavar="DATA", help="Data for the paper's own networks, such as imagefolder:DIR."
)
@click.option(
    "--limit",
    type=click.IntRange(min=2),
    help="Images that the paper's own networks see; by default all.",
)
@click.option(
    "--network",
    "networks",
    multiple=True,
    metavar="NAME",
    help="Take only this one from the cast; may be repeated.",
)
@json_option
def reproduce(
    names: tuple[str, ...], wanted_list: bool, out: str, as_json: bool, **manner: Any
) -> int:
    """Reproduce figures and tables by NAME, or all of them: what was expected, what came out, and a
    verdict.

    Writes pictures, their data as CSV, the verdicts as JSON, and one page, index.html and index.md,
    about all items that the folder has by then. What is measured goes to folders like those of the
    zoo, such as OUT/signatures, and the same command reads it again. --smoke is for the items of
    the paper on symmetries, sym-…; those without networks run in full.
    """
    from sigmascope_papers.table import ITEMS, PAPERS, check_names, prose

    if wanted_list:
        _list({name: prose(name).shows for name in ITEMS}, as_json)
        return DONE
    if not names:
        raise click.UsageError("Name what to reproduce, or all; --list prints the names.")
    named = check_names([name for name in names if name != ALL])
    smoke = manner["smoke"]
    chosen = (list(PAPERS["symmetry"]) if smoke else list(ITEMS)) if ALL in names else named
    if smoke and (others := [name for name in named if name not in PAPERS["symmetry"]]):
        raise click.UsageError(
            f"--smoke is for items sym-…; {', '.join(others)} takes seconds without it."
        )
    from sigmascope.errors import SigmascopeError
    from sigmascope_papers.run import reproduce as run_item
    from sigmascope_papers.setting import Setting

    setting = Setting(keep=Path(out), **manner)
    outcomes, failures = [], {}
    for number, name in enumerate(chosen, 1):
        try:
            outcomes.append(run_item(name, out, setting=setting))
        except SigmascopeError as error:  # one item that cannot be had does not cost the others
            failures[name] = str(error)
            inform(f"{number}/{len(chosen)} {name}: could not be reproduced")
            continue
        if len(chosen) > 1:
            inform(
                f"{number}/{len(chosen)} {name}: {outcomes[-1].verdict} "
                f"({outcomes[-1].tally}), {outcomes[-1].seconds:.0f} s"
            )
        if not as_json:
            say(f"{outcomes[-1]!r}\n")
    return _finish(out, outcomes, failures, as_json)


def _finish(out: str, outcomes: list[Any], failures: dict[str, str], as_json: bool) -> int:
    """Write the pages about all that the folder has, and tell what is missing."""
    from sigmascope_papers.index import write_gallery, write_index
    from sigmascope_papers.run import outcomes_in

    page = None
    if everything := outcomes_in(out):
        page = write_index(everything, out)
        write_gallery(everything, Path(out) / "index.md", pictures=out)
    if as_json:
        emit(
            "reproductions",
            {"outcomes": outcomes, "failures": failures, "page": page and str(page)},
        )
    elif page:
        say(f"Written: {page}")
    for name, reason in failures.items():
        complain(reason, label=f"{name}: ")
    if not failures:
        return DONE
    return PARTIAL if outcomes else FAILED


def _list(items: dict[str, str], as_json: bool) -> None:
    if as_json:
        emit("names", {"of": "reproductions", "groups": {"items": items}})
        return
    width = max(map(len, items))
    say("\n".join(f"{name:<{width}}  {shows}" for name, shows in items.items()))
