"""A folder belongs to one request, and everybody who shares it sees whole files."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

import sigmascope as sg
from sigmascope.runs.folder import MANIFEST, files_of, open_folder, read_manifest, stem_of
from tests.runs.tiny import asked

REQUEST = asked(["a/1", "a/2"])


def test_the_manifest_says_what_was_asked_for(tmp_path: Path) -> None:
    folder = open_folder(tmp_path / "new" / "runs", REQUEST)
    document = json.loads((folder / MANIFEST).read_text())
    assert (document["format"], document["kind"], document["version"]) == ("sigmascope", "runs", 1)
    assert document["content"]["request"]["names"] == ["a/1", "a/2"]
    assert document["content"]["request"]["options"]["seed"] == 0
    assert document["content"]["versions"].keys() == {"sigmascope", "python", "torch", "numpy"}
    manifest = read_manifest(folder)
    assert manifest is not None
    assert manifest.request == REQUEST


def test_the_same_request_returns_to_it(tmp_path: Path) -> None:
    open_folder(tmp_path / "runs", REQUEST)
    before = (tmp_path / "runs" / MANIFEST).read_bytes()
    open_folder(tmp_path / "runs", REQUEST)
    assert (tmp_path / "runs" / MANIFEST).read_bytes() == before


def test_another_request_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    open_folder(tmp_path, REQUEST)
    before = (tmp_path / MANIFEST).read_bytes()
    with pytest.raises(
        sg.ResumeError,
        match=r"a/2 only there; weights is 'default' there and 'none' here\. Use the same settings",
    ):
        open_folder(tmp_path, asked(["a/1"], weights="none"))
    assert (tmp_path / MANIFEST).read_bytes() == before


@pytest.mark.filterwarnings("ignore:waiting for another process")  # on a busy machine
def test_of_two_requests_at_once_one_is_refused(tmp_path: Path) -> None:
    requests = [asked([f"a/{number}"]) for number in range(8)]
    barrier, refused = threading.Barrier(len(requests)), []

    def begin(number: int) -> None:
        barrier.wait()
        try:
            open_folder(tmp_path, requests[number])
        except sg.ResumeError:
            refused.append(requests[number])

    threads = [threading.Thread(target=begin, args=(number,)) for number in range(len(requests))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    manifest = read_manifest(tmp_path)
    assert manifest is not None
    assert len(refused) == len(requests) - 1
    assert manifest.request not in refused


def test_a_folder_with_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(sg.InputError, match=r"other files, such as thesis\.tex"):
        open_folder(tmp_path, REQUEST)
    assert not (tmp_path / MANIFEST).exists()


def test_hidden_files_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / ".gitkeep").touch()
    open_folder(tmp_path, REQUEST)
    assert (tmp_path / MANIFEST).exists()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "runs").touch()
    with pytest.raises(sg.InputError, match="is not a directory"):
        open_folder(tmp_path / "runs", REQUEST)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "truncated, damaged"),
        (b"{}", "not written by sigmascope"),
        (
            b'{"format": "sigmascope", "kind": "signature", "version": 1, "content": {}}',
            "of kind 'signature'",
        ),
        (
            b'{"format": "sigmascope", "kind": "runs", "version": 9, "content": {}}',
            "newer sigmascope",
        ),
        (
            b'{"format": "sigmascope", "kind": "runs", "version": 1, "content": {"request": '
            b'3, "versions": {}}}',
            "content.request",
        ),
        (b"\x80\x04K\x03.", "truncated, damaged"),
    ],
)
def test_a_hostile_manifest_is_refused_by_name(
    tmp_path: Path, content: bytes, message: str
) -> None:
    (tmp_path / MANIFEST).write_bytes(content)
    with pytest.raises(sg.FileFormatError, match=message) as told:
        open_folder(tmp_path, REQUEST)
    assert MANIFEST in str(told.value)
    assert (tmp_path / MANIFEST).read_bytes() == content


def test_a_manifest_that_is_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).mkdir()
    with pytest.raises(sg.FileFormatError, match="is a directory, a device or a pipe"):
        open_folder(tmp_path, REQUEST)


HOSTILE = [
    "../../etc/passwd",
    "/",
    "..",
    ".",
    "",
    "a/1.facts",
    "a/1.error",
    "a/\x00",
    "con\n/x",
    "é/ß",
    "a/" + "b" * 500,
    "-rf /",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_files_stay_in_the_folder_whatever_the_name(tmp_path: Path, name: str) -> None:
    files = files_of(tmp_path, name)
    assert files.finished.parent == tmp_path
    assert len(files.finished.name) < 120
    assert not files.finished.name.startswith((".", "-"))
    assert files.finished.name.isascii()
    files.finished.touch()
    assert [path.name for path in tmp_path.iterdir()] == [files.finished.name]


names = st.one_of(
    st.text(max_size=12),
    st.from_regex(r"[a-zA-Z]{1,2}[/:-][a-zA-Z/:.-]{1,4}(\.facts|\.error)?", fullmatch=True),
)


@given(st.lists(names, unique=True, max_size=30))
def test_different_networks_have_different_files_in_any_case(found: list[str]) -> None:
    folder = Path("runs")
    files = [str(path).lower() for name in found for path in vars(files_of(folder, name)).values()]
    assert len(set(files)) == len(files)


def test_plain_names_are_kept() -> None:
    assert stem_of("timm/convnext_atto.d2_in1k") == "timm-convnext_atto.d2_in1k"
