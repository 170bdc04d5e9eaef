"""`sigmascope.load` opens any file that the library writes, by its kind."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import sigmascope as sg
from sigmascope.runs import Facts, Failure, Runs, measure_runs
from sigmascope.runs.any_file import LOADERS
from sigmascope.runs.outcome import write_record
from sigmascope.store import encode, write_features, write_json
from sigmascope.symmetry import LayerSimilarity
from tests.compare.made import made
from tests.runs.tiny import asked, names_in


def test_signatures(tmp_path: Path) -> None:
    one, two = made("one", [0.5, 0.6]), made("two", [0.1])
    assert sg.load(one.save(tmp_path / "one.json")) == one
    write_json(tmp_path / "shown.json", "signatures", 1, encode([one, two]))
    assert sg.load(str(tmp_path / "shown.json")) == [one, two]


def test_a_directory_of_runs(tmp_path: Path) -> None:
    request = asked(names_in(tmp_path, "conv"))
    [outcome] = measure_runs(request, tmp_path / "runs")
    found = sg.load(tmp_path / "runs")
    assert isinstance(found, Runs)
    assert found.signatures == [outcome.signature]
    assert sg.load(tmp_path / "runs" / "manifest.json") == found
    [facts] = (tmp_path / "runs").glob("*.facts.json")
    assert sg.load(facts) == outcome.facts


def test_records(tmp_path: Path) -> None:
    for record in (Facts("a", None, 1, None, None, "w"), Failure("a", "E", "why", "where")):
        write_record(tmp_path / "a.json", record)
        assert sg.load(tmp_path / "a.json") == record


def test_a_similarity(tmp_path: Path) -> None:
    network = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    found = sg.symmetry.compare(network, network, [torch.randn(8, 4)], pairs="diagonal")
    loaded = sg.load(found.save(tmp_path / "similarity.json"))
    assert isinstance(loaded, LayerSimilarity)
    assert loaded == found


def test_moments(tmp_path: Path) -> None:
    moments = sg.Moments()
    moments.update(torch.randn(100, 3), torch.randn(100, 3))
    found = sg.load(moments.save(tmp_path / "a.safetensors"))
    assert isinstance(found, sg.Moments)
    assert found.score().score == pytest.approx(moments.score().score, abs=1e-12)


def test_sums_of_a_run_belong_to_its_journal(tmp_path: Path) -> None:
    network = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
    sg.signature(network, torch.randn(64, 3), resume=tmp_path / "run.jsonl")
    with pytest.raises(sg.FileFormatError, match=r"sums of a signature\. Pass its journal"):
        sg.load(tmp_path / "run.jsonl.moments.safetensors")


def test_tensors(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    write_features(path, {"x": torch.ones(2)}, {})
    assert sg.load(path)["x"].tolist() == [1.0, 1.0]
    signature = made("beside", [0.5])
    signature.save(tmp_path / "a.json")
    assert sg.load(path) == signature


def test_every_result_that_saves_itself_has_a_loader() -> None:
    from sigmascope.dissection import penalty, result
    from sigmascope.measure import block_result, result as signature
    from sigmascope.runs import folder
    from sigmascope.stitching import result as stitch
    from sigmascope.symmetry import layer_similarity

    modules = (penalty, result, signature, block_result, folder, stitch, layer_similarity)
    assert {module.KIND for module in modules} <= LOADERS.keys()


def test_what_other_functions_read(tmp_path: Path) -> None:
    network = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    journal, keep = tmp_path / "a.journal", tmp_path / "kept"
    sg.signature(network, torch.randn(8, 4), resume=journal, keep=keep, progress=False)
    with pytest.raises(
        sg.FileFormatError, match=r"a\.journal is the journal of .*resume='.*a\.journal'\)\.$"
    ):
        sg.load(journal)
    with pytest.raises(sg.InputError, match=r"kept holds features .*sg\.rescore\('.*kept'\)\.$"):
        sg.load(keep)
    sg.rescore(keep, progress=False).save(keep / "a.json")
    assert len(sg.load(keep).signatures) == 1


def test_other_files(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", "report", 1, {})
    with pytest.raises(sg.FileFormatError, match=r"a\.json is of kind 'report', .* kind signature"):
        sg.load(tmp_path / "a.json")
    (tmp_path / "b.json").write_text("{}")
    with pytest.raises(sg.FileFormatError, match=r"b\.json was not written by sigmascope"):
        sg.load(tmp_path / "b.json")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        sg.load(tmp_path / "nowhere.json")
    with pytest.raises(sg.InputError, match="there is no signature"):
        sg.load(tmp_path)
