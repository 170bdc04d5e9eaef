"""`reproduce --smoke`: experiments in a tiny size, without a verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sigmascope.errors import InputError
from sigmascope_papers import run as running
from sigmascope_papers.item import HOLDS, UNTESTED
from sigmascope_papers.run import ARITHMETIC, load_outcome
from sigmascope_papers.table import EXPERIMENTS, ITEMS, item
from tests.cli.running import document, run

ZOO = Path(__file__).resolve().parents[2] / "zoo"
SYMMETRY = list(EXPERIMENTS)


# sym-orderings runs five of the others
TRIED = [name for name in SYMMETRY if name not in (*ARITHMETIC, "sym-orderings")]


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """All items in one run: the folder, and the outcomes by name."""
    folder = tmp_path_factory.mktemp("tried")
    kind, content = document(
        run("reproduce", *TRIED, "--smoke", "-o", folder, "--json", SIGMASCOPE_ZOO=str(ZOO))
    )
    assert (kind, content["failures"]) == ("reproductions", {})
    return folder, {outcome["name"]: outcome for outcome in content["outcomes"]}


@pytest.mark.parametrize("name", TRIED)
def test_every_item_runs_in_a_tiny_size(
    name: str, tried: tuple[Path, dict[str, dict[str, Any]]]
) -> None:
    folder, outcomes = tried
    outcome = outcomes[name]
    assert (outcome["name"], outcome["verdict"], outcome["reason"]) == (name, UNTESTED, "")
    assert {check["verdict"] for check in outcome["checks"]} == {UNTESTED}
    assert "tiny size" in outcome["run"]
    assert outcome["figures"]
    pictures = {
        f"{figure}.{ending}" for figure in outcome["figures"] for ending in ("svg", "png", "csv")
    }
    own = {path for path in folder.iterdir() if path.stem in (name, *outcome["figures"])}
    assert {path.name for path in own} == {*pictures, f"{name}.json"}
    assert min(path.stat().st_size for path in own) > 100


def test_a_tiny_run_keeps_no_results(tried: tuple[Path, dict[str, dict[str, Any]]]) -> None:
    folder, outcomes = tried
    figures = {figure for outcome in outcomes.values() for figure in outcome["figures"]}
    assert {path.stem for path in folder.iterdir()} == {*TRIED, *figures, "index"}
    assert all(path.is_file() for path in folder.iterdir())


@pytest.mark.parametrize("name", ARITHMETIC)
def test_items_without_networks_run_in_full(name: str, tmp_path: Path) -> None:
    tried, plain = tmp_path / "tried", tmp_path / "plain"
    for out, options in ((tried, ("--smoke",)), (plain, ())):
        (outcome,) = document(
            run("reproduce", name, *options, "-o", out, "--json", SIGMASCOPE_ZOO="no zoo")
        )[1]["outcomes"]
        assert (outcome["name"], outcome["verdict"], outcome["run"]) == (name, HOLDS, "")
        assert {check["verdict"] for check in outcome["checks"]} == {HOLDS}
    for ending in ("svg", "png", "csv"):  # the document has the seconds too
        file = f"{name}.{ending}"
        assert (tried / file).read_bytes() == (plain / file).read_bytes()


@pytest.mark.parametrize("name", SYMMETRY)
def test_only_items_that_ask_for_nothing_run_in_full(name: str) -> None:
    class Nothing:
        """A setting that cannot be asked."""

        def __getattr__(self, attribute: str) -> object:
            raise InputError(f"asks for {attribute}.")

    if name in ARITHMETIC:
        item(name).measure(Nothing())  # type: ignore[arg-type]
    else:
        with pytest.raises(InputError, match="asks for"):
            item(name).measure(Nothing())  # type: ignore[arg-type]


def test_networks_without_weights_are_tried_too(tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run(
        "reproduce", "sym-fig4", "--smoke", "-o", out, SIGMASCOPE_ZOO=str(tmp_path / "no zoo")
    )
    assert (result.exit_code, result.stderr) == (0, "")
    first, *lines = result.stdout.splitlines()
    assert first.startswith("sym-fig4: ")
    assert first.endswith(f": main claim {UNTESTED}, 0 of 5 claims hold, 5 {UNTESTED}")
    assert sum(line.endswith(UNTESTED) for line in lines) == 6
    assert (
        "Run: a tiny size, which shows that everything runs and says nothing about the paper."
        in lines
    )
    page = (out / "index.md").read_text()
    for heading in ("Budget", "Exact", "Uncertainty"):  # which are about the run in full
        assert f"{heading}:" not in result.stdout + page
    assert lines[-1] == f"Written: {out}/index.html"
    files = {f"sym-fig4.{ending}" for ending in ("svg", "png", "csv", "json")}
    # no results of the experiment
    assert {path.name for path in out.iterdir()} == {*files, "index.html", "index.md"}
    assert UNTESTED in (out / "index.md").read_text()


def test_a_result_in_full_is_not_replaced(tmp_path: Path) -> None:
    assert run("reproduce", "sym-fig2", "-o", tmp_path, SIGMASCOPE_ZOO=str(ZOO)).exit_code == 0
    before = {path: path.read_bytes() for path in tmp_path.glob("sym-fig2*")}
    result = run("reproduce", "sym-fig2", "--smoke", "-o", tmp_path, SIGMASCOPE_ZOO=str(ZOO))
    assert result.exit_code == 1
    told = " ".join(result.stderr.split())
    assert (
        "sym-fig2.json is a result in full, which --smoke would replace. Choose another "
        "directory: -o DIR." in told
    )
    assert before == {path: path.read_bytes() for path in tmp_path.glob("sym-fig2*")}


def test_a_tiny_result_is_replaced(tmp_path: Path) -> None:
    for options in (("--smoke",), ("--smoke",), ()):
        assert (
            run(
                "reproduce", "sym-fig2", *options, "-o", tmp_path, SIGMASCOPE_ZOO=str(ZOO)
            ).exit_code
            == 0
        )
        outcome = load_outcome(tmp_path / "sym-fig2.json")
        assert (outcome.verdict == UNTESTED, outcome.budget == "") == (bool(options),) * 2


@pytest.mark.parametrize(
    ("names", "told"), [(("fig3",), "fig3"), (("sym-fig4", "fig3", "fig2a"), "fig3, fig2a")]
)
def test_items_of_the_other_paper_are_not_tried(
    names: tuple[str, ...], told: str, tmp_path: Path
) -> None:
    result = run("reproduce", *names, "--smoke", "-o", tmp_path)
    assert result.exit_code == 2
    assert f"--smoke is for items sym-…; {told} takes seconds without it." in result.stderr
    assert not list(tmp_path.iterdir())  # before any work


def test_an_unknown_name_is_told(tmp_path: Path) -> None:
    result = run("reproduce", "sym-fig99", "--smoke", "-o", tmp_path)
    assert result.exit_code == 1
    assert "sym-fig17" in result.stderr


@pytest.mark.parametrize(("options", "items"), [(("--smoke",), SYMMETRY), ((), list(ITEMS))])
def test_all_are_those_that_can_be_tried(
    options: tuple[str, ...], items: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def refuse(name: str, out: str, *, setting: Any) -> None:
        assert (setting.smoke, setting.from_scratch) == (bool(options),) * 2
        asked.append(name)
        raise InputError("not now.")

    monkeypatch.setattr(running, "reproduce", refuse)
    assert run("reproduce", "all", *options, "-o", tmp_path).exit_code == 1
    assert asked == items
