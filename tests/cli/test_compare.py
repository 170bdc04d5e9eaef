"""`compare`, `show` and `report` on signatures of given numbers."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

import sigmascope as sg
from sigmascope.cli.report import _facts
from sigmascope.compare.distances import distances
from sigmascope.measure.result import Signature
from sigmascope.runs import read_runs
from sigmascope.runs.outcome import Facts, write_record
from sigmascope.store import encode
from tests.cli.running import document, run
from tests.compare.made import made, populated
from tests.runs.tiny import names_in

SCORES = {"alpha": [0.9, 0.8, 0.7], "beta": [0.9, 0.8, 0.6], "gamma": [0.2, 0.1]}

TEXT = """\
network  sites     min  median     max    mean     std  spread     iqr
alpha        3  0.7000  0.8000  0.9000  0.8000  0.0816  0.2000  0.1000
beta         3  0.6000  0.8000  0.9000  0.7667  0.1247  0.3000  0.1500
gamma        2  0.1000  0.1500  0.2000  0.1500  0.0500  0.1000  0.0500

network  accuracy  parameters      flops  depth
alpha     76.1000        1000  123456789      3
beta            –           –          –      –
gamma     50.0000         500          –      –

Distances by dynamic time warping, published scores

network       1       2       3
1 alpha  0.0000  0.1000  1.1000
2 beta   0.1000  0.0000  1.0488
3 gamma  1.1000  1.0488  0.0000

Clustering of 3 networks, average linkage, published scores

merge  one    other    height  networks
    1  beta   alpha    0.1000         2
    2  gamma  merge 1  1.0744         3

Group 1: alpha, beta
Group 2: gamma

Nearest neighbors

