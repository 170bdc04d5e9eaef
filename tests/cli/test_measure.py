"""`measure`: what is printed, written and returned."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import sigmascope as sg
from sigmascope.runs.folder import files_of
from sigmascope.store import claim, encode
from tests.cli.running import document, run
from tests.runs.tiny import names_in

DATA = ("--data", "random:8", "--limit", "64", "--batch-size", "16")


def test_one_network_is_a_table(tmp_path: Path) -> None:
    [name] = names_in(tmp_path, "conv")
    result = run("measure", name, *DATA, "-o", tmp_path / "conv.json")
    assert result.exit_code == 0
    assert (
        result.stdout == f"{sg.load(tmp_path / 'conv.json')!r}\n\nWritten: {tmp_path}/conv.json\n"
    )
    assert re.fullmatch(rf"1/1 {re.escape(name)}: measured in \d+\.\d s\n", result.stderr)
    assert run("measure", name, *DATA).stdout == f"{sg.load(tmp_path / 'conv.json')!r}\n"


def test_a_file_has_its_facts_beside_it_and_replaces_no_other(tmp_path: Path) -> None:
    names = names_in(tmp_path, "conv", "wide")
    for name in names:
        assert (
            run("measure", name, *DATA, "-o", tmp_path / "new" / f"{name[-4:]}.json").exit_code == 0
        )
    assert "75.5000" in run("compare", tmp_path / "new").stdout
    (tmp_path / "mine.json").write_text("{}")
    result = run("measure", names[0], *DATA, "-o", tmp_path / "mine.json")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"Error: {tmp_path}/mine.json exists and is not a signature file. Choose another name, or "
        "remove it first.\n"
    )
    assert (tmp_path / "mine.json").read_text() == "{}"
    assert "is measured again" in " ".join(run("measure", "--help").stdout.split())


def test_options_reach_the_library(tmp_path: Path) -> None:
    [name] = names_in(tmp_path, "conv")
    more = [
        "--metrics",
        "cka",
        "--metrics",
        "norm",
        "--covariance",
        "biased",
        "--eps",
        "1e-6",
        "--pool",
        "sum",
        "--seed",
        "7",
    ]
    result = run(
        "measure", name, *DATA, *more, "--max-batches", "2", "-o", tmp_path / "runs", "--json"
    )
    kind, content = document(result)
    assert kind == "measurement"
    options = content["request"]["options"]
    assert (options["metrics"], options["covariance"], options["pool"]) == (
        ["cka", "norm"],
        "biased",
        "sum",
    )
    assert (options["seed"], options["max_batches"], options["eps"]) == (7, 2, 1e-6)
    [network] = content["networks"]
    assert network["signature"] == encode(sg.load(network["path"]))
    assert network["signature"]["batches"] == 2
    assert network["signature"]["options"] == options


def test_gates_are_an_option(tmp_path: Path) -> None:
    [name] = names_in(tmp_path, "conv")
    for more, gates in (([], "alone"), (["--gates", "unit"], "unit")):
        out = tmp_path / f"{gates}.json"
        assert run("measure", name, *DATA, *more, "-o", out).exit_code == 0
        assert sg.load(out).options.gates == gates
    result = run("measure", name, *DATA, "--gates", "no")
    assert "'no' is not one of 'alone', 'unit', 'out'" in result.stderr


@pytest.mark.parametrize(
    ("more", "estimator", "columns"),
    [
        ([], "both", ["score", "population"]),
        (["--estimator", "population"], "population", ["population"]),
        (["--estimator", "published"], "published", ["score", "std"]),
        (["--samples", "positions"], "population", ["population"]),
        (["--samples", "positions", "--estimator", "both"], "both", ["score", "population"]),
    ],
    ids=str,
)
def test_estimators(more: list[str], estimator: str, columns: list[str], tmp_path: Path) -> None:
    [name] = names_in(tmp_path, "conv")
    out = tmp_path / "conv.json"
    result = run("measure", name, *DATA, *more, "--max-positions", "3", "-o", out)
    assert result.exit_code == 0, result.stderr
    found = sg.load(out)
    assert (found.options.estimator, found.options.max_positions) == (estimator, 3)
    head = next(line for line in result.stdout.splitlines() if line.startswith("site"))
    assert head.split()[3:] == columns
    rows = 64 * (3 if "positions" in more else 1)
    assert found.sites[0].population_n == (0 if estimator == "published" else rows)
    assert {path.name for path in tmp_path.iterdir() if "conv.json" in path.name} == {out.name}


def test_all_metrics(tmp_path: Path) -> None:
    [name] = names_in(tmp_path, "conv")
    _, content = document(run("measure", name, *DATA, "--metrics", "all", "--json"))
    assert content["request"]["options"]["metrics"] == ["cka", "norm", "sparsity", "entropy", "r2"]
    assert content["request"]["options"]["eps"] is None
    assert (content["out"], content["networks"][0]["path"]) == (None, None)


def test_several_networks_are_a_line_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names_in(tmp_path)
    monkeypatch.chdir(tmp_path)
    names = ["py:networks.py:conv", "py:networks.py:wide", "py:networks.py:silent"]
    result = run("measure", *names, *DATA, "-o", "runs")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert (
        lines[0] == "network                sites  scored     min  median     max    mean     std"
    )
    number = r" +0\.\d{4}"
    assert re.fullmatch(rf"py:networks\.py:conv        2       2(?:{number}){{5}}", lines[1])
    assert re.fullmatch(rf"py:networks\.py:wide        2       2(?:{number}){{5}}", lines[2])
    assert (
        lines[3] == "py:networks.py:silent      1       0       –       –       –       –       –"
    )
    assert {len(line) for line in lines[:4]} == {len(lines[0])}
    assert lines[4:] == ["", "Written: 3 signatures in runs"]
    again = run("measure", *names, *DATA, "-o", "runs")
    assert (again.exit_code, again.stdout.splitlines()) == (0, lines[:4])
    assert again.stderr == "".join(
        f"{number}/3 {name}: already there\n" for number, name in enumerate(names, 1)
    )


def test_a_failing_network_does_not_stop_the_rest(tmp_path: Path) -> None:
    names = [*names_in(tmp_path, "broken", "conv"), "sigmascope/resnt20"]
    result = run("measure", *names, *DATA, "-o", tmp_path / "runs")
    assert result.exit_code == 3
    assert result.stderr.splitlines()[3:] == [
        "Error: 2 of 3 networks failed; the same command tries them again:",
        f"  {names[0]}: RuntimeError: the first line and the second",
        "  sigmascope/resnt20 is not in the catalog. "
        "Did you mean 'sigmascope/resnet20' or 'sigmascope/resnet32' or "
        "'sigmascope/resnet20-noisy'? Run `sigmascope list models` for all names.",
        f"To see why, try one alone: sigmascope --debug measure {names[0]} --data random:8 "
        "--limit 64 --batch-size 16",
    ]
    assert "conv" in result.stdout
    assert "broken" not in result.stdout
    _, content = document(run("measure", *names, *DATA, "-o", tmp_path / "runs", "--json"))
    assert [one["state"] for one in content["networks"]] == ["failed", "kept", "failed"]
    assert content["networks"][0]["failure"]["error"] == "RuntimeError"
    assert content["networks"][0]["signature"] is None
    with_traceback = run("--debug", "measure", *names, *DATA, "-o", tmp_path / "runs")
    assert with_traceback.exit_code == 3
    assert "in broken" in with_traceback.stderr
    assert "Traceback" not in result.stderr


def test_without_any_score_it_is_not_done(tmp_path: Path) -> None:
    names = names_in(tmp_path, "silent", "conv")
    for state in ("measured", "already there"):
        result = run("measure", names[0], *DATA, "-o", tmp_path / "runs")
        assert result.exit_code == 3
        assert f"1/1 {names[0]}: {state}" in result.stderr
        assert f"Note: {names[0]} has no score at all: nothing is known of" in result.stderr
    assert run("measure", *names, *DATA, "-o", tmp_path / "both").exit_code == 0


def test_usage_of_a_child_process(tmp_path: Path) -> None:
    names = names_in(tmp_path, "conv", "wide")
    for option in (["--isolate"], ["--time-limit", "9"]):
        result = run("measure", names[0], *DATA, *option, "-o", tmp_path / "x.json")
        assert result.exit_code == 2
        assert f"{option[0]} needs a directory: pass one with -o." in result.stderr
    result = run("measure", *names, *DATA, "-o", tmp_path / "runs", "--skip", "x")
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (
        2,
        "Error: --skip x: it is not one of the networks to measure.",
    )
    result = run("measure", *names, *DATA, "-o", tmp_path / "runs", "--skip", names[0])
    assert result.exit_code == 0
    assert f"1/2 {names[0]}: left out" in result.stderr
    result = run("measure", *names, *DATA, "-o", tmp_path / "runs", "--time-limit", "0")
    assert result.exit_code == 1
    assert "time_limit must be > 0 seconds" in result.stderr


def test_nothing_but_failures_is_an_error(tmp_path: Path) -> None:
    names = names_in(tmp_path, "broken", "leaves")
    assert run("measure", *names, *DATA).exit_code == 1
    result = run("measure", names[0], *DATA, "-o", tmp_path / "x.json")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.splitlines()[1:] == [
        f"Error: {names[0]}: RuntimeError: the first line and the second"
    ]
    assert not (tmp_path / "x.json").exists()


def test_another_request_is_refused(tmp_path: Path) -> None:
    names = names_in(tmp_path, "conv", "wide")
    run("measure", *names, *DATA, "-o", tmp_path / "runs")
    result = run("measure", *names, *DATA, "--seed", "1", "-o", tmp_path / "runs")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"Error: {tmp_path}/runs belongs to another run: options.seed is 0 there and 1 here. "
        "Use the same settings, choose another path, or remove it first.\n"
    )


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    [name] = names_in(tmp_path, "conv")
    before = sorted(tmp_path.iterdir())
    result = run("measure", name, *DATA, "-o", tmp_path)
    assert result.exit_code == 1
    assert "contains other files, such as networks.py" in result.stderr
    assert [path for path in sorted(tmp_path.iterdir()) if not path.name.startswith(".")] == before


def test_shards(tmp_path: Path) -> None:
    names = names_in(tmp_path, "conv", "wide", "held")
    for index, found in ((1, 2), (2, 1), (3, 0)):
        shard = f"{index}/{3 if index == 3 else 2}"
        result = run("measure", *names, *DATA, "-o", tmp_path / "runs", "--shard", shard)
        assert result.exit_code == 0
        assert result.stderr.count("measured in") == found
    assert len(list((tmp_path / "runs").glob("*.facts.json"))) == 3


def test_a_network_in_other_hands_is_told(tmp_path: Path) -> None:
    names = names_in(tmp_path, "conv", "wide")
    with claim(files_of(tmp_path / "runs", names[0]).lock):
        result = run("measure", *names, *DATA, "-o", tmp_path / "runs")
    assert result.exit_code == 3
    assert f"Note: another process is measuring {names[0]}." in result.stderr
    assert run("measure", *names, *DATA, "-o", tmp_path / "runs").exit_code == 0


def test_a_journal_of_another_run_can_be_dropped(tmp_path: Path) -> None:
    [name] = names_in(tmp_path, "conv")
    (tmp_path / ".x.json.journal").write_text("mine\n")
    result = run("measure", name, *DATA, "-o", tmp_path / "x.json")
    assert result.exit_code == 1
    assert ".x.json.journal is not a journal of sigmascope" in result.stderr
    (tmp_path / ".x.json.journal").unlink()
    sg.signature(torch.nn.ReLU(), [torch.randn(8, 2)], resume=tmp_path / ".x.json.journal")
    result = run("measure", name, *DATA, "-o", tmp_path / "x.json")
    assert result.exit_code == 1
    assert "belongs to another run" in result.stderr
    assert result.stderr.endswith("Or measure it again with --no-resume.\n")
    assert run("measure", name, *DATA, "-o", tmp_path / "x.json", "--no-resume").exit_code == 0


def test_a_table_of_several_batches_and_all_companions(tmp_path: Path) -> None:
    [name] = names_in(tmp_path, "conv")
    result = run("measure", name, *DATA, "--metrics", "all")
    assert result.exit_code == 0
    head = next(line for line in result.stdout.splitlines() if line.startswith("site"))
    assert head.split() == [
        "site",
        "activation",
        "dim",
        "score",
        "population",
        "cka",
        "norm",
        "sparsity",
        "entropy",
        "r2",
    ]
