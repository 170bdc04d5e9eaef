"""Names, files and the way of an outcome to the disk and back."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from sigmascope.errors import FileFormatError, OptionError
from sigmascope_papers.item import (
    FAILS,
    HOLDS,
    UNTESTED,
    WEAKLY,
    Check,
    agrees,
    overall,
    relation,
    untried,
)
from sigmascope_papers.run import load_outcome, reproduce
from sigmascope_papers.table import ITEMS, PAPERS, file_of, item, module_of, prose


@pytest.mark.parametrize("name", ITEMS)
def test_every_name_has_its_file(name: str) -> None:
    found, told = item(name), prose(name)
    assert found.judge.__doc__ or told.rule
    assert sys.modules[f"sigmascope_papers.{module_of(name)}"].__doc__
    assert all([told.title, told.shows, told.budget, told.exact, told.uncertainty])
    # the outcome adds it
    texts = (told.protocol, told.budget, told.exact, told.uncertainty, told.rule, told.reason)
    assert not any(text.endswith(".") for text in texts)


@pytest.mark.parametrize("paper", PAPERS)
def test_every_file_of_an_item_has_its_name(paper: str) -> None:
    folder = Path(sys.modules[item.__module__].__file__ or "").parent / paper
    files = {f"{paper}.{path.stem}" for path in folder.glob("*.md")}
    assert files == {file_of(name) for name in PAPERS[paper]}
    modules = {
        f"{paper}.{path.stem}"
        for path in folder.glob("*.py")
        if re.search(r"^ITEMS?\b.* = ", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert modules == {module_of(name) for name in PAPERS[paper]}


def test_a_name_leads_to_its_folder() -> None:
    assert [file_of(name) for name in ("fig7", "sym-fig2", "beyond-axes")] == [
        "nonlinearity.fig7",
        "symmetry.fig2",
        "nonlinearity.beyond_axes",
    ]
    assert [module_of(name) for name in ("fig2a", "fig7")] == [
        "nonlinearity.functions",
        "nonlinearity.fig7",
    ]
    assert len(ITEMS) == sum(map(len, PAPERS.values()))  # no name is in two papers


def test_listing_names_is_light() -> None:
    code = "from sigmascope_papers.table import ITEMS\nimport sigmascope_papers.index, sys\n"
    code += "print(len(ITEMS), *{'torch', 'matplotlib'} & set(sys.modules))"
    run = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=600
    )
    assert run.stdout.split() == [str(len(ITEMS))]


def test_an_unknown_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"name='fig2z' is not a valid choice\. Did you mean"):
        reproduce("fig2z", tmp_path)


def test_an_outcome_is_written_and_read(tmp_path: Path) -> None:
    outcome = reproduce("fig2b", tmp_path / "new")
    assert load_outcome(tmp_path / "new" / "fig2b.json") == outcome
    assert outcome.verdict == HOLDS
    assert outcome.figures == ("fig2b",)
    assert {path.name for path in (tmp_path / "new").iterdir()} == {
        f"fig2b.{end}" for end in ("json", "csv", "png", "svg")
    }
    assert "score of ReLU" in repr(outcome)
    assert repr(outcome).startswith(
        "fig2b: ReLU, Tanh and Sigmoid differ on inputs of one distribution: "
        "main claim holds, 4 of 4 claims hold\n"
    )


def test_a_foreign_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(FileFormatError, match="was not written by sigmascope"):
        load_outcome(tmp_path / "a.json")


@pytest.mark.parametrize(
    ("check", "verdict"),
    [
        (agrees("", 0.5, 0.504, tolerance=0.005), HOLDS),
        (agrees("", 0.5, 0.506, tolerance=0.005), FAILS),
        (agrees("", 0.5, float("nan"), tolerance=0.005), FAILS),
        (relation("", "", "", true=True), HOLDS),
        (relation("", "", "", true=True, clear=False), WEAKLY),
        (relation("", "", "", true=False, clear=True), FAILS),
        (untried("", "", "no weights"), UNTESTED),
    ],
)
def test_a_check_is_judged(check: Check, verdict: str) -> None:
    assert check.verdict == verdict


def test_the_worst_claim_decides() -> None:
    checks = {verdict: Check("", "", "", verdict) for verdict in (HOLDS, WEAKLY, FAILS, UNTESTED)}
    assert overall(list(checks.values())) == FAILS
    assert overall([checks[HOLDS], checks[UNTESTED]]) == HOLDS
    assert overall([checks[UNTESTED]]) == UNTESTED
    assert overall([]) == UNTESTED