network  nearest  distance  second  its distance
alpha    beta       0.1000  gamma         1.1000
beta     alpha      0.1000  gamma         1.0488
gamma    beta       1.0488  alpha         1.1000
"""


@pytest.fixture
def signatures() -> list[Signature]:
    return [made(name, scores) for name, scores in SCORES.items()]


@pytest.fixture
def folder(tmp_path: Path, signatures: list[Signature]) -> Path:
    for one in signatures:
        one.save(tmp_path / f"{one.name}.json")
    write_record(tmp_path / "alpha.facts.json", Facts("alpha", 76.1, 1000, 123456789, 3, "w"))
    write_record(tmp_path / "gamma.facts.json", Facts("gamma", 50.0, 500, None, None, "w"))
    return tmp_path


def test_the_text(folder: Path) -> None:
    result = run("compare", folder, "--groups", "2")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == TEXT


def test_files_that_a_shell_names(folder: Path) -> None:
    assert run("compare", *sorted(folder.iterdir()), "--groups", "2").stdout == TEXT


def test_the_document(folder: Path, signatures: list[Signature]) -> None:
    kind, content = document(
        run(
            "compare",
            folder,
            "--json",
            "--linkage",
            "single",
            "--normalize",
            "path",
            "--groups",
            "3",
        )
    )
    found = distances(signatures, normalize="path")
    tree = found.cluster("single")
    assert kind == "comparison"
    assert content["names"] == ["alpha", "beta", "gamma"]
    assert content["paths"] == [str(folder / f"{name}.json") for name in SCORES]
    assert content["statistics"]["median"] == pytest.approx([0.8, 0.8, 0.15])
    assert content["facts"][1] is None
    assert content["facts"][2] == {
        "name": "gamma",
        "accuracy": 50.0,
        "parameters": 500,
        "flops": None,
        "depth": None,
        "weights": "w",
    }
    assert content["distances"] == {
        "by": "published",
        "normalize": "path",
        "matrix": found.matrix.tolist(),
    }
    assert content["clusters"] == {
        "method": "single",
        "order": tree.order,
        "merges": tree.linkage.tolist(),
    }
    assert content["groups"] == [["alpha"], ["beta"], ["gamma"]]
    assert content["neighbors"][2][0] == {
        "name": "beta",
        "distance": pytest.approx(found.matrix[2, 1]),
    }


def test_more_networks_than_a_line_holds(tmp_path: Path) -> None:
    for number in range(14):
        made(f"network-{number:02d}", [number / 20, 0.5]).save(tmp_path / f"{number:02d}.json")
    result = run("compare", tmp_path)
    assert result.exit_code == 0
    assert "network-13  network-12" in result.stdout
    assert max(map(len, result.stdout.splitlines())) < 120


def test_one_network_has_no_distances(folder: Path) -> None:
    result = run("compare", folder / "beta.json")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [TEXT.splitlines()[0], TEXT.splitlines()[2]]
    assert result.stderr == "Note: distances need at least two networks.\n"
    kind, content = document(run("compare", folder / "beta.json", "--json"))
    assert (kind, content["clusters"], content["neighbors"]) == ("comparison", None, [[]])


def test_what_has_no_score_is_left_out_and_told(folder: Path) -> None:
    made("nothing", [math.nan, math.nan]).save(folder / "nothing.json")
    result = run("compare", folder, "--groups", "2")
    assert result.exit_code == 3
    assert result.stdout == TEXT
    assert (
        result.stderr
        == f"Note: nothing ({folder}/nothing.json) has no score at all and is left out.\n"
    )
    result = run("compare", folder / "nothing.json")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith("Error: There are no signatures")


def test_more_groups_than_networks(folder: Path) -> None:
    result = run("compare", folder, "--groups", "4")
    assert result.exit_code == 2
    assert "--groups 4 exceeds the number of networks, 3." in result.stderr


def test_files_of_others_are_told(folder: Path) -> None:
    (folder / "notes.txt").write_text("mine")
    result = run("compare", *sorted(folder.iterdir()), "--groups", "2")
    assert (result.exit_code, result.stdout) == (0, TEXT)
    assert result.stderr == f"Note: ignored {folder}/notes.txt: not written by sigmascope.\n"


def test_show_prints_what_a_signature_prints(folder: Path, signatures: list[Signature]) -> None:
    result = run("show", folder)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "\n\n".join(map(repr, signatures)) + "\n"


def test_show_as_a_document(folder: Path, signatures: list[Signature]) -> None:
    kind, content = document(run("show", folder, "--json"))
    assert (kind, content) == ("signatures", encode(signatures))


def test_report_writes_the_page(folder: Path) -> None:
    result = run("report", folder, "-o", folder / "new" / "page.html")
    page = folder / "new" / "page.html"
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"Written: {page} (3 networks, {page.stat().st_size / 1000:.0f} kB)\n"
    assert page.read_text().startswith("<!doctype html>")
    kind, content = document(run("report", folder, "-o", page, "--json"))
    assert kind == "written"
    assert content == {"path": str(page), "bytes": page.stat().st_size, "networks": list(SCORES)}


@pytest.mark.parametrize("content", [b"", b"mine", b"<!doctype html><title>mine</title>"])
def test_report_replaces_nothing_but_pages(folder: Path, content: bytes) -> None:
    (folder / "page.html").write_bytes(content)
    result = run("report", folder, "-o", folder / "page.html")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"Error: {folder}/page.html exists and is not a report. Pass another name with -o, or "
        "remove it first.\n"
    )
    assert (folder / "page.html").read_bytes() == content


def test_report_never_replaces_its_input(folder: Path, signatures: list[Signature]) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for target in (folder / "alpha.json", folder / "manifest.json", folder / "new.JSON"):
        result = run("report", folder, "-o", target)
        assert result.exit_code == 2
        assert f"{target} is the name of a signature file" in result.stderr
    odd = signatures[0].save(folder / "alpha.signature")
    assert run("report", odd, "-o", odd).exit_code == 1
    odd.unlink()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_folder_that_lacks_networks_is_partial(tmp_path: Path) -> None:
    names = names_in(tmp_path, "conv", "broken", "wide")
    data = ("--data", "random:8", "--limit", "64", "--batch-size", "16")
    assert run("measure", *names, *data, "-o", tmp_path / "runs").exit_code == 3
    note = f"Note: {tmp_path}/runs has no signature of {names[1]}: it failed.\n"
    for arguments in (
        ["compare", tmp_path / "runs"],
        ["report", tmp_path / "runs", "-o", tmp_path / "page.html"],
    ):
        result = run(*arguments)
        assert (result.exit_code, result.stderr) == (3, note)
    page = (tmp_path / "page.html").read_text()
    assert '"data":"random:8"' in page
    assert '"samples":64' in page
    assert "RuntimeError: the first line and the second" in page
    assert "75.5" in page
    files = [path for path in (tmp_path / "runs").glob("*.json") if "broken" not in path.name]
    assert run("compare", *files).exit_code == 0


def test_what_show_prints_can_be_compared(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    shown = tmp_path / "elsewhere" / "s.json"
    shown.write_text(run("show", folder, "--json").stdout)
    result = run("compare", shown, "--groups", "2")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.split("\n\n")[2:] == TEXT.split("\n\n")[3:]  # all but the facts


def test_report_keeps_the_facts_of_namesakes_apart(tmp_path: Path) -> None:
    for place, accuracy in (("a", None), ("b", 61.25), ("c", 62.5)):
        path = made("same", [0.5, 0.6]).save(tmp_path / place / "same.json")
        if accuracy:
            write_record(
                path.with_name("same.facts.json"), Facts("same", accuracy, 1000, 10, 3, "w")
            )
    found = read_runs([tmp_path / place for place in "abc"]).runs
    known = {name: facts and facts.accuracy for name, facts in _facts(found).items()}
    assert known == {"same": None, "same (2)": 61.25, "same (3)": 62.5}
    assert (
        run(
            "report", *(tmp_path / place for place in "abc"), "-o", tmp_path / "page.html"
        ).exit_code
        == 0
    )
    assert "61.25" in (tmp_path / "page.html").read_text()


def test_report_cannot_replace_a_folder(folder: Path) -> None:
    result = run("report", folder, "-o", folder)
    assert result.exit_code == 1
    assert result.stderr == f"Error: {folder} is a directory. Pass the name of a file in it.\n"


def test_a_damaged_file_is_named(folder: Path) -> None:
    path = folder / "beta.json"
    path.write_text(path.read_text()[:-9])
    for command in ("show", "compare", "report"):
        result = run(command, folder)
        assert result.exit_code == 1
        assert result.stderr.startswith(
            f"Error: {path} is truncated, damaged or not a JSON file of sigmascope"
        )


def test_signatures_come_back_unchanged(folder: Path, signatures: list[Signature]) -> None:
    assert encode([sg.load(folder / f"{name}.json") for name in SCORES]) == encode(signatures)


def test_the_figures(folder: Path, tmp_path: Path) -> None:
    result = run("compare", folder, "--figures", tmp_path / "drawn")
    assert result.exit_code == 0
    names = {path.name for path in (tmp_path / "drawn").iterdir()}
    assert names == {
        f"{kind}.{ending}"
        for kind in ("signatures", "densities", "distances")
        for ending in ("svg", "png", "csv")
    }
    assert result.stderr.splitlines()[:3] == [
        f"Drawing {number}/3: {kind} of 3 networks"
        for number, kind in enumerate(("signatures", "densities", "distances"), 1)
    ]
    assert "distances.svg" in result.stderr
    assert "Written" not in result.stdout  # data only
    alone = run("compare", folder / "alpha.json", "--figures", tmp_path / "alone")
    assert alone.exit_code == 0
    assert not (tmp_path / "alone" / "distances.svg").exists()


@pytest.fixture
def certain(tmp_path: Path, signatures: list[Signature]) -> Path:
    for number, one in enumerate(signatures):
        populated(one, seed=number).save(tmp_path / "certain" / f"{one.name}.json")
    return tmp_path / "certain"


def test_intervals_are_printed(certain: Path) -> None:
    found = sg.statistics([sg.load(certain / f"{name}.json") for name in SCORES], by="population")
    text = run("compare", certain).stdout
    assert text.startswith("\n".join(TEXT.splitlines()[:4]) + f"\n\n{found!r}\n")
    assert "Population scores, a = " not in text
    alone = run("compare", certain, "--by", "population").stdout
    assert alone.startswith(f"{found!r}\n\nDistances")
    assert "Distances by dynamic time warping, population scores\n" in alone
    assert "average linkage, population scores\n" in alone
    kind, content = document(run("compare", certain, "--by", "population", "--json"))
    assert (kind, content["by"], content["population"]) == ("comparison", "population", None)
    assert content["half_width"]["mean"] == list(found.half_width["mean"])
    assert content["distances"]["matrix"][0][2] == pytest.approx(1.1, abs=1e-9)
    kind, content = document(run("compare", certain, "--json"))
    assert (content["by"], content["half_width"]) == ("published", {})
    assert content["population"]["statistics"]["mean"] == list(found.table["mean"])


def test_the_difference_of_two_networks(certain: Path, tmp_path: Path) -> None:
    paths = [certain / "alpha.json", certain / "beta.json"]
    found = sg.difference(*map(sg.load, paths))
    result = run("compare", *paths, "--figures", tmp_path / "drawn")
    assert f"\n\n{found!r}\n\n" in result.stdout
    assert (tmp_path / "drawn" / "difference.svg").is_file()
    _, content = document(run("compare", *paths, "--json"))
    assert content["difference"]["sites"][2]["difference"] == pytest.approx(0.1)
    assert content["difference"]["paired"]


def test_what_was_not_measured_cannot_be_compared(folder: Path, certain: Path) -> None:
    result = run("compare", folder / "alpha.json", "--by", "population")
    assert result.exit_code == 1
    assert "alpha was measured with estimator='published'" in result.stderr
    assert run("report", folder, "--by", "population", "-o", folder / "x.html").exit_code == 1
    assert run("report", certain, "--by", "published", "-o", certain / "x.html").exit_code == 0
    assert '"by":"published"' in (certain / "x.html").read_text()
    assert run("report", certain, "--by", "population", "-o", certain / "x.html").exit_code == 0
    assert '"by":"population"' in (certain / "x.html").read_text()


def test_report_and_compare_use_the_same_scores(certain: Path) -> None:
    assert run("report", certain, "-o", certain / "x.html").exit_code == 0
    page = (certain / "x.html").read_text()
    _, content = document(run("compare", certain, "--json"))
    for name in ("compare", "report"):
        assert "[default: published, if all have them]" in " ".join(
            run(name, "--help").stdout.split()
        )
    assert f'"by":"{content["by"]}"' in page
    assert str(content["distances"]["matrix"][1][0]) in page


def test_many_networks_have_their_price(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["sigmascope.compare.distances"], "MANY_PAIRS", 2)
    for name, scores in SCORES.items():
        made(name, scores).save(tmp_path / f"{name}.json")
    told = "Comparing 3 networks: 3 distances. Twice as many networks take four times as long.\n"
    result = run("compare", tmp_path)
    assert result.stderr.startswith(told)
    assert result.exit_code == 0
    result = run("report", tmp_path, "-o", tmp_path / "report.html")
    assert (result.exit_code, result.stderr) == (0, told)
    assert run("compare", tmp_path / "alpha.json", tmp_path / "beta.json").stderr == ""
