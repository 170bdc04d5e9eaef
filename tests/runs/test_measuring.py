"""Several networks, one after the other: what fails is a value, what is there is kept, what was
begun goes on.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sigmascope as sg
from sigmascope.catalog import data, model
from sigmascope.runs import Facts, Failure, Outcome, Selection, Shard, measure_runs, read_runs
from sigmascope.runs.folder import files_of
from sigmascope.runs.outcome import read_record
from sigmascope.store import claim, encode
from tests.runs.tiny import DATA, asked, names_in, network_file


def states(outcomes: list[Outcome]) -> list[str]:
    return [outcome.state for outcome in outcomes]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_the_result_is_that_of_the_library(tmp_path: Path) -> None:
    [name] = names_in(tmp_path, "conv")
    [outcome] = measure_runs(
        asked([name], options={"seed": 4, "metrics": "cka"}), tmp_path / "runs"
    )
    entry = model(name, seed=4)
    batches = data("random:8", limit=64, batch_size=16, seed=4)
    expected = sg.signature(entry.network, batches, name=name, seed=4, metrics="cka")
    assert outcome.signature == expected
    assert outcome.path is not None
    assert sg.load(outcome.path) == expected
    assert outcome.facts == Facts(name, 75.5, 260, entry.flops, 2, "as the function returns it")
    assert outcome.facts == read_record(Facts, files_of(tmp_path / "runs", name).facts or Path())


def test_random_weights_are_those_of_the_seed() -> None:
    embedded = Selection("embedded", limit=32)
    zero, one, again = (
        next(
            measure_runs(
                asked(["sigmascope/resnet20"], embedded, weights="none", options={"seed": seed})
            )
        )
        for seed in (0, 1, 0)
    )
    assert encode(zero.signature) == encode(again.signature)
    assert zero.signature is not None
    assert one.signature is not None
    assert zero.signature.model != one.signature.model
    assert zero.facts is not None
    assert (zero.facts.weights, zero.facts.accuracy) == ("random (seed 0)", None)


def test_failures_are_values_and_the_rest_goes_on(tmp_path: Path) -> None:
    names = [
        *names_in(tmp_path, "conv", "broken", "leaves", "linear", "missing"),
        "sigmascope/resnt20",
        names_in(tmp_path, "wide")[0],
    ]
    outcomes = list(measure_runs(asked(names), tmp_path / "runs"))
    assert states(outcomes) == ["measured", *["failed"] * 5, "measured"]
    told = [outcome.failure.message for outcome in outcomes if outcome.failure]
    assert told[0] == "RuntimeError: the first line and the second"
    assert "exits the program (enough)" in told[1]
    assert "made no activation call" in told[2]
    assert "missing is not a function" in told[3]
    assert "Did you mean 'sigmascope/resnet20'" in told[4]
    for outcome in outcomes:
        files = files_of(tmp_path / "runs", outcome.name)
        assert files.failure is not None
        assert files.finished.exists() == (outcome.state == "measured")
        assert files.failure.exists() == (outcome.state == "failed")
        if outcome.failure:
            assert read_record(Failure, files.failure) == outcome.failure
            assert "Traceback" in outcome.failure.traceback


def test_what_failed_is_tried_again_and_its_record_goes(tmp_path: Path) -> None:
    names = ["sigmascope/resnet20"]
    request = asked(names, Selection("embedded", limit=32))
    files = files_of(tmp_path / "runs", names[0])
    assert files.failure is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sigmascope.runs.network.model", lambda *_, **__: 1 / 0)
        assert states(list(measure_runs(request, tmp_path / "runs"))) == ["failed"]
    assert files.failure.exists()
    assert states(list(measure_runs(request, tmp_path / "runs"))) == ["measured"]
    assert not files.failure.exists()


def test_what_is_finished_is_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = asked(names_in(tmp_path, "conv", "wide"))
    first = list(measure_runs(request, tmp_path / "runs"))
    before = contents(tmp_path / "runs")
    monkeypatch.setattr(
        "sigmascope.runs.network.model", lambda *_, **__: pytest.fail("built again")
    )
    again = list(measure_runs(request, tmp_path / "runs"))
    assert states(again) == ["kept", "kept"]
    assert [one.signature for one in again] == [one.signature for one in first]
    assert [one.facts for one in again] == [one.facts for one in first]
    assert contents(tmp_path / "runs") == before


def test_without_its_facts_a_network_is_not_finished(tmp_path: Path) -> None:
    request = asked(names_in(tmp_path, "conv"))
    list(measure_runs(request, tmp_path / "runs"))
    before = contents(tmp_path / "runs")
    next((tmp_path / "runs").glob("*.facts.json")).unlink()
    assert states(list(measure_runs(request, tmp_path / "runs"))) == ["measured"]
    assert contents(tmp_path / "runs") == before


def test_without_resuming_all_is_measured_again(tmp_path: Path) -> None:
    request = asked(names_in(tmp_path, "conv"))
    assert states(list(measure_runs(request, tmp_path / "runs"))) == ["measured"]
    before = contents(tmp_path / "runs")
    assert states(list(measure_runs(request, tmp_path / "runs", resume=False))) == ["measured"]
    assert contents(tmp_path / "runs") == before


def test_measuring_again_that_fails_leaves_no_old_result(tmp_path: Path) -> None:
    request = asked(names_in(tmp_path, "conv", "wide"))
    list(measure_runs(request, tmp_path / "runs"))
    before = contents(tmp_path / "runs")
    files = files_of(tmp_path / "runs", request.names[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sigmascope.runs.network.model", lambda *_, **__: 1 / 0)
        again = measure_runs(request, tmp_path / "runs", resume=False, shard=Shard(1, 2))
        assert states(list(again)) == ["failed"]
    for paths in ([tmp_path / "runs"], sorted((tmp_path / "runs").glob("*.json"))):
        assert [run.signature.name for run in read_runs(paths).runs] == [request.names[1]]
    assert read_runs([tmp_path / "runs"]).missing == {
        request.names[0]: "ZeroDivisionError: division by zero"
    }
    [note] = read_runs(
        [files.finished, files_of(tmp_path / "runs", request.names[1]).finished]
    ).notes
    assert note.startswith(f"ignored {files.finished}: measuring it again failed, see ")
    assert states(list(measure_runs(request, tmp_path / "runs"))) == ["measured", "kept"]
    assert contents(tmp_path / "runs") == before


def test_a_journal_is_continued_and_one_of_another_network_is_refused(tmp_path: Path) -> None:
    [name] = names_in(tmp_path, "conv")
    request = asked([name])
    entry, batches = model(name), data("random:8", limit=64, batch_size=16)
    journal = files_of(tmp_path / "runs", name).partial
    # only the folder is made
    assert list(measure_runs(request, tmp_path / "runs", shard=Shard(2, 2))) == []

    def noted() -> int:
        return journal.read_bytes().count(b"\n")

    sg.signature(entry.network, batches, name=name, resume=journal)
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:3]) + lines[3][:10])  # two batches, and a torn third
    [outcome] = measure_runs(request, tmp_path / "runs")
    assert outcome.signature == sg.signature(entry.network, batches, name=name)
    assert not journal.exists()

    sg.signature(model(name, seed=1).network, batches, name=name, resume=journal)
    assert noted() == 5
    files_of(tmp_path / "runs", name).finished.unlink()
    [outcome] = measure_runs(request, tmp_path / "runs")
    assert outcome.failure is not None
    assert outcome.failure.error == "ResumeError"
    assert "belongs to another run: model is" in outcome.failure.message
    assert states(list(measure_runs(request, tmp_path / "runs", resume=False))) == ["measured"]


def test_shards_share_a_folder(tmp_path: Path) -> None:
    request = asked(names_in(tmp_path, "conv", "wide", "held"))
    whole = list(measure_runs(request, tmp_path / "whole"))
    parts = [
        list(measure_runs(request, tmp_path / "runs", shard=Shard(index, 2))) for index in (2, 1)
    ]
    assert [[outcome.name for outcome in part] for part in parts] == [
        [whole[1].name],
        [whole[0].name, whole[2].name],
    ]
    assert contents(tmp_path / "runs") == contents(tmp_path / "whole")


def test_a_network_that_another_process_has_is_left_to_it(tmp_path: Path) -> None:
    request = asked(names_in(tmp_path, "conv", "wide"))
    with claim(files_of(tmp_path / "runs", request.names[0]).lock):
        # it comes last: by then it may be finished
        assert states(list(measure_runs(request, tmp_path / "runs"))) == ["measured", "busy"]
    assert states(list(measure_runs(request, tmp_path / "runs"))) == ["measured", "kept"]


@pytest.mark.parametrize("finishes", [True, False])
def test_what_another_process_had_is_looked_at_again_in_the_end(
    tmp_path: Path, finishes: bool
) -> None:
    request = asked(names_in(tmp_path, "conv", "wide"))
    taken = claim(files_of(tmp_path / "runs", request.names[0]).lock)
    outcomes = measure_runs(request, tmp_path / "runs")
    with taken:
        assert next(outcomes).name == request.names[1]
    if finishes:
        list(measure_runs(request, tmp_path / "runs", shard=Shard(1, 2)))
    assert states(list(outcomes)) == ["kept" if finishes else "measured"]


@pytest.mark.parametrize("content", [b"", b"{}", b"\x00" * 100])
def test_a_damaged_signature_is_named_and_kept(tmp_path: Path, content: bytes) -> None:
    request = asked(names_in(tmp_path, "conv", "wide"))
    list(measure_runs(request, tmp_path / "runs"))
    path = files_of(tmp_path / "runs", request.names[0]).finished
    path.write_bytes(content)
    outcomes = list(measure_runs(request, tmp_path / "runs"))
    assert states(outcomes) == ["failed", "kept"]
    assert outcomes[0].failure is not None
    assert str(path) in outcomes[0].failure.message
    assert path.read_bytes() == content


def test_a_signature_of_another_network_is_no_result(tmp_path: Path) -> None:
    request = asked(names_in(tmp_path, "conv", "wide"))
    list(measure_runs(request, tmp_path / "runs"))
    one, other = (files_of(tmp_path / "runs", name).finished for name in request.names)
    one.write_bytes(other.read_bytes())
    outcome = next(measure_runs(request, tmp_path / "runs"))
    assert outcome.failure is not None
    assert "belongs to another run: name is" in outcome.failure.message


def test_one_file_for_one_network(tmp_path: Path) -> None:
    request = asked(names_in(tmp_path, "conv"))
    [outcome] = measure_runs(request, tmp_path / "new" / "conv.json")
    assert outcome.path == tmp_path / "new" / "conv.json"
    assert sg.load(outcome.path) == outcome.signature
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        "conv.facts.json",
        "conv.json",
    ]
    assert read_record(Facts, tmp_path / "new" / "conv.facts.json") == outcome.facts
    outcome.path.write_bytes(outcome.path.read_bytes()[:-20])  # torn, but a signature
    assert states(list(measure_runs(request, outcome.path))) == ["measured"]
    assert sg.load(outcome.path) == outcome.signature
    # anew: a file does not say on which data
    assert states(list(measure_runs(request, outcome.path))) == ["measured"]


@pytest.mark.parametrize(
    "content",
    [b"", b"anything", b"[1, 2]", b'{"format": "sigmascope", "kind": "runs", "version": 1}'],
)
@pytest.mark.parametrize(("name", "kind"), [("x.json", "signature"), ("x.facts.json", "facts")])
def test_a_file_of_something_else_is_never_replaced(
    tmp_path: Path, name: str, kind: str, content: bytes
) -> None:
    request = asked(names_in(tmp_path, "conv"))
    (tmp_path / name).write_bytes(content)
    for resume in (True, False):
        with pytest.raises(
            sg.InputError, match=rf"{name} exists and is not a {kind} file\. Choose another name"
        ):
            measure_runs(request, tmp_path / "x.json", resume=resume)
    assert (tmp_path / name).read_bytes() == content
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["networks.py", name])


def test_the_manifest_of_a_folder_is_never_replaced(tmp_path: Path) -> None:
    request = asked(names_in(tmp_path, "conv"))
    list(measure_runs(request, tmp_path / "runs"))
    before = contents(tmp_path / "runs")
    with pytest.raises(sg.InputError, match=r"manifest\.json exists and is not a signature file"):
        measure_runs(request, tmp_path / "runs" / "manifest.json")
    assert contents(tmp_path / "runs") == before


def test_a_file_that_fails_keeps_the_old_signature_with_its_facts(tmp_path: Path) -> None:
    request = asked(names_in(tmp_path, "conv"))
    list(measure_runs(request, tmp_path / "new" / "conv.json"))
    before = contents(tmp_path / "new")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sigmascope.runs.network.signature", lambda *_, **__: 1 / 0)
        assert states(list(measure_runs(request, tmp_path / "new" / "conv.json"))) == ["failed"]
    assert contents(tmp_path / "new") == before


def test_without_a_place_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = asked(names_in(tmp_path, "conv"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert states(list(measure_runs(request))) == ["measured"]
    assert list((tmp_path / "here").iterdir()) == []


@pytest.mark.parametrize(
    ("data", "device", "message"),
    [
        (Selection("rndom"), "cpu", "Did you mean 'random'"),
        (Selection("cifar10", root="nowhere"), "cpu", "in nowhere"),
        (DATA, "gpu", "device='gpu' cannot be used here"),
    ],
)
def test_what_would_fail_all_is_refused_before_a_folder_is_made(
    tmp_path: Path, data: Selection, device: str, message: str
) -> None:
    with pytest.raises((sg.OptionError, sg.InputError), match=message):
        measure_runs(asked(names_in(tmp_path, "conv"), data), tmp_path / "runs", device=device)
    assert not (tmp_path / "runs").exists()


def test_a_folder_that_cannot_be_written_to_is_a_failure_with_a_name(tmp_path: Path) -> None:
    request = asked(names_in(tmp_path, "conv"))
    files = files_of(tmp_path / "runs", request.names[0])
    assert list(measure_runs(request, tmp_path / "runs", shard=Shard(2, 2))) == []
    files.lock.mkdir()
    [outcome] = measure_runs(request, tmp_path / "runs")
    assert outcome.failure is not None
    assert str(files.lock) in outcome.failure.message


def test_facts_stand_beside_every_signature(tmp_path: Path) -> None:
    """Whenever a run is killed: a signature is written after its facts."""
    request = asked(names_in(tmp_path, "conv"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sg.Signature, "save", lambda *_: 1 / 0)
        list(measure_runs(request, tmp_path / "runs"))
    files = files_of(tmp_path / "runs", request.names[0])
    assert files.facts.exists()
    assert not files.finished.exists()
    assert json.loads(files.facts.read_text())["kind"] == "facts"


def test_the_file_of_networks_is_part_of_the_request(tmp_path: Path) -> None:
    names = names_in(tmp_path, "conv")
    list(measure_runs(asked(names), tmp_path / "runs"))
    path = network_file(tmp_path)
    path.write_text(path.read_text() + "\n")
    with pytest.raises(sg.ResumeError, match=r"files\..*networks\.py is"):
        measure_runs(asked(names), tmp_path / "runs")
