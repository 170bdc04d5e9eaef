"""Any file that sigmascope writes, opened by its kind."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from sigmascope.checks import check_path
from sigmascope.errors import FileFormatError, InputError
from sigmascope.maths.moments import Moments
from sigmascope.measure.kept_features import FILES
from sigmascope.measure.result import load as load_signature
from sigmascope.runs.loading import read_runs, read_several
from sigmascope.runs.outcome import Facts, Failure, read_record
from sigmascope.store import kind_of, read_features
from sigmascope.store.files import Location, check_source


def _result(module: str, name: str) -> Callable[[Path], Any]:
    """Return a loader that imports a result class when it is used."""
    return lambda path: getattr(import_module(f"sigmascope.{module}"), name).load(path)


LOADERS: dict[str, Callable[[Path], Any]] = {
    "signature": load_signature,
    "signatures": read_several,
    "stitch": _result("stitching", "StitchResult"),
    "layer-similarity": _result("symmetry", "LayerSimilarity"),
    "blocks": _result("measure.block_result", "Blocks"),
    "track": _result("monitoring.track", "Track"),
    "dissection": _result("dissection", "Dissection"),
    "rotation-penalty": _result("dissection", "RotationPenalty"),
    "linearization": _result("linearize", "Linearization"),
    "linearization-plan": _result("linearize", "Plan"),
    "linearized-network": _result("linearize", "SavedNetwork"),
    "facts": lambda path: read_record(Facts, path),
    "failure": lambda path: read_record(Failure, path),
    "runs": lambda path: read_runs([path.parent]),
}
# kind -> what it is, and what reads it
OTHERS = {
    "journal": "the journal of a signature that is not finished. Pass it on: "
    "signature(..., resume=PATH)",
    "linearization-request": "the request of a linearization that is not finished. Run the same "
    "command again: it continues",
    "linearization-summary": "the output of `sigmascope linearize --json`. Load the directory that "
    "`sigmascope linearize -o DIR` writes",
    "stitch-summary": "the output of `sigmascope stitch --json`, without the matrix. Load the file "
    "that `sigmascope stitch -o FILE.json` writes",
}


LINEARIZED = "linearization.json"


def is_linearization(folder: Path) -> bool:
    """Return whether a directory is that of a finished linearization."""
    file = folder / LINEARIZED
    return file.is_file() and kind_of(file) == "linearization"


def _tensors(file: Path) -> Any:
    """Return the moments in a safetensors file, or its tensors."""
    tensors, info = read_features(file)
    if "moments" in info:
        return Moments.from_state(tensors, info["moments"], str(file))
    if "sums" in info:
        raise FileFormatError(
            f"{file} holds the sums of a signature. Pass its journal, the file beside it: "
            "signature(..., resume=JOURNAL)."
        )
    return tensors


def load(path: Location) -> Any:
    """Return what a file or directory written by sigmascope holds, by its kind.

    Args:
        path: a signature, blocks, track, stitch, layer similarity, dissection or rotation penalty:
            the result itself; the output of `sigmascope show --json`: a list of signatures; facts
            or a failure; a directory of runs or its manifest: `Runs`; a directory of
            `sigmascope linearize`, its plan or its network: `Linearization`, `Plan`,
            `SavedNetwork`, of which `sigmascope.linearize.load` builds the network; a safetensors
            file: what belongs to the document of the same name beside it, `Moments`, or else a dict
            of tensors.

    Raises:
        FileNotFoundError: no such file or directory.
        FileFormatError: corrupt, newer than this version, or not a sigmascope file; or a journal,
            which `signature(..., resume=)` reads.
        InputError: a directory without signatures; or one of kept features, which `rescore` reads.

    >>> import tempfile
    >>> import torch
    >>> from sigmascope.measure.signature import signature
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    >>> measured = signature(network, torch.randn(64, 4), name="small")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     same = load(measured.save(f"{folder}/small.json"))
    >>> same.name, same.scores.tolist() == measured.scores.tolist()
    ('small', True)
    """
    check_path("path", path)
    file = Path(path)
    if file.is_dir():
        if any(file.glob(FILES)) and not any(file.glob("*.json")):
            raise InputError(
                f"{path} holds features that signature(..., keep={str(path)!r}) kept. Score them: "
                f"sg.rescore({str(path)!r})."
            )
        return load(file / LINEARIZED) if is_linearization(file) else read_runs([file])
    check_source(file)
    if file.suffix == ".safetensors":
        document = file.with_suffix(".json")
        return load(document) if document.is_file() else _tensors(file)
    kind = kind_of(file)
    if kind in OTHERS:
        raise FileFormatError(f"{path} is {OTHERS[kind].replace('PATH', repr(str(path)))}.")
    if kind and kind not in LOADERS:
        raise FileFormatError(
            f"{path} is of kind {kind!r}, which cannot be loaded. Pass a file of kind "
            f"{', '.join(LOADERS)}."
        )
    return LOADERS.get(kind, load_signature)(file)  # which says what is wrong with other files
