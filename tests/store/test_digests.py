"""Digests: what was changed is refused by name, and files of earlier versions are still read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import sigmascope as sg
from sigmascope.dissection import Dissection
from sigmascope.measure.kept_features import kept_calls
from sigmascope.runs import Facts, Failure
from sigmascope.runs.folder import read_manifest
from sigmascope.stitching import StitchResult
from sigmascope.store import Journal, encode, paired, read_features, read_json, write_features
from sigmascope.store.digests import digest_of, digest_of_tensors
from sigmascope.store.documents import write_json
from tests.compare.made import made
from tests.faults.samples import HEADER, dissection, moments, numbers, penalty, similarity, stitch
from tests.resealing import edit

EARLIER = Path(__file__).parent / "earlier"  # written by 0.1.0, without digests


def test_what_was_edited_is_refused_with_a_way_out(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, "scores", 1, {"relu": 0.5, "tanh": 0.25})
    text = path.read_text()
    assert text.count('"digest"') == 1
    path.write_text(text.replace("0.5", "0.6"))
    with pytest.raises(
        sg.FileFormatError,
        match=r"a\.json does not match its digest: it is damaged, or was edited\. Restore a copy or"
        r" write it again\. To accept it as it is, remove its 'digest' entry\.",
    ):
        read_json(path, "scores", 1)
    edit(path, lambda document: None)  # removes the digest
    assert read_json(path, "scores", 1) == {"relu": 0.6, "tanh": 0.25}


def test_the_digest_covers_kind_version_and_order(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, "scores", 2, {"b": 1, "a": 2})
    document = json.loads(path.read_text())
    changes: list[Any] = [{"version": 1}, {"content": {"a": 2, "b": 1}}, {"digest": None}]
    for change in changes:
        path.write_text(json.dumps(document | change))
        with pytest.raises(sg.FileFormatError, match="does not match its digest"):
            read_json(path, "scores", 2, oldest=1)
    path.write_text(json.dumps(document | {"kind": "other"}))
    with pytest.raises(sg.FileFormatError, match="does not match its digest"):
        read_json(path, "other", 2)


def test_layout_is_no_part_of_it(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, "scores", 1, {"relu": 0.5, "name": "σ"})
    path.write_text(json.dumps(json.loads(path.read_text()), indent=4).replace("0.5", "5.0e-1"))
    assert read_json(path, "scores", 1) == {"relu": 0.5, "name": "σ"}


def test_tensors_are_told_apart_by_name_type_shape_and_values() -> None:
    one = {"a": torch.zeros(2, 3), "b": torch.ones(1)}
    others: list[dict[str, torch.Tensor]] = [
        {"a": torch.zeros(2, 3)},
        {**one, "a": torch.zeros(3, 2)},
        {**one, "a": torch.zeros(2, 3, dtype=torch.int32)},
        {**one, "a": -torch.zeros(2, 3)},
        {"c": one["a"], "b": one["b"]},
        {"a": one["b"], "b": one["a"]},
    ]
    found = {digest_of_tensors(each) for each in (one, *others)}
    assert len(found) == 1 + len(others)
    assert digest_of_tensors(dict(reversed(one.items()))) == digest_of_tensors(one)


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.bfloat16, torch.float8_e4m3fn, torch.complex64, torch.int64]
)
def test_tensors_of_all_types_come_back(dtype: torch.dtype, tmp_path: Path) -> None:
    tensors = {"a": torch.ones(3, 2).to(dtype), "b": torch.ones(()).to(dtype)}
    digest = write_features(tmp_path / "a", tensors, {})
    back, _ = read_features(tmp_path / "a")
    assert digest_of_tensors(back) == digest == digest_of_tensors(tensors)


def test_changed_tensors_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    write_features(path, {"a": torch.zeros(4)}, {"site": "2"})
    data = path.read_bytes()
    for changed in (data[:-1] + b"\1", data.replace(b"2", b"3", 1)):
        assert changed != data
        path.write_bytes(changed)
        with pytest.raises(sg.FileFormatError, match=r"a\.safetensors"):
            read_features(path)


PAIRS: dict[str, tuple[Any, Any, Any]] = {
    "stitch": (stitch(), stitch(tensors={"matrix": 2 * numbers(2, 2)}, seed=1), StitchResult.load),
    "dissection": (
        dissection(),
        dissection(
            tensors={name: one.flip(0) / 2 for name, one in dissection().tensors.items()}, samples=5
        ),
        Dissection.load,
    ),
}


@pytest.mark.parametrize("kind", PAIRS)
def test_a_mixture_of_two_results_is_refused(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the two files, the record of one run lies beside the tensors of another."""
    old, new, load = PAIRS[kind]
    path = old.save(tmp_path / "a.json")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt("killed")

    with monkeypatch.context() as patched:
        patched.setattr(paired, "write_json", killed)
        with pytest.raises(KeyboardInterrupt, match="killed"):
            new.save(path)
    with pytest.raises(
        sg.FileFormatError,
        match=rf"a\.json and .*a\.safetensors do not belong together: .*write the {kind} again",
    ):
        load(path)
    new.save(path)
    assert digest_of_tensors(load(path).tensors) == digest_of_tensors(new.tensors)


