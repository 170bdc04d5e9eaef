"""`reproduce`: names, verdicts, files."""

from __future__ import annotations

from pathlib import Path

from sigmascope_papers.table import ITEMS, prose
from tests.cli.running import document, run


def test_the_names() -> None:
    lines = run("reproduce", "--list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(ITEMS)
    assert document(run("reproduce", "--list", "--json"))[1]["groups"]["items"] == {
        name: prose(name).shows for name in ITEMS
    }


def test_items_and_their_page(tmp_path: Path) -> None:
    result = run("reproduce", "fig2b", "fig2b", "fig3", "-o", tmp_path)
    assert result.exit_code == 0
    assert result.stdout.count("fig2b: ") == 1
    assert "claim" in result.stdout
    assert result.stdout.splitlines()[-1] == f"Written: {tmp_path}/index.html"
    assert "2/2 fig3: main claim holds, 9 of 9 claims hold" in result.stderr
    assert {"fig2b.svg", "fig2b.csv", "fig2b.json", "fig3.png", "index.html", "index.md"} <= {
        path.name for path in tmp_path.iterdir()
    }


def test_the_page_grows(tmp_path: Path) -> None:
    for name in ("fig3", "fig2b"):
        assert run("reproduce", name, "-o", tmp_path).exit_code == 0
    page = (tmp_path / "index.md").read_text()
    assert page.index("## fig2b") < page.index("## fig3")


def test_the_document(tmp_path: Path) -> None:
    kind, content = document(run("reproduce", "fig2b", "-o", tmp_path, "--json"))
    assert kind == "reproductions"
    assert content["outcomes"][0]["verdict"] == "holds"


def test_wrong_usage(tmp_path: Path) -> None:
    assert run("reproduce").exit_code == 2
    result = run("reproduce", "fig2b", "fig99", "-o", tmp_path)
    assert result.exit_code == 1
    assert "fig2a" in result.stderr  # all names are told
    assert not list(tmp_path.iterdir())  # before any work


def test_an_item_that_cannot_be_had_does_not_cost_the_others(tmp_path: Path) -> None:
    result = run(
        "reproduce", "fig10", "fig3", "-o", tmp_path, "--weights", "none", "--data", "random"
    )
    assert result.exit_code == 3
    assert "fig10: this item is about networks of the zoo only" in result.stderr
    assert "fig3: " in result.stdout
    assert (tmp_path / "index.html").exists()
    assert (
        run("reproduce", "fig10", "-o", tmp_path, "--weights", "none", "--data", "random").exit_code
        == 1
    )


def test_items_about_certain_networks_take_no_others(tmp_path: Path) -> None:
    for name in ("sym-fig1", "sym-fig2", "sym-table3"):
        result = run("reproduce", name, "-o", tmp_path, "--network", "sigmascope/resnet20:0")
        assert result.exit_code == 1
        assert (
            f"{name}: this item is about certain networks of the zoo only. Leave out --network."
            in result.stderr
        )
    assert not list(tmp_path.iterdir())
