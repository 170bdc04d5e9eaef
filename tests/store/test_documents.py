"""JSON documents: what is written comes back, and nothing else is let in."""

from __future__ import annotations

import json
import math
import pickle
import struct
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from sigmascope.errors import FileFormatError, InputError
from sigmascope.store import read_json, write_json
from sigmascope.store.documents import dump, parse, sealed, wrap
from sigmascope.store.files import LIMIT

KIND, VERSION = "scores", 3
CONTENT = {"σ": [0.1, -0.0, 5e-324, 1, True, None, "Zürich 🌍"], "empty": [{}, [], ""]}

finite = st.floats(allow_nan=False, allow_infinity=False)
text = st.text(st.characters(exclude_categories=["Cs"]))
leaves = st.none() | st.booleans() | st.integers(-(2**64) + 1, 2**64 - 1) | finite | text
plain = st.recursive(
    leaves, lambda inner: st.lists(inner) | st.dictionaries(text, inner), max_leaves=20
)


def written(folder: Path, data: bytes) -> Path:
    path = folder / "a.json"
    path.write_bytes(data)
    return path


def document(
    content: str, *, form: str = "sigmascope", kind: str = KIND, version: object = VERSION
) -> bytes:
    head = f'"format": "{form}", "kind": "{kind}", "version": {version}'
    return f'{{{head}, "content": {content}}}'.encode()


@given(plain, st.sampled_from([None, 1]))
def test_dumped_values_come_back(value: object, indent: int | None) -> None:
    data = dump(value, indent)
    assert parse(data) == value
    assert dump(parse(data), indent) == data  # tells 1 from True and 1.0, and 0.0 from -0.0
    if indent is None:
        assert b"\n" not in data


@given(finite)
def test_floats_come_back_bit_for_bit(number: float) -> None:
    back = parse(dump(number))
    assert isinstance(back, float)
    assert struct.pack("d", back) == struct.pack("d", number)


def test_document_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "a.json"
    write_json(path, KIND, VERSION, CONTENT)
    assert read_json(path, KIND, VERSION) == CONTENT
    assert json.loads(path.read_text(encoding="utf-8")) == sealed(wrap(KIND, VERSION, CONTENT))
    lines = path.read_text(encoding="utf-8").splitlines()
    write_json(path, KIND, VERSION, {**CONTENT, "empty": None})
    # a change shows as a change of few lines
    assert len(set(lines) & set(path.read_text(encoding="utf-8").splitlines())) > 10


def test_truncation_at_every_byte(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, KIND, VERSION, CONTENT)
    data = path.read_bytes()
    assert data.endswith(b"}\n")
    for length in range(len(data) - 1):
        with pytest.raises(
            FileFormatError,
            match=r"a\.json is truncated, damaged or not a JSON file .* Restore a copy",
        ):
            read_json(written(tmp_path, data[:length]), KIND, VERSION)
    # only the last newline is gone
    assert read_json(written(tmp_path, data[:-1]), KIND, VERSION) == CONTENT


