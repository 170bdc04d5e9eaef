"""Every format that sigmascope reads: a small file of it, and what it means once it is loaded."""

from __future__ import annotations

import gzip
import io
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.catalog import data
from sigmascope.catalog.weights import load_weights
from sigmascope.catalog.zoo import ZOO_VARIABLE, _index, _zoo_weights, zoo_names
from sigmascope.measure.accumulating import SumsFile
from sigmascope.measure.kept_features import kept_calls
from sigmascope.measure.options import Options
from sigmascope.measure.signature import _earlier
from sigmascope.runs.folder import read_manifest
from sigmascope.store import Journal, encode
from tests.faults.samples import HEADER, write_samples

EARLIER = Path(__file__).resolve().parents[1] / "store" / "earlier"


@dataclass(frozen=True)
class Format:
    """A stored file.

    Attributes:
        path: of the file, within a folder with everything that belongs to it.
        load: folder -> what the file means, as values that can be compared.
        sealed: whether it has a digest: then every other meaning is a failure.
        may_lose: whether it may come back as a beginning of what it was.
    """

    path: str
    load: Callable[[Path], Any]
    sealed: bool = True
    may_lose: bool = False


def stored(name: str) -> Callable[[Path], Any]:
    """Return a loader of a result that prints, encodes and counts itself."""

    def load(folder: Path) -> Any:
        found = sg.load(folder / name)
        parts = [repr(found)]
        if hasattr(found, "to_dict"):
            parts.append(repr(found.to_dict()))
        if hasattr(found, "tensors"):
            return [*parts, repr(found.tensors), found.notes, found.versions]
        return [*parts, repr(encode(found))]

    return load


def journal(name: str, header: dict[str, object] = HEADER) -> Callable[[Path], Any]:
    def load(folder: Path) -> Any:
        with Journal.open(folder / name, header) as opened:
            return opened.records

    return load


