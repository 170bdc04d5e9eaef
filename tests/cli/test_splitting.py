"""`sigmascope measure --parts`: the data of a network divided among tasks."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import sigmascope as sg
from sigmascope.runs import Selection, load_runs, measure_runs
from sigmascope.runs.folder import files_of
from sigmascope.runs.parts_folder import parts_beside
from tests.cli.running import document, run
from tests.measure.same_signature import assert_same
from tests.runs.tiny import asked, names_in

DATA = ("--data", "random:8", "--limit", "70", "--batch-size", "16")
NOISE = Selection("random:8", limit=70, batch_size=16)


def found_in(folder: Path) -> sg.Signature:
    (found,) = load_runs([folder])
    return found


@pytest.mark.parametrize("flag", ["--parts", "--split"])
def test_parts_give_the_signature_of_one_process(tmp_path: Path, flag: str) -> None:
    (name,) = names_in(tmp_path, "conv")
    alone = run("measure", name, *DATA, "-o", tmp_path / "alone")
    split = run("measure", name, *DATA, flag, "3", "-o", tmp_path / "split")
    assert (alone.exit_code, split.exit_code) == (0, 0), split.output
    assert_same(found_in(tmp_path / "split"), found_in(tmp_path / "alone"))
    assert "already there" in run("measure", name, *DATA, "-o", tmp_path / "split").stderr


def test_without_a_directory_and_as_json(tmp_path: Path) -> None:
    (name,) = names_in(tmp_path, "conv")
    kind, content = document(run("measure", name, *DATA, "--parts", "2", "--json"))
    assert kind == "measurement"
    assert content["networks"][0]["state"] == "measured"


def test_a_part_that_fails_is_told(tmp_path: Path) -> None:
    (name,) = names_in(tmp_path, "broken")
    result = run("measure", name, *DATA, "--parts", "2", "-o", tmp_path / "runs")
    assert result.exit_code == 1
    assert "2 of 2 parts failed: batches 0 to 1 (RuntimeError: the first line" in result.stderr
    assert "the others are kept" not in result.stderr  # there are none


def test_a_plan_of_parts(tmp_path: Path) -> None:
    names = names_in(tmp_path, "conv", "wide")
    command = ("measure", *names, *DATA, "-o", tmp_path / "runs", "--plan", "--on", "local:2")
    result = run(*command, "--parts", "3")
    assert result.exit_code == 0, result.stderr
    assert "networks   2: 2 open; 2 to measure" in result.stdout
    assert "where      2 processes of this machine; 2 parts at a time" in result.stdout
    assert "data       70 samples in 5 batches for each network" in result.stdout
    assert "parts      3 for each network; 6 to measure\n" in result.stdout
    assert "for one part on this machine's CPU" in result.stdout
    assert not (tmp_path / "runs").exists()
    content = document(run(*command, "--parts", "9", "--json"))[1]["plan"]
    assert (content["parts"], content["missing"]) == (5, [5, 5])  # one for each batch

    list(measure_runs(asked(names, NOISE), tmp_path / "runs", skip=names))
    parts = parts_beside(files_of(tmp_path / "runs", names[1]).partial)
    parts.mkdir()
    (parts / "batches-000001-000003.safetensors").touch()  # the second of three
    again = run(*command, "--parts", "3")
    assert "parts      3 for each network; 5 to measure, 1 there already" in again.stdout
    assert "\nparts " not in run(*command).stdout


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (["--split", "4", "--parts", "4"], "--split 4 and --parts: pass one of them"),
        (["--split", "0"], "--split 0: a number of parts must be at least 1"),
        (["--parts", "0"], "0 is not in the range x>=1"),
        (["--parts", "2", "--shard", "1/2"], "--shard is for whole networks"),
        (["--parts", "2", "--isolate"], "--isolate is for whole networks"),
        (["--parts", "2", "--time-limit", "9"], "--time-limit with --parts needs Slurm"),
        (["--parts", "2", "--on", "ray"], "--on needs a shared directory"),
        (["--parts", "2", "--gpus", "1"], "--gpus needs an engine"),
    ],
)
def test_usage(more: list[str], text: str) -> None:
    result = run("measure", "sigmascope/resnet20", *DATA, *more)
    assert result.exit_code == 2
    assert text in result.stderr


@pytest.mark.thorough
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed")
def test_ray(tmp_path: Path) -> None:
    (name,) = names_in(tmp_path, "conv")
    run("measure", name, *DATA, "-o", tmp_path / "alone")
    more = ("--parts", "3", "--on", "ray", "-o", tmp_path / "split")
    result = run("measure", name, *DATA, *more)
    assert result.exit_code == 0, result.output
    assert_same(found_in(tmp_path / "split"), found_in(tmp_path / "alone"))