HOSTILE = {
    "empty": (b"", "Expecting value"),
    "binary": (bytes(range(256)), "codec can't decode"),
    "pickle": (pickle.dumps(CONTENT), "codec can't decode"),
    "old pickle": (pickle.dumps([0.5], protocol=0), "Expecting value"),
    "latin-1": (document('"Zürich"').decode().encode("latin-1"), "codec can't decode"),
    "utf-16": (document("1").decode().encode("utf-16"), "codec can't decode"),
    "byte order mark": (b"\xef\xbb\xbf" + document("1"), "BOM"),
    "surrogate in UTF-8": (document('"x"').replace(b"x", b"\xed\xa0\x80"), "codec can't decode"),
    "half of a pair": (document(r'["\ud83d\ude00", "\uD83D"]'), "surrogates not allowed"),
    "half of a pair as key": (document(r'{"\udc00": 1}'), "surrogates not allowed"),
    "NaN": (document("NaN"), "NaN is not JSON"),
    "Infinity": (document("[Infinity]"), "Infinity is not JSON"),
    "-Infinity": (document("[-Infinity]"), "-Infinity is not JSON"),
    "float out of range": (document("1e999"), "'1e999' is out of range"),
    "integer of 400 digits": (document("1" + "0" * 400), "has more than 64 bits"),
    "integer of a million digits": (document("9" * 10**6), "has more than 64 bits"),
    "integer of 65 bits": (document(f"-{2**64}"), "has more than 64 bits"),
    "key twice": (document('[{"a": 1, "b": 2, "a": 1}]'), "'a' occurs twice"),
    "kind twice": (
        document("1").replace(b'"version"', b'"kind": "x", "version"'),
        "'kind' occurs twice",
    ),
    "deep lists": (b"[" * 10**6 + b"]" * 10**6, "nested too deeply"),
    "deep content": (document('{"a":' * 10**5 + "1" + "}" * 10**5), "nested too deeply"),
    "only brackets": (b"[" * 10**6, "nested too deeply"),
    "two documents": (document("1") * 2, "Extra data"),
    "comment": (b"// " + document("1"), "Expecting value"),
    "trailing comma": (document("[1,]"), "Expecting value|Illegal trailing comma"),
    "zeros": (bytes(100), "Expecting value"),
    "list": (b"[]", "was not written by sigmascope. Pass a scores file"),
    "number": (b"3", "was not written by sigmascope"),
    "foreign": (b'{"format": {"a": 1}, "content": 1}', "was not written by sigmascope"),
    "other format": (document("1", form="onnx"), "was not written by sigmascope"),
    "other kind": (
        document("1", kind="journal"),
        "is of kind 'journal'. Pass a file of kind 'scores'",
    ),
    "no kind": (b'{"format": "sigmascope", "version": 3, "content": 1}', "is of kind None"),
    "newer": (
        document("1", version=4),
        "written by a newer sigmascope: scores version 4, this one reads 3. Upgrade",
    ),
    "older": (
        document("1", version=2),
        "has scores version 2, this sigmascope reads 3. Write it again",
    ),
    "version true": (document("1", version="true"), "has scores version True"),
    "version text": (document("1", version='"3"'), "has scores version '3'"),
    "version float": (document("1", version="3.0"), "has scores version 3.0"),
    "no content": (b'{"format": "sigmascope", "kind": "scores", "version": 3}', "damaged"),
    "more beside the content": (document('1, "more": 2'), "'more'.*damaged"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_file_is_refused_by_name(tmp_path: Path, name: str) -> None:
    data, match = HOSTILE[name]
    with pytest.raises(FileFormatError, match=rf"a\.json.*{match}") as caught:
        read_json(written(tmp_path, data), KIND, VERSION)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    "content", [r'"\ud83d\ude00"', r'"\\ud800"', "-0", "18446744073709551615", "1e-999", " [ ]\n"]
)
def test_unusual_but_sound_json_is_read(tmp_path: Path, content: str) -> None:
    assert read_json(written(tmp_path, document(content)), KIND, VERSION) == json.loads(content)


def test_too_large_and_missing(tmp_path: Path) -> None:
    with (tmp_path / "a.json").open("wb") as file:
        file.truncate(LIMIT + 1)
    with pytest.raises(FileFormatError, match="Is it the right file"):
        read_json(tmp_path / "a.json", KIND, VERSION)
    with pytest.raises(FileNotFoundError, match="missing"):
        read_json(tmp_path / "missing.json", KIND, VERSION)


def circle() -> list[object]:
    items: list[object] = []
    items.append(items)
    return items


def nest(depth: int) -> object:
    value: object = None
    for _ in range(depth):
        value = [value]
    return value


UNWRITABLE = {
    "NaN": (math.nan, "not JSON compliant"),
    "infinity": ({"a": [math.inf]}, "not JSON compliant"),
    "tuple": ({"a": (1, 2)}, "tuples, or keys that are not strings, would come back changed"),
    "key": ({1: 2}, "would come back changed"),
    "keys that collide": ({1: 2, "1": 3}, "occurs twice"),
    "large": (2**64, "more than 64 bits"),
    "object": ({"a": {1, 2}}, "type set is not JSON serializable.*encode"),
    "bytes": (b"a", "type bytes"),
    "half of a pair": ("\ud800", "surrogates not allowed"),
    "circle": (circle(), "Circular"),
    "deep": (nest(10**5), "recursion|nested too deeply"),
}


@pytest.mark.parametrize("name", UNWRITABLE)
def test_what_would_not_come_back_is_not_written(tmp_path: Path, name: str) -> None:
    content, match = UNWRITABLE[name]
    path = tmp_path / "a.json"
    write_json(path, KIND, VERSION, "old")
    with pytest.raises(InputError, match=f"cannot be written as JSON: .*{match}"):
        write_json(path, KIND, VERSION, content)
    assert read_json(path, KIND, VERSION) == "old"


def test_too_much_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sigmascope.store.documents.LIMIT", 200)
    with pytest.raises(InputError, match=r"it has 2.. bytes, the limit is 200"):
        write_json(tmp_path / "a.json", KIND, VERSION, "x" * 100)
    write_json(tmp_path / "a.json", KIND, VERSION, "x")


def test_earlier_versions_are_read_where_they_are_understood(tmp_path: Path) -> None:
    for version in (2, 3):
        path = written(tmp_path, document("[]", version=version))
        assert read_json(path, KIND, VERSION, oldest=2) == []
    for version, match in ((1, r"has scores version 1, this sigmascope reads 3"), (4, "newer")):
        with pytest.raises(FileFormatError, match=match):
            read_json(written(tmp_path, document("[]", version=version)), KIND, VERSION, oldest=2)