def note_run(folder: Path) -> None:
    """Note what the journal of a run says before anything is changed."""
    header, *lines = (folder / "run.journal").read_text("utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    batches = [line.get("record", line)["fingerprint"] for line in records]
    (folder / "run.txt").write_text(json.dumps([json.loads(header)["content"], batches]))


def run_journal(folder: Path) -> Any:
    header, _ = json.loads((folder / "run.txt").read_text())
    with Journal.open(folder / "run.journal", header) as opened:
        return [repr(one) for one in _earlier(opened, "run.journal")]


def sums(folder: Path) -> Any:
    header, batches = json.loads((folder / "run.txt").read_text())
    found = SumsFile(folder / "run.journal", header).restore(Options(), batches)
    return [repr(found.state())] if found.batches else []


def kept(folder: Path) -> Any:
    return repr(
        [
            [(one.call, one.x, one.y, one.index) for one in calls]
            for calls in kept_calls(folder / "kept")
        ]
    )


def manifest(folder: Path) -> Any:
    return repr(read_manifest(folder / "runs"))


def moments(folder: Path) -> Any:
    found = sg.load(folder / "moments.safetensors")
    return [repr(found), repr(found.state() if isinstance(found, sg.Moments) else found)]


SEALED = {
    "signature": Format("signature.json", stored("signature.json")),
    "stitch": Format("stitch.json", stored("stitch.json")),
    "tensors of a stitch": Format("stitch.safetensors", stored("stitch.json")),
    "dissection": Format("dissection.json", stored("dissection.json")),
    "tensors of a dissection": Format("dissection.safetensors", stored("dissection.json")),
    "rotation penalty": Format("penalty.json", stored("penalty.json")),
    "similarity": Format("similarity.json", stored("similarity.json")),
    "moments": Format("moments.safetensors", moments),
    "facts": Format("facts.json", stored("facts.json")),
    "failure": Format("failure.json", stored("failure.json")),
    "journal": Format("lines.journal", journal("lines.journal"), may_lose=True),
    "journal of a run": Format("run.journal", run_journal, may_lose=True),
    "sums of a run": Format("run.journal.moments.safetensors", sums, may_lose=True),
    "kept features": Format("kept/batch-000000.safetensors", kept),
    "manifest": Format("runs/manifest.json", manifest),
}


class Net(nn.Module):
    """A network of the smallest size that has weights and buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(2, 2), nn.BatchNorm1d(2)


def weights(name: str) -> Callable[[Path], Any]:
    def load(folder: Path) -> Any:
        network = Net()
        load_weights(network, folder / name)
        return repr(network.state_dict())

    return load


def zoo(folder: Path) -> Any:
    with patch.dict(os.environ, {ZOO_VARIABLE: str(folder / "zoo")}):
        found = _index(folder / "zoo")
        return [zoo_names(), [_zoo_weights(entry, "tiny", Net()) for entry in found]]


def images(name: str) -> Callable[[Path], Any]:
    def load(folder: Path) -> Any:
        return [repr(batch) for batch in data(name, root=folder / "data")]

    return load


FOREIGN = {
    "index of the zoo": Format("zoo/index.json", zoo),
    "weights of the zoo": Format("zoo/weights/tiny-s0.safetensors", zoo),
    "safetensors checkpoint": Format("net.safetensors", weights("net.safetensors")),
    "torch checkpoint": Format("net.pt", weights("net.pt")),
    "old torch checkpoint": Format("old.pt", weights("old.pt")),
    "arrays": Format("data/cifar10/test_images.npy", images("cifar10")),
    "labels": Format("data/cifar10/test_labels.npy", images("cifar10")),
    "binary images": Format("data/cifar-100-binary/test.bin", images("cifar100")),
    "digits": Format("data/mnist/t10k-images-idx3-ubyte", images("mnist")),
    "compressed digits": Format("data/mnist/t10k-labels-idx1-ubyte.gz", images("mnist")),
}


def formats() -> Iterator[tuple[str, Format]]:
    """Yield every format by name: with a digest, as earlier versions wrote it, and of others."""
    yield from SEALED.items()
    for name, one in SEALED.items():
        yield f"{name} (0.1.0)", replace(one, sealed=False)
    for name, one in FOREIGN.items():
        yield name, replace(one, sealed=name == "weights of the zoo")


def write_all(folder: Path) -> None:
    """Write a file of every format that has a digest, and of those that others write."""
    import hashlib

    write_samples(folder)
    note_run(folder)
    torch.manual_seed(0)
    state: dict[str, Tensor] = Net().state_dict()
    save_file(state, folder / "net.safetensors")
    torch.save(state, folder / "net.pt")
    torch.save({"model": state}, folder / "old.pt", _use_new_zipfile_serialization=False)
    (folder / "zoo" / "weights").mkdir(parents=True)
    save_file(state, folder / "zoo" / "weights" / "tiny-s0.safetensors")
    digest = hashlib.sha256((folder / "net.safetensors").read_bytes()).hexdigest()
    entry = {"network": "tiny", "accuracy": 90.5, "sha256": digest}
    (folder / "zoo" / "index.json").write_text(json.dumps({"tiny-s0": entry}))
    for name in ("cifar10", "cifar-100-binary", "mnist"):
        (folder / "data" / name).mkdir(parents=True)
    pixels = np.arange(2 * 3 * 2 * 2, dtype=np.uint8).reshape(2, 3, 2, 2)
    np.save(folder / "data" / "cifar10" / "test_images.npy", pixels)
    np.save(folder / "data" / "cifar10" / "test_labels.npy", np.array([3, 7]))
    (folder / "data" / "cifar-100-binary" / "test.bin").write_bytes(bytes(3074))
    (folder / "data" / "mnist" / "t10k-images-idx3-ubyte").write_bytes(
        bytes([0, 0, 8, 3, *[0, 0, 0, 2] * 3]) + bytes(range(8))
    )
    with io.BytesIO() as buffer:
        with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as file:
            file.write(bytes([0, 0, 8, 1, 0, 0, 0, 2, 1, 2]))
        (folder / "data" / "mnist" / "t10k-labels-idx1-ubyte.gz").write_bytes(buffer.getvalue())