@pytest.mark.parametrize("kind", PAIRS)
def test_a_mixture_with_files_of_an_earlier_version_is_refused(kind: str, tmp_path: Path) -> None:
    _, new, load = PAIRS[kind]
    path = new.save(tmp_path / "a.json")
    data = path.read_bytes(), path.with_suffix(".safetensors").read_bytes()
    for number, name in enumerate((f"{kind}.json", f"{kind}.safetensors")):
        for file, content in zip((path, path.with_suffix(".safetensors")), data, strict=True):
            file.write_bytes(content)
        shutil.copy(EARLIER / name, (path, path.with_suffix(".safetensors"))[number])
        with pytest.raises(sg.FileFormatError, match="do not belong together"):
            load(path)


def test_files_of_the_first_version_are_read() -> None:
    assert repr(sg.load(EARLIER / "signature.json")) == repr(
        made("one", [0.5, float("nan")], {"cka": [0.25, 0.75]})
    )
    for name, result in (("penalty", penalty()), ("similarity", similarity())):
        assert encode(sg.load(EARLIER / f"{name}.json")) == encode(result)
    for name, pair in (("stitch", stitch()), ("dissection", dissection())):
        found = sg.load(EARLIER / f"{name}.json")
        assert repr(found) == repr(pair)
        assert digest_of_tensors(found.tensors) == digest_of_tensors(pair.tensors)
    assert repr(sg.load(EARLIER / "moments.safetensors").score()) == repr(moments().score())
    assert sg.load(EARLIER / "facts.json") == Facts("tiny", 90.5, 12, 24, 1, "made")
    assert sg.load(EARLIER / "failure.json") == Failure("tiny", "InputError", "why", "where")
    assert [len(calls) for calls in kept_calls(EARLIER / "kept")] == [1, 1]
    manifest = read_manifest(EARLIER / "runs")
    assert manifest is not None
    assert manifest.request.names == ("sigmascope/resnet20",)
    assert not any(b'"digest"' in path.read_bytes() for path in EARLIER.rglob("*.*"))


def test_a_journal_of_the_first_version_is_continued(tmp_path: Path) -> None:
    path = Path(shutil.copy(EARLIER / "lines.journal", tmp_path / "a.journal"))
    with Journal.open(path, HEADER) as journal:
        assert len(journal.records) == 4
        journal.append({"batch": 4})
    assert path.read_text("utf-8").endswith('{"batch": 4}\n')
    with Journal.open(path, HEADER) as journal:
        assert journal.records[4:] == [{"batch": 4}]


def test_a_journal_refuses_lines_that_were_changed_lost_repeated_or_moved(tmp_path: Path) -> None:
    path = tmp_path / "a.journal"
    with Journal.open(path, HEADER) as journal:
        for number in range(5):
            journal.append({"batch": number})
    head, *lines = path.read_bytes().splitlines(keepends=True)
    changed = lines[1].replace(b'"batch": 1', b'"batch": 7')
    for others in (
        [lines[0], changed, *lines[2:]],
        [lines[0], *lines[2:]],
        [*lines[:2], *lines[1:]],
        [lines[0], lines[2], lines[1], *lines[3:]],
    ):
        path.write_bytes(head + b"".join(others))
        with pytest.raises(
            sg.FileFormatError,
            match=r"a\.journal is damaged in line [34]: it does not match its digest, or does not "
            r"belong behind the line before\. Remove that line and all after it, or start again",
        ):
            Journal.open(path, HEADER)
    path.write_bytes(head + b"".join([*lines[:4], lines[4].replace(b"4", b"9")]))
    with Journal.open(path, HEADER) as journal:  # a last line that is torn is cut off
        assert journal.records == [{"batch": number} for number in range(4)]
        journal.append({"batch": 4})
    assert path.read_bytes() == head + b"".join(lines)


def test_a_journal_whose_header_was_changed_is_not_continued(tmp_path: Path) -> None:
    path = tmp_path / "a.journal"
    with Journal.open(path, HEADER):
        pass
    digest = json.loads(path.read_text())["digest"]
    path.write_text(path.read_text().replace(digest, digest_of("other")))
    with pytest.raises(
        sg.FileFormatError, match=r"a\.journal does not match its digest: .*Start again with"
    ):
        Journal.open(path, HEADER)
