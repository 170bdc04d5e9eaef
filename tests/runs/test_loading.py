"""Reading back: files, directories, what a shell makes of `runs/*`, and files of others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import sigmascope as sg
from sigmascope.runs import load_runs, measure_runs, read_runs
from sigmascope.runs.folder import files_of
from sigmascope.store import encode, write_json
from tests.compare.made import made
from tests.resealing import without_digest
from tests.runs.tiny import asked, names_in


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder of two runs, in an order that is not that of the alphabet."""
    request = asked(names_in(tmp_path, "wide", "conv"))
    list(measure_runs(request, tmp_path / "runs"))
    return tmp_path / "runs"


def names(paths: list[Path]) -> list[str]:
    return [one.name.rpartition(":")[2] for one in load_runs(paths)]


def test_a_folder_in_the_order_of_its_request(runs: Path) -> None:
    assert names([runs]) == ["wide", "conv"]


def test_all_files_of_a_folder_are_no_surprise(runs: Path) -> None:
    found = read_runs(sorted(path for path in runs.iterdir() if not path.name.startswith(".")))
    assert found.notes == ()
    assert [run.signature.name.rpartition(":")[2] for run in found.runs] == ["conv", "wide"]
    assert [run.facts and run.facts.accuracy for run in found.runs] == [75.5, 75.5]


def test_what_is_named_twice_is_read_once(runs: Path) -> None:
    files = sorted(runs.glob("*.json"))
    os.symlink(runs, runs.with_name("link"))
    assert names([runs, *files, runs.with_name("link")]) == ["wide", "conv"]


def test_folders_in_a_folder(tmp_path: Path, runs: Path) -> None:
    request = asked(names_in(tmp_path, "held"))
    list(measure_runs(request, tmp_path / "other"))
    made("alone", [0.5]).save(tmp_path / "alone.json")
    assert names([tmp_path]) == ["alone", "held", "wide", "conv"]


def test_what_a_folder_lacks_is_noted(tmp_path: Path) -> None:
    request = asked(names_in(tmp_path, "conv", "broken", "wide"))
    list(measure_runs(request, tmp_path / "runs"))
    files_of(tmp_path / "runs", request.names[2]).finished.unlink()
    found = read_runs([tmp_path / "runs"])
    assert len(found.runs) == 1
    assert [note.rpartition(":")[2] for note in found.notes] == [
        " it failed",
        " it is not finished",
    ]
    reasons = ["RuntimeError: the first line and the second", "it is not finished"]
    assert found.missing == dict(zip(request.names[1:], reasons, strict=True))
    failure = files_of(tmp_path / "runs", request.names[1]).failure
    assert failure is not None
    failure.write_bytes(failure.read_bytes()[:-9])
    assert read_runs([tmp_path / "runs"]).missing[request.names[1]] == "it failed"


def test_the_manifest_names_the_data(runs: Path) -> None:
    alone = made("alone", [0.5]).save(runs.with_name("alone.json"))
    found = read_runs([runs, alone])
    assert [run.data for run in found.runs] == ["random:8", "random:8", None]
    assert found.missing == {}


def test_what_show_prints_is_read_too(tmp_path: Path) -> None:
    signatures = [made("one", [0.5, 0.6]), made("two", [0.1, float("nan")])]
    write_json(tmp_path / "shown.json", "signatures", 1, encode(signatures))
    found = read_runs([tmp_path / "shown.json", tmp_path])
    assert encode(found.signatures) == encode(signatures)
    assert found.notes == ()
    write_json(tmp_path / "shown.json", "signatures", 1, [])
    with pytest.raises(sg.InputError, match="there is no signature"):
        read_runs([tmp_path])
    write_json(tmp_path / "shown.json", "signatures", 1, [{"name": 3}])
    with pytest.raises(sg.FileFormatError, match=r"shown\.json: content"):
        read_runs([tmp_path])


def test_files_of_others_are_ignored_with_a_note(tmp_path: Path) -> None:
    good = made("good", [0.5, 0.6]).save(tmp_path / "good.json")
    (tmp_path / "list.json").write_text("[1, 2]")
    (tmp_path / "empty.json").touch()
    (tmp_path / "weights.pt").write_bytes(b"\x80\x04" * 1000)
    (tmp_path / "page.json").write_text(
        '{"format": "sigmascope", "kind": "report", "version": 1, "content": {}}'
    )
    os.mkfifo(tmp_path / "pipe")
    strangers = [
        tmp_path / name for name in ("list.json", "empty.json", "weights.pt", "page.json", "pipe")
    ]
    found = read_runs([*strangers, good])
    assert [run.signature.name for run in found.runs] == ["good"]
    reasons = ["not written by sigmascope"] * 3 + ["of kind report", "a device or a pipe"]
    assert found.notes == tuple(
        f"ignored {path}: {reason}" for path, reason in zip(strangers, reasons, strict=True)
    )
    with pytest.warns(UserWarning, match="not written by sigmascope"):
        assert len(load_runs([strangers[0], good])) == 1


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text[:-20], "truncated"),
        (lambda text: text.replace('"version": 2', '"version": 3', 1), "newer"),
        (lambda text: text.replace('"samples": 192', '"samples": "many"'), "samples"),
        (lambda text: text.replace('"score"', '"scare"'), "missing 'score'"),
    ],
)
def test_a_damaged_signature_is_an_error_with_a_name(
    tmp_path: Path, damage: object, message: str
) -> None:
    path = made("good", [0.5, 0.6]).save(tmp_path / "good.json")
    path.write_text(damage(without_digest(path.read_text())))  # type: ignore[operator]
    with pytest.raises(sg.FileFormatError, match=message) as told:
        load_runs([tmp_path])
    assert str(path) in str(told.value)


def test_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load_runs([tmp_path / "nowhere"])
    with pytest.raises(sg.InputError, match=f"no signature in {tmp_path}"):
        load_runs([tmp_path])
    (tmp_path / "notes.txt").touch()
    with pytest.raises(
        sg.InputError, match=r"Ignored .*notes\.txt: not written by sigmascope\. Measure one first"
    ):
        load_runs([tmp_path / "notes.txt"])
    with pytest.raises(sg.InputError, match="no path"):
        load_runs([])
    with pytest.raises(sg.InputTypeError, match="single path"):
        load_runs(tmp_path)  # type: ignore[arg-type]


def test_damaged_facts_are_an_error_with_a_name(runs: Path) -> None:
    path = next(runs.glob("*conv*.facts.json"))
    path.write_text("{}")
    with pytest.raises(sg.FileFormatError, match=r"facts\.json was not written by sigmascope"):
        load_runs([runs])
