"""One small file of every format that sigmascope stores, for tests that change or remove parts."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import sigmascope as sg
from sigmascope.dissection import Dissection, RotationPenalty
from sigmascope.dissection.fine_tuning import FineTuning
from sigmascope.dissection.masks import Concept
from sigmascope.runs import Facts, Failure, Selection, request_for
from sigmascope.runs.folder import open_folder
from sigmascope.runs.outcome import write_record
from sigmascope.stitching import Settings, StitchResult
from sigmascope.stitching.trainer import Epoch
from sigmascope.store import Journal
from sigmascope.symmetry import LayerSimilarity
from tests.compare.made import made

VERSIONS = {"torch": "2.6.0"}
HEADER: dict[str, object] = {"model": "tiny", "seed": 0}


def numbers(*shape: int) -> Tensor:
    """Return different numbers from 0 to 1, float64."""
    count = math.prod(shape)
    return ((torch.arange(count, dtype=torch.float64) + 0.5) / count).reshape(shape)


def stitch(**changes: Any) -> StitchResult:
    given: dict[str, Any] = {
        "networks": ("one", "two"),
        "site": "2",
        "inner": False,
        "family": "full",
        "channels": 2,
        "style": "conv",
        "front_accuracy": 90.5,
        "back_accuracy": 91.5,
        "stitched_accuracy": 88.25,
        "chosen_accuracy": 88.5,
        "best_epoch": 1,
        "history": (Epoch(1, False, 0.5, 88.5),),
        "settings": Settings(),
        "samples": (64, 16, 32),
        "augment": "none",
        "seed": 0,
        "notes": (),
        "versions": VERSIONS,
        "tensors": {"matrix": numbers(2, 2), "back/1.running_mean": numbers(2).float()},
    }
    return StitchResult(**{**given, **changes})


def dissection(**changes: Any) -> Dissection:
    given: dict[str, Any] = {
        "name": "tiny",
        "samples": 4,
        "units": 2,
        "concepts": (Concept("red", "color"), Concept("dog", "object")),
        "about": "made",
        "size": (2, 2),
        "quantile": 0.9,
        "least_iou": 0.04,
        "powers": (0.0,),
        "seeds": (),
        "notes": (),
        "versions": VERSIONS,
        "tensors": {
            "iou": numbers(1, 1, 2, 2),
            "thresholds": numbers(1, 1, 2),
            "coverage": numbers(2),
        },
    }
    return Dissection(**{**given, **changes})


def penalty(**changes: Any) -> RotationPenalty:
    given: dict[str, Any] = {
        "layer": "0",
        "channels": 2,
        "deviation": 0.5,
        "base_accuracy": 90.5,
        "start_accuracy": 50.5,
        "accuracy": 88.5,
        "best_epoch": 1,
        "history": (50.5, 88.5),
        "frozen": 4,
        "trained": 8,
        "settings": FineTuning(epochs=1),
        "samples": (64, 16, 32),
        "seed": 0,
        "versions": VERSIONS,
    }
    return RotationPenalty(**{**given, **changes})


def similarity(**changes: Any) -> LayerSimilarity:
    given: dict[str, Any] = {
        "networks": ("one", "two"),
        "measure": "procrustes",
        "group": "relu",
        "settings": {"centered": "True"},
        "rows": ("a", "b"),
        "columns": ("c",),
        "similarities": ((0.5,), (0.25,)),
        "channels": ((2, 2), (2,)),
        "live": ((2, 2), (2,)),
        "pairs": "all",
        "samples": 8,
        "missing": (),
    }
    return LayerSimilarity(**{**given, **changes})


def moments() -> sg.Moments:
    found = sg.Moments()
    found.update(numbers(6, 2), numbers(6, 2).square())
    return found


def write_journal(path: Path) -> None:
    with Journal.open(path, HEADER) as journal:
        for number in range(4):
            journal.append({"batch": number, "score": 0.5 + number / 16, "name": "σ"})


def write_run(folder: Path) -> None:
    """Write the journal, the sums and the kept features of a run."""
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    sg.signature(
        network,
        [torch.randn(8, 2), torch.randn(8, 2)],
        resume=folder / "run.journal",
        keep=folder / "kept",
        progress=False,
        name="tiny",
    )


def write_samples(folder: Path) -> None:
    """Write one file, or pair of files, of every format."""
    folder.mkdir(parents=True, exist_ok=True)
    made("one", [0.5, math.nan], {"cka": [0.25, 0.75]}).save(folder / "signature.json")
    stitch().save(folder / "stitch.json")
    dissection().save(folder / "dissection.json")
    penalty().save(folder / "penalty.json")
    similarity().save(folder / "similarity.json")
    moments().save(folder / "moments.safetensors")
    write_record(folder / "facts.json", Facts("tiny", 90.5, 12, 24, 1, "made"))
    write_record(folder / "failure.json", Failure("tiny", "InputError", "why", "where"))
    write_journal(folder / "lines.journal")
    write_run(folder)
    open_folder(folder / "runs", request_for(["sigmascope/resnet20"], Selection("random:32")))
