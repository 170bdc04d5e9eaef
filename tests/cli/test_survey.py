"""`sigmascope measure --on`, `--plan`, `--shard auto`, @FILE, and `sigmascope watch`."""

from __future__ import annotations

from pathlib import Path

import pytest

from sigmascope.runs import measure_runs
from tests.cli.running import document, run
from tests.runs.tiny import asked, names_in

DATA = ("--data", "random:8", "--limit", "64", "--batch-size", "16")


@pytest.mark.slow
def test_a_survey_from_a_file_of_names(tmp_path: Path) -> None:
    names = names_in(tmp_path, "conv", "broken", "wide")
    (tmp_path / "names.txt").write_text("# all\n\n" + "\n".join(names) + "\n")
    command = ("measure", f"@{tmp_path}/names.txt", *DATA, "-o", tmp_path / "runs")
    result = run(*command, "--on", "local:1", "--device", "cpu")
    assert result.exit_code == 3, result.stderr
    rows = [line.split()[0] for line in result.stdout.splitlines()[1:3]]  # long names are cut
    assert [row.rpartition(":")[2] for row in rows] == ["conv", "wide"]
    assert f"  {names[1]}: RuntimeError: the first line and the second" in result.stderr
    assert f"try one alone: sigmascope --debug measure {names[1]}" in result.stderr
    # the same directory, without an engine
    again = run(*command, "--json")
    assert [one["state"] for one in document(again)[1]["networks"]] == ["kept", "failed", "kept"]


def test_a_plan_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sigmascope.runs.executors.resources.has_slurm", lambda: True)
    names = names_in(tmp_path, "conv", "broken", "wide")
    command = ("measure", *names, *DATA, "-o", tmp_path / "runs", "--plan")
    result = run(*command, "--on", "slurm:gpu", "--pending", "2", "--gpus", "1")
    assert result.exit_code == 0, result.stderr
    assert "networks   3: 3 open; 3 to measure" in result.stdout
    assert "where      Slurm, partition gpu; 2 at a time" in result.stdout
    assert "data       64 samples in 4 batches for each network" in result.stdout
    assert "RuntimeError: the first line" in result.stdout
    assert not (tmp_path / "runs").exists()
    wide = run(*command, "--on", "local:9").stdout
    assert "where      9 processes of this machine; 3 at a time" in wide
    monkeypatch.setattr("sigmascope.runs.executors.resources.has_slurm", lambda: False)
    assert "since it has no sbatch" in run(*command, "--on", "slurm").stdout
    list(measure_runs(asked(names), tmp_path / "runs", skip=names[2:]))
    kind, content = document(run(*command, "--json"))
    assert kind == "plan"
    assert content["plan"]["states"] == {"finished": 1, "failed": 1, "running": 0, "open": 1}
    assert content["plan"]["open"] == names[1:]
    assert content["seconds"] > 0
    other = run("measure", *names, "--data", "random:8", "-o", tmp_path / "runs", "--plan")
    assert (other.exit_code, "belongs to another run" in other.stderr) == (1, True)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["a", "--gpus", "1"], "--gpus needs an engine: pass one with --on"),
        (["a", "--on", "ray"], "--on needs a shared directory: pass one with -o."),
        (["a", "--on", "ray", "-o", "x.json"], "--on needs a shared directory"),
        (["@none.txt"], "@none.txt: the file none.txt cannot be read (No such file"),
        (["a", "--shard", "auto/0", "-o", "r"], "'auto/0' is not a shard"),
        (["a", "--pending", "0", "--on", "ray", "-o", "r"], "0 is not in the range x>=1"),
    ],
)
def test_wrong_usage(words: list[str], told: str) -> None:
    result = run("measure", *words, "--data", "random:8")
    assert result.exit_code == 2
    assert told in result.stderr


def test_the_shard_of_a_job_array(tmp_path: Path) -> None:
    names = names_in(tmp_path, "conv", "wide")
    command = ("measure", *names, *DATA, "-o", tmp_path / "runs", "--shard", "auto")
    rank = {"RANK": "1", "WORLD_SIZE": "2", "SLURM_ARRAY_TASK_ID": "", "LSB_JOBINDEX": ""}
    result = run(*command, "--plan", **rank)
    assert "Shard 2 of 2." in result.stderr
    assert "networks   1: 1 open; 1 to measure" in result.stdout
    alone = run(*command, RANK="", SLURM_ARRAY_TASK_ID="", LSB_JOBINDEX="")
    assert (alone.exit_code, "finds no job array" in alone.stderr) == (1, True)


def test_watch(tmp_path: Path) -> None:
    names = names_in(tmp_path, "conv", "broken", "wide")
    missing = run("watch", tmp_path / "runs", "--once")
    assert (missing.exit_code, "is not a directory of runs, or not yet" in missing.stderr) == (
        1,
        True,
    )
    list(measure_runs(asked(names), tmp_path / "runs", skip=names[2:]))
    result = run("watch", tmp_path / "runs", "--once")
    assert result.exit_code == 3
    assert result.stdout.splitlines()[0] == "1/3 done, 1 failed, 1 to measure"
    assert f"  {names[1]}: RuntimeError: the first line and the second" in result.stdout
    assert f"To see why, try one alone: sigmascope --debug measure {names[1]}" in result.stdout
    list(measure_runs(asked(names), tmp_path / "runs"))
    followed = run("watch", tmp_path / "runs", "--json")  # all have ended
    kind, content = document(followed)
    assert kind == "survey"
    assert (content["finished"], content["failed"], content["open"]) == (2, 1, 0)
    assert content["networks_failed"] == {names[1]: "RuntimeError: the first line and the second"}
    assert "2/3 done, 1 failed" in followed.stderr


def test_watch_names_a_network_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGMASCOPE_ZOO", str(tmp_path / "no zoo"))
    name = "sigmascope/resnet56"
    list(measure_runs(asked([name]), tmp_path / "runs"))
    result = run("watch", tmp_path / "runs", "--once")
    assert f"  {name}: the package ships weights for" in result.stdout


def test_a_selection_is_shown_and_compared(tmp_path: Path) -> None:
    names = names_in(tmp_path, "conv", "wide", "silent")
    list(measure_runs(asked(names), tmp_path / "runs"))
    shown = document(run("show", tmp_path / "runs", "--json", "--only", "*:wide"))[1]
    assert [one["name"] for one in shown] == names[1:2]
    compared = document(run("compare", tmp_path / "runs", "--json", "--only", ":conv"))[1]
    assert names[0] in str(compared)
    assert names[1] not in str(compared)
    assert "no signature of nothing" in run("show", tmp_path / "runs", "--only", "nothing").stderr
